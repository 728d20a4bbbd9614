import { constants } from 'node:os';
import { systemClock } from 'spillway';

/** Until then a second signal is the same Ctrl-C: npm passes on what the terminal sent too. */
const sameMs = 500;

export interface StopSignalOptions {
  /** What is done before it ends; told when it is asked to stop: `what has begun is finished`. */
  readonly first: string;
  /** What is told of the state in which a second signal leaves it; a sentence. */
  readonly left: () => string;
}

/**
 * Hears SIGINT, SIGTERM and the end of who started this process, from when it is made until it
 * is disposed: the first asks to stop, a second ends the process at once.
 */
export class StopSignal implements Disposable {
  readonly #options: StopSignalOptions;
  readonly #stop = new AbortController();
  #askedAt: number | undefined;

  constructor(options: StopSignalOptions) {
    this.#options = options;
    process.on('SIGTERM', this.#end).on('SIGINT', this.#end);
    process.once('disconnect', this.#leave);
  }

  /** Aborts when it is asked to stop. */
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
      process.stderr.write(`${name} again: ended at once. ${this.#options.left()}\n`);
      process.exit(128 + constants.signals[name]);
    }
    this.#askedAt = now;
    process.stderr.write(`Stopping: ${this.#options.first}. Once more ends it at once.\n`);
    this.#stop.abort(new DOMException('stopped by a signal', 'AbortError'));
  };
}
