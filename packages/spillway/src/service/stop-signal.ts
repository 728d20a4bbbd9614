import { constants } from 'node:os';
import { systemClock } from '../base/clock.ts';

/** A second signal within this time is the same Ctrl-C, which npm has passed on as well. */
const sameMs = 500;

export interface StopSignalOptions {
  /** Written to stderr at the first signal: `what has begun is finished first`. @default nothing */
  readonly first?: string | undefined;
  /** A sentence on what a second signal leaves undone; called right before the process ends. */
  readonly left: () => string;
}

/**
 * Listens to SIGINT, SIGTERM and the end of a parent that holds a channel, from when it is made
 * until it is disposed: the first one asks to stop, a second one ends the process at once.
 */
export class StopSignal implements Disposable {
  readonly #options: StopSignalOptions;
  readonly #stop = new AbortController();
  #askedAt: number | undefined = undefined;

  constructor(options: StopSignalOptions) {
    this.#options = options;
    process.on('SIGTERM', this.#ask).on('SIGINT', this.#ask);
    process.once('disconnect', this.#orphan);
  }

  /** Aborts when the process is asked to stop. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  [Symbol.dispose](): void {
    process.off('SIGTERM', this.#ask).off('SIGINT', this.#ask).off('disconnect', this.#orphan);
  }

  /** The parent process has ended: nobody reads a message, and no second signal comes. */
  readonly #orphan = (): void => this.#abort();

  readonly #ask = (name: NodeJS.Signals): void => {
    const { first, left } = this.#options;
    const now = systemClock.now();
    if (this.#askedAt !== undefined && now - this.#askedAt < sameMs) return;
    if (this.#askedAt !== undefined) {
      process.stderr.write(`${name} again: ended at once. ${left()}\n`);
      process.exit(128 + constants.signals[name]);
    }
    this.#askedAt = now;
    if (first !== undefined) {
      process.stderr.write(`Stopping: ${first}. Once more ends it at once.\n`);
    }
    this.#abort();
  };

  #abort(): void {
    this.#stop.abort(new DOMException('stopped by a signal', 'AbortError'));
  }
}
