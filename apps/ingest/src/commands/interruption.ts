import { constants } from 'node:os';
import { systemClock } from 'spillway';

/** Until then a second signal is the same Ctrl-C: npm passes on what the terminal sent too. */
const sameMs = 500;

/** Hears Ctrl-C and SIGTERM while it is held: the first asks to stop, a second ends at once. */
export class Interruption implements Disposable {
  readonly #stop = new AbortController();
  #askedAt: number | undefined;

  constructor() {
    process.on('SIGTERM', this.#end).on('SIGINT', this.#end);
    process.once('disconnect', this.#leave);
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  [Symbol.dispose](): void {
    process.off('SIGTERM', this.#end).off('SIGINT', this.#end).off('disconnect', this.#leave);
  }

  readonly #leave = (): void => this.#end('SIGTERM');

  readonly #end = (name: NodeJS.Signals): void => {
    const now = systemClock.now();
    if (this.#askedAt !== undefined && now - this.#askedAt < sameMs) return;
    if (this.#askedAt !== undefined) {
      process.stderr.write(`${name} again: ended at once. What is committed stays.\n`);
      process.exit(128 + constants.signals[name]);
    }
    this.#askedAt = now;
    process.stderr.write('Stopping: what is complete is committed. Once more ends it at once.\n');
    this.#stop.abort(new DOMException('stopped by a signal', 'AbortError'));
  };
}
