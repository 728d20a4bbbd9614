import type { Clock } from 'spillway';
import type { MetricFamily } from 'spillway-http';
import type { TradeTable } from '../table/trade-table.ts';
import { type ProductQuality, type Quality, quality } from './quality.ts';

/** One rule, and whether the data keeps to it. */
export interface QualityCheck {
  readonly name: string;
  readonly passed: boolean;
  /** The data must not be used while it fails. */
  readonly isGate: boolean;
  /** What was found, in words. */
  readonly found: string;
}

/** What the numbers mean. */
export interface Assessment {
  /** From 0 to 100. */
  readonly score: number;
  readonly checks: readonly QualityCheck[];
  /** Whether every gate is passed. */
  readonly passed: boolean;
}

/** The rules, and the score of it all. */
export function assess(products: readonly ProductQuality[]): Assessment {
  const checks = checksOf(products);
  const passed = checks.every((one) => one.passed || !one.isGate);
  return { score: scoreOf(products), checks, passed };
}

/**
 * From 100: up to 20 off for repeats, up to 30 for the worst completeness below 99 %, up to 20 for
 * missing ids above 100, and up to 30 for the share of products without a trade for 6 hours.
 */
function scoreOf(products: readonly ProductQuality[]): number {
  if (products.length === 0) return 0;
  const duplicates = total(products, 'duplicates');
  const missing = total(products, 'missing');
  const worst = Math.min(...products.map(({ completenessPct }) => completenessPct));
  const stale = products.filter(({ ageMinutes }) => ageMinutes > 360).length;
  const off =
    Math.min(20, duplicates) +
    (worst < 99 ? Math.min(30, 3 * (100 - worst)) : 0) +
    (missing > 100 ? Math.min(20, missing / 100) : 0) +
    Math.min(30, (100 * stale) / products.length);
  return Math.max(0, 100 - off);
}

function checksOf(products: readonly ProductQuality[]): readonly QualityCheck[] {
  const trades = total(products, 'trades');
  const duplicates = total(products, 'duplicates');
  const missing = total(products, 'missing');
  const newest = Math.min(...products.map(({ ageMinutes }) => ageMinutes));
  const gappy = products.filter(({ gapsOverHour }) => gapsOverHour > 0).length;
  const silent = products.filter(({ ageMinutes }) => ageMinutes > 120).length;
  const critical = products.filter(({ health }) => health === 'critical').length;
  const age = products.length === 0 ? 'no trades' : `newest ${ageText(newest)} old`;
  const none = (name: string, count: number, what: string): QualityCheck => {
    return { name, passed: count === 0, isGate: false, found: `${count} ${what}` };
  };
  return [
    gate('every column has a value', total(products, 'incomplete') === 0, {
      found: `${total(products, 'incomplete')} trades without`,
    }),
    gate('at most 5 % of trades are repeats', duplicates <= 0.05 * trades, {
      found: `${duplicates.toLocaleString('en-US')} of ${trades.toLocaleString('en-US')}`,
    }),
    gate('the newest trade is under 4 hours old', newest <= 240, { found: age }),
    {
      name: 'the newest trade is under 1 hour old',
      passed: newest <= 60,
      isGate: false,
      found: age,
    },
    none('no trade is there twice', duplicates, 'repeats'),
    none('no id is missing', missing, 'ids'),
    none('prices are above 0', total(products, 'badPrices'), 'trades'),
    none('quantities are above 0', total(products, 'badQuantities'), 'trades'),
    none('sides are buy and sell', total(products, 'badSides'), 'trades'),
    atMost('at most 3 products have gaps over an hour', gappy, 3),
    atMost('at most 5 products are silent for 2 hours', silent, 5),
    none('no product is critical', critical, 'products'),
  ];
}

/** Minutes, hours or days, whichever is short. */
export function ageText(minutes: number): string {
  if (minutes < 120) return `${Math.round(minutes)} min`;
  if (minutes < 2880) return `${Math.round(minutes / 60)} h`;
  return `${Math.round(minutes / 1440).toLocaleString('en-US')} days`;
}

