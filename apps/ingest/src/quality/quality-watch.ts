import type { Clock } from 'spillway';
import type { TradeTable } from '../storage/trade-table.ts';
import { type Quality, quality } from './quality.ts';

export interface QualityWatchOptions {
  readonly table: TradeTable;
  /** Its `now` is UNIX time in milliseconds. */
  readonly clock: Clock;
  /** From one look at all trades to the next, in milliseconds, at least. @default 300,000 */
  readonly everyMs?: number | undefined;
}

/** The quality of a table that changes, as it was at the last look: for operators to watch. */
export class QualityWatch {
  readonly #options: QualityWatchOptions;
  #seenAt = -Infinity;
  last: Quality | undefined;

  constructor(options: QualityWatchOptions) {
    this.#options = options;
  }

  /** The numbers of all products together. */
  get stats(): Readonly<Record<string, number>> {
    if (this.last === undefined) return {};
    const { score, trades, products, bytes, files, volume, spanDays } = this.last;
    const total = (name: 'missing' | 'duplicates') =>
      products.reduce((sum, one) => sum + one[name], 0);
    const ages = products.map(({ ageMinutes }) => ageMinutes);
    return {
      ...{ score, trades, products: products.length, bytes, files, volume, spanDays },
      missing: total('missing'),
      duplicates: total('duplicates'),
      completenessPctMin: Math.min(100, ...products.map((one) => one.completenessPct)),
      ageMinutesMax: Math.max(0, ...ages),
      staleProducts: ages.filter((minutes) => minutes > 360).length,
    };
  }

  /** Looks at all trades, unless it has done so lately. */
  async look(signal: AbortSignal): Promise<void> {
    const { table, clock, everyMs = 300_000 } = this.#options;
    const now = clock.now();
    if (now - this.#seenAt < everyMs) return;
    this.#seenAt = now;
    this.last = await quality(table, now, signal);
  }
}
