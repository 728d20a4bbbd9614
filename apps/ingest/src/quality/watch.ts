import type { Clock, MetricFamily } from 'spillway';
import type { TradeTable } from '../table/trade-table.ts';
import { KnownFigures } from './figures.ts';
import { type ProductQuality, type Quality, quality } from './quality.ts';

type OfQuality = (quality: Quality) => number;
type OfProduct = (product: ProductQuality) => number;

const values = (of: OfProduct, { products }: Quality): number[] => products.map(of);
const sum = (of: OfProduct): OfQuality => {
  return (all) => values(of, all).reduce((total, value) => total + value, 0);
};
const mean = (of: OfProduct): OfQuality => {
  return (all) => sum(of)(all) / Math.max(1, all.products.length);
};
const least = (of: OfProduct): OfQuality => {
  return (all) => (all.products.length === 0 ? 0 : Math.min(...values(of, all)));
};
const age: OfProduct = ({ ageMinutes }) => ageMinutes;
const missing: OfProduct = (product) => product.missing;
const completeness: OfProduct = ({ completenessPct }) => completenessPct;

/** Figures of all products together, for Prometheus and for `stats`. */
const ofAll: readonly (readonly [name: string, help: string, of: OfQuality])[] = [
  ['healthScore', 'From 0 to 100.', ({ score }) => score],
  ['trades', 'Trades in the table.', ({ trades }) => trades],
  ['products', 'Products in the table.', ({ products }) => products.length],
  ['volume', 'Sum of price times quantity.', ({ volume }) => volume],
  ['spanDays', 'Days from the first trade to the last.', ({ spanDays }) => spanDays],
  ['dailyGrowth', 'Trades a day, on average.', (all) => all.trades / Math.max(1, all.spanDays)],
  ['dailyTrades', 'Trades of the last day.', ({ days }) => days.at(-1)?.trades ?? 0],
  ['parquetBytes', 'Size of all files.', ({ bytes }) => bytes],
  ['ageMinutesMean', 'Age of the newest trade, on average.', mean(age)],
  [
    'ageMinutesMax',
    'Age of the newest trade, at worst.',
    (all) => Math.max(0, ...values(age, all)),
  ],
  ['staleProducts', 'Products without a trade for 6 hours.', sum((one) => Number(age(one) > 360))],
  ['missingTrades', 'Ids that are not there.', sum(missing)],
  ['completenessPctMin', 'Ids that are there, at worst.', least(completeness)],
  ['completenessPctMean', 'Ids that are there.', mean(completeness)],
  ['duplicateTrades', 'Rows that repeat an id.', sum(({ duplicates }) => duplicates)],
  [
    'productsWithDuplicates',
    'Products with such rows.',
    sum(({ duplicates }) => Number(duplicates > 0)),
  ],
];

/** Figures of each product. */
const ofEach: readonly (readonly [name: string, help: string, of: OfProduct])[] = [
  ['productTrades', 'Trades of a product.', ({ trades }) => trades],
  ['productAgeMinutes', 'Age of its newest trade.', age],
  ['productMissingTrades', 'Its ids that are not there.', missing],
  ['productCompletenessPct', 'Its ids that are there.', completeness],
];

/** Makes Prometheus metrics of a quality report. */
export function qualityMetrics(quality: Quality): readonly MetricFamily[] {
  const all = ofAll.map(([name, help, of]) => gauge(name, help, [{ value: of(quality) }]));
  const each = ofEach.map(([name, help, of]) => {
    const samples = quality.products.map((one) => {
      return { labels: { exchange: one.exchange, product: one.product }, value: of(one) };
    });
    return gauge(name, help, samples);
  });
  return [...all, ...each];
}

function gauge(
  name: string,
  help: string,
  samples: readonly {
    readonly labels?: Readonly<Record<string, string>>;
    readonly value: number;
  }[],
): MetricFamily {
  const snake = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const labelled = samples.map(({ labels = {}, value }) => ({ labels, value }));
  return { name: `ingest_quality_${snake}`, type: 'gauge', help, samples: labelled };
}

/** Shortest time from one look to the next, in ms. */
const everyMs = 300_000;
/** Looks take at most one part in this many of all time. */
const share = 20;

/** Assesses a changing table periodically, for operators. */
export class QualityWatch {
  readonly #table: TradeTable;
  readonly #clock: Clock;
  readonly #known = new KnownFigures();
  #nextAt = -Infinity;
  last: Quality | undefined;

  /** The clock's `now` is UNIX time in milliseconds. */
  constructor(table: TradeTable, clock: Clock) {
    this.#table = table;
    this.#clock = clock;
  }

  /** Figures of all products together; empty before the first look. */
  get stats(): Readonly<Record<string, number>> {
    const { last } = this;
    return last === undefined
      ? {}
      : Object.fromEntries(ofAll.map(([name, , of]) => [name, of(last)]));
  }

  /** Assesses the table, unless the last look was too recent. */
  async look(signal: AbortSignal): Promise<void> {
    const now = this.#clock.now();
    if (now < this.#nextAt) return;
    this.#nextAt = now + everyMs;
    const looked = { signal, known: this.#known, isFollowed: true };
    const found = await quality(this.#table, now, looked);
    // A slow look delays the next one.
    this.#nextAt = now + Math.max(everyMs, share * (this.#clock.now() - now));
    // Without trades there is nothing to assess.
    if (found.products.length > 0) this.last = found;
  }
}