function gate(name: string, passed: boolean, { found }: { readonly found: string }): QualityCheck {
  return { name, passed, isGate: true, found };
}

function atMost(name: string, count: number, most: number): QualityCheck {
  return { name, passed: count <= most, isGate: false, found: `${count} products` };
}

type CountName = {
  [Name in keyof ProductQuality]: ProductQuality[Name] extends number ? Name : never;
}[keyof ProductQuality];

function total(products: readonly ProductQuality[], name: CountName): number {
  return products.reduce((sum, one) => sum + one[name], 0);
}

type Value = readonly [product: ProductQuality | undefined, value: number];

/** The numbers of a quality report for Prometheus: those of all, and those of each product. */
export function qualityMetrics(quality: Quality): readonly MetricFamily[] {
  const { products, days, trades } = quality;
  const sum = (of: (product: ProductQuality) => number) => {
    return products.reduce((total, product) => total + of(product), 0);
  };
  const each = (of: (product: ProductQuality) => number): readonly Value[] => {
    return products.map((product) => [product, of(product)]);
  };
  const count = Math.max(1, products.length);
  const most = (of: (product: ProductQuality) => number) => Math.max(0, ...products.map(of));
  const least = (of: (product: ProductQuality) => number) => {
    return products.length === 0 ? 0 : Math.min(...products.map(of));
  };
  const stale = products.filter(({ ageMinutes }) => ageMinutes > 360).length;
  const repeated = products.filter(({ duplicates }) => duplicates > 0).length;
  return [
    one('health_score', 'From 0 to 100.', quality.score),
    one('trades', 'Trades in the table.', trades),
    one('products', 'Products in the table.', products.length),
    one('volume', 'Sum of price times quantity.', quality.volume),
    one('span_days', 'Days from the first trade to the last.', quality.spanDays),
    one('daily_growth', 'Trades a day, on average.', trades / Math.max(1, quality.spanDays)),
    one('daily_trades', 'Trades of the last day.', days.at(-1)?.trades ?? 0),
    one('parquet_bytes', 'Size of all files.', quality.bytes),
    one(
      'age_minutes_mean',
      'Age of the newest trade, on average.',
      sum((p) => p.ageMinutes) / count,
    ),
    one(
      'age_minutes_max',
      'Age of the newest trade, at worst.',
      most((p) => p.ageMinutes),
    ),
    one('stale_products', 'Products without a trade for 6 hours.', stale),
    one(
      'missing_trades',
      'Ids that are not there.',
      sum((p) => p.missing),
    ),
    one(
      'completeness_pct_min',
      'Ids that are there, at worst.',
      least((p) => p.completenessPct),
    ),
    one('completeness_pct_mean', 'Ids that are there.', sum((p) => p.completenessPct) / count),
    one(
      'duplicate_trades',
      'Rows that repeat an id.',
      sum((p) => p.duplicates),
    ),
    one('products_with_duplicates', 'Products with such rows.', repeated),
    many(
      'product_trades',
      'Trades of a product.',
      each((p) => p.trades),
    ),
    many(
      'product_age_minutes',
      'Age of its newest trade.',
      each((p) => p.ageMinutes),
    ),
    many(
      'product_missing_trades',
      'Its ids that are not there.',
      each((p) => p.missing),
    ),
    many(
      'product_completeness_pct',
      'Its ids that are there.',
      each((p) => p.completenessPct),
    ),
  ];
}

function one(name: string, help: string, value: number): MetricFamily {
  return many(name, help, [[undefined, value]]);
}

function many(name: string, help: string, values: readonly Value[]): MetricFamily {
  const samples = values.map(([product, value]) => {
    const labels: Record<string, string> =
      product === undefined ? {} : { exchange: product.exchange, product: product.product };
    return { labels, value };
  });
  return { name: `ingest_quality_${name}`, type: 'gauge', help, samples };
}

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
