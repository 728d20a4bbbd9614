import { checkNumber } from './check.ts';
import type { Clock } from './clock.ts';
import { deadline } from './deadline.ts';

/** The contract of everything that lives: a database, a pool, a backlog, an HTTP server. */
export interface Part {
  /** Unique in its service; errors and stats call the part by it. */
  readonly name: string;
  /**
   * Opens the part; the signal aborts when the service is closed meanwhile. A returned part or
   * disposable is closed with this part, and a returned part is asked whether it is ready.
   */
  start?(options: { readonly signal: AbortSignal }): unknown;
  /** True while the part can work. @default true, once started */
  readonly ready?: boolean | undefined;
  /** The reason why the part is not ready, if known; only operators see it. */
  readonly fault?: string | undefined;
  /** Finishes what is under way and closes the part. */
  close?(options?: CloseOptions): Promise<void>;
}

export interface CloseOptions {
  /** Milliseconds to finish what is left, from 0. @default 10_000 */
  readonly withinMs?: number | undefined;
  /** Ends that time sooner when it aborts. */
  readonly signal?: AbortSignal | undefined;
}

/** Closes something once, within a time limit; every later call gets the outcome of the first. */
export class Closing {
  readonly #clock: Clock;
  readonly #finish: (limit: AbortSignal) => Promise<void>;
  #hasBegun = false;
  #outcome: Promise<void> | undefined = undefined;

  constructor(clock: Clock, finish: (limit: AbortSignal) => Promise<void>) {
    this.#clock = clock;
    this.#finish = finish;
  }

  /** True from the first call of `close`, also within `finish`. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  async close({ withinMs = 10_000, signal }: CloseOptions = {}): Promise<void> {
    checkNumber('withinMs', withinMs, 0);
    this.#hasBegun = true;
    this.#outcome ??= this.#run(withinMs, signal);
    await this.#outcome;
  }

  async #run(withinMs: number, signal: AbortSignal | undefined): Promise<void> {
    using limit = deadline(this.#clock, withinMs, signal);
    await this.#finish(limit.signal);
  }
}
