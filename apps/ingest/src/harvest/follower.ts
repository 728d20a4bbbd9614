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
  /** Joins small raw files, from time to time and between two looks. @default nothing */
  readonly joinRaw?: ((signal: AbortSignal) => Promise<void>) | undefined;
  /** Called when the table has changed. @default nothing */
  readonly onTable?: ((signal: AbortSignal) => Promise<void>) | undefined;
  readonly clock: Clock;
}

export interface FollowerStats {
  readonly rounds: number;
  readonly trades: number;
  readonly requests: number;
  /** Last change of the table; undefined before the first. */
  readonly transformed: Transformed | undefined;
  /** Last failure, until it goes well again. */
  readonly error: string | undefined;
  readonly products: readonly ProductOutcome[];
}

/** A trade of a busy day is written three times: as it comes, with 64 others, with 64 of those. */
const joinsFrom = 64;
/** From one joining of raw files to the next, in milliseconds. */
const joinMs = 120_000;
/** From one look for the first trades to the next, in milliseconds. */
const firstMs = 500;

/**
 * Keeps products up to date until it is stopped; what fails is tried again in the next round. What
 * is committed when it stops comes into the table when anybody brings that up to date.
 */
export class Follower {
  readonly #options: FollowerOptions;
  #rounds = 0;
  #transformed: Transformed | undefined;
  readonly #errors = new Map<string, string>();
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
      error: [...this.#errors.values()].join('; ') || undefined,
      products: harvester.outcomes,
    };
  }

  /** Harvests and brings the table up to date side by side: neither waits for the other. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, transformMs = 15_000 } = this.#options;
    const transforming = async (): Promise<void> => {
      while (!signal.aborted) {
        const startedAt = clock.now();
        await this.#attempt('table', () => this.#transform(signal), signal);
        const everyMs = this.#transformed === undefined ? firstMs : transformMs;
        await pause(clock, everyMs - (clock.now() - startedAt), signal);
      }
    };
    await Promise.all([this.#harvest(signal), transforming()]);
  }

  async #harvest(signal: AbortSignal): Promise<void> {
    const { products, harvester, filler, clock } = this.#options;
    const { pollMs = 2_000, fillMs = 600_000 } = this.#options;
    let filledAt = clock.now();
    let joinedAt = clock.now();
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
        if (clock.now() - joinedAt < joinMs) return;
        joinedAt = clock.now();
        await this.#options.joinRaw?.(signal);
      };
      await this.#attempt('harvest', work, signal);
      this.#rounds += 1;
      await pause(clock, isBehind ? 0 : pollMs - (clock.now() - startedAt), signal);
    }
  }

  async #attempt(
    name: 'harvest' | 'table',
    work: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await work();
      this.#errors.delete(name);
    } catch (error) {
      if (signal.aborted) return;
      this.#errors.set(name, error instanceof Error ? error.message : String(error));
    }
  }

  async #transform(signal: AbortSignal): Promise<void> {
    const { transformer, onTable } = this.#options;
    const { trades } = this.stats;
    const isBegun = trades > 0 || this.#rounds > 0;
    if (!isBegun || (this.#transformed !== undefined && trades === this.#tradesInTable)) return;
    const request = { rebuild: false, waits: true, joinsFrom };
    this.#transformed = await transformer.run(request, signal);
    this.#tradesInTable = trades;
    await onTable?.(signal);
  }
}

/** Ends early, and without a complaint, when the signal aborts. */
async function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0) return;
  using limit = deadline(clock, ms, signal);
  await untilAborted(new Promise<never>(() => {}), limit.signal).catch(() => {});
}
