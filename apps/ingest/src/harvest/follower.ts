import { type Clock, deadline } from 'spillway';
import { untilAborted } from 'spillway/internal';
import type { Harvester } from './harvester.ts';
import type { ProductOutcome } from './product.ts';
import type { Transformed, Transformer } from './transformer.ts';

export interface FollowerOptions {
  readonly products: readonly string[];
  /** Fetches what is new, in slices. */
  readonly harvester: Harvester;
  /** Asks again for what is noted as missing. */
  readonly filler: Harvester;
  readonly transformer: Transformer;
  /** From one look at the exchange to the next, in milliseconds. @default 2,000 */
  readonly pollMs?: number | undefined;
  /** From one change of the table to the next, in milliseconds. @default 15,000 */
  readonly transformMs?: number | undefined;
  /** From one try to fill gaps to the next, in milliseconds. @default 600,000 */
  readonly fillMs?: number | undefined;
  /** Called when the table has changed. @default nothing */
  readonly onTable?: ((signal: AbortSignal) => Promise<void>) | undefined;
  readonly clock: Clock;
}

export interface FollowerStats {
  readonly rounds: number;
  readonly trades: number;
  readonly requests: number;
  /** What the table got last; undefined before the first time. */
  readonly transformed: Transformed | undefined;
  /** What went wrong last, until it goes well again. */
  readonly error: string | undefined;
  readonly products: readonly ProductOutcome[];
}

/**
 * Keeps products up to date until it is stopped; what fails is tried again in the next round. What
 * is committed when it stops comes into the table when anybody brings that up to date.
 */
export class Follower {
  readonly #options: FollowerOptions;
  #rounds = 0;
  #transformed: Transformed | undefined;
  #error: string | undefined;
  #tradesInTable = 0;

  constructor(options: FollowerOptions) {
    this.#options = options;
  }

  get stats(): FollowerStats {
    const { harvester, filler } = this.#options;
    return {
      rounds: this.#rounds,
      trades: harvester.trades + filler.trades,
      requests: harvester.requests,
      transformed: this.#transformed,
      error: this.#error,
      products: harvester.outcomes,
    };
  }

  async run(signal: AbortSignal): Promise<void> {
    const { products, harvester, filler, clock } = this.#options;
    const { pollMs = 2_000, transformMs = 15_000, fillMs = 600_000 } = this.#options;
    let transformedAt = -Infinity;
    let filledAt = clock.now();
    while (!signal.aborted) {
      const startedAt = clock.now();
      let isBehind = false;
      const work = async () => {
        isBehind = (await harvester.round(products, signal)).length > 0;
        const hasGaps = harvester.outcomes.some(({ gaps }) => gaps > 0);
        if (hasGaps && clock.now() - filledAt >= fillMs) {
          filledAt = clock.now();
          await filler.round(products, signal);
        }
        if (clock.now() - transformedAt < transformMs) return;
        transformedAt = clock.now();
        await this.#transform(signal);
      };
      await this.#attempt(work, signal);
      this.#rounds += 1;
      const waitMs = isBehind ? 0 : pollMs - (clock.now() - startedAt);
      if (waitMs > 0) await pause(clock, waitMs, signal);
    }
  }

  async #attempt(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    try {
      await work();
      this.#error = undefined;
    } catch (error) {
      if (signal.aborted) return;
      this.#error = error instanceof Error ? error.message : String(error);
    }
  }

  async #transform(signal: AbortSignal): Promise<void> {
    const { transformer, onTable } = this.#options;
    const { trades } = this.stats;
    if (this.#transformed !== undefined && trades === this.#tradesInTable) return;
    this.#transformed = await transformer.run({ rebuild: false, waits: true }, signal);
    this.#tradesInTable = trades;
    await onTable?.(signal);
  }
}

/** Ends early, and without a complaint, when the signal aborts. */
async function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  using limit = deadline(clock, ms, signal);
  await untilAborted(new Promise<never>(() => {}), limit.signal).catch(() => {});
}
