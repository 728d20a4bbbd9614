import { checkNumber } from './check.ts';
import type { Clock } from './clock.ts';
import { deadline } from './deadline.ts';

export interface CloseOptions {
  /** How long to go on with what is left, in milliseconds; 10,000 by default. */
  readonly withinMs?: number | undefined;
  /** Ends that earlier. */
  readonly signal?: AbortSignal | undefined;
}

/** The end of something, within a time: it comes once, and every call gets its outcome. */
export class Closing {
  readonly #clock: Clock;
  readonly #finish: (limit: AbortSignal) => Promise<void>;
  #outcome: Promise<void> | undefined = undefined;

  constructor(clock: Clock, finish: (limit: AbortSignal) => Promise<void>) {
    this.#clock = clock;
    this.#finish = finish;
  }

  get hasBegun(): boolean {
    return this.#outcome !== undefined;
  }

  async close({ withinMs = 10_000, signal }: CloseOptions): Promise<void> {
    checkNumber('withinMs', withinMs, 0);
    this.#outcome ??= this.#run(withinMs, signal);
    await this.#outcome;
  }

  async #run(withinMs: number, signal: AbortSignal | undefined): Promise<void> {
    using limit = deadline(this.#clock, withinMs, signal);
    await this.#finish(limit.signal);
  }
}
