import { untilAborted } from '../base/abort.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { anything, callback, flag, maybe, or, positive, settle, word } from '../base/options.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import type { Task } from '../base/task.ts';

export interface EveryOptions {
  /** The name of the part. */
  readonly name: string;
  /** The pause between the end of one run and the start of the next, in milliseconds, above 0. */
  readonly periodMs: number;
  /** The work of one run; its signal aborts when there is no more time to close. */
  readonly run: Task<unknown>;
  /** Runs at the start, too. @default false */
  readonly atStart?: boolean | undefined;
  /** Told of each run that failed; the next one comes all the same. */
  readonly onError?: ((error: unknown) => void) | undefined;
  readonly clock?: Clock | undefined;
}

export interface EveryStats {
  readonly kind: 'every';
  readonly runs: number;
  readonly failures: number;
  readonly isRunning: boolean;
}

/** Work that is done again and again, one run at a time, from `start` until `close`. */
export class Every implements Part, AsyncDisposable {
  readonly name: string;
  readonly #options: Pick<EveryOptions, 'run' | 'onError'> & {
    readonly periodMs: number;
    readonly atStart: boolean;
    readonly clock: Clock;
  };
  readonly #closing: Closing;
  readonly #end = new AbortController();
  #timer: Disposable | undefined = undefined;
  #running: Promise<void> | undefined = undefined;
  #isStarted = false;
  #runs = 0;
  #failures = 0;

  constructor(options: EveryOptions) {
    this.#options = settle('every', options, {
      name: word,
      periodMs: positive(),
      run: callback,
      atStart: or(flag, false),
      onError: maybe(callback),
      clock: or(anything, systemClock),
    });
    this.name = options.name;
    this.#closing = new Closing(this.#options.clock, (limit) => this.#close(limit));
  }

  /** True from `start` until `close`. */
  get ready(): boolean {
    return this.#isStarted && !this.#closing.hasBegun;
  }

  get stats(): EveryStats {
    const isRunning = this.#running !== undefined;
    return { kind: 'every', runs: this.#runs, failures: this.#failures, isRunning };
  }

  start(): void {
    if (this.#isStarted || this.#closing.hasBegun) return;
    this.#isStarted = true;
    if (this.#options.atStart) this.#begin();
    else this.#arm();
  }

  /** Starts no run any more and waits for the one under way; aborts it when the time is over. */
  close(options?: CloseOptions): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #arm(): void {
    this.#timer = this.#options.clock.after(this.#options.periodMs, () => this.#begin());
  }

  #begin(): void {
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      if (!this.#closing.hasBegun) this.#arm();
    });
  }

  async #run(): Promise<void> {
    const { run, onError } = this.#options;
    try {
      await run(this.#end.signal);
      this.#runs += 1;
    } catch (error) {
      this.#failures += 1;
      onError?.(error);
    }
  }

  async #close(limit: AbortSignal): Promise<void> {
    this.#timer?.[Symbol.dispose]();
    const running = this.#running ?? Promise.resolve();
    const abort = () => this.#end.abort(limit.reason);
    if (limit.aborted) abort();
    else limit.addEventListener('abort', abort, { once: true });
    await untilAborted(running, limit);
  }
}

/** A part that does some work again and again: `every({ name, periodMs: 60_000, run: sweep })`. */
export function every(options: EveryOptions): Every {
  return new Every(options);
}
