import { keyOf, type TableFile } from '../table/manifest.ts';
import type { TradeTable } from '../table/trade-table.ts';
import { assess } from './assessment.ts';
import {
  type Figures,
  gapsOf,
  KnownFigures,
  nameOf,
  overlapsOf,
  quietHours,
  readFigures,
  sumOf,
  tradeFiles,
} from './figures.ts';

/** The age of a product's newest trade: under 1 h, 3 h, 24 h, or more. */
export type Freshness = 'fresh' | 'recent' | 'aging' | 'stale';

/** Health of a product: the worse of its age and its completeness. */
export type Health = 'good' | 'attention' | 'warning' | 'critical';

/** Figures of one product in the table. */
export type ProductQuality = ReturnType<typeof productOf>;

export type DayQuality = ReturnType<typeof daysOf>[number];

/** The quality of the data at one moment. */
export type Quality = Awaited<ReturnType<typeof quality>>;

export interface QualityOptions {
  readonly signal?: AbortSignal;
  /** Figures of files that were read before. @default none */
  readonly known?: KnownFigures;
  /** True if the table is kept up to date, so that old data count as bad. @default false */
  readonly isFollowed?: boolean;
}

/** Assesses the table, and reads its new files for that; `nowMs` is UNIX time. */
export async function quality(
  table: TradeTable,
  nowMs: number,
  { signal, known = new KnownFigures(), isFollowed = false }: QualityOptions = {},
) {
  const manifest = await readFigures(table, nowMs, known, signal);
  const files = tradeFiles(manifest);
  const products = [...Map.groupBy(files, keyOf).values()].map((ofProduct) => {
    return productOf(ofProduct, known, nowMs, isFollowed);
  });
  const first = Math.min(...products.map(({ firstAt }) => Date.parse(firstAt)));
  const last = Math.max(...products.map(({ lastAt }) => Date.parse(lastAt)));
  return {
    /** ISO 8601 in UTC. */
    at: new Date(nowMs).toISOString(),
    /** The assessed version of the table. */
    version: manifest.version,
    trades: sumOf(products, 'trades'),
    volume: sumOf(products, 'volume'),
    bytes: sumOf(manifest.files, 'bytes'),
    files: manifest.files.length,
    /** From the first trade of any product to the last. */
    spanDays: products.length === 0 ? 0 : (last - first) / 86_400_000,
    /** By exchange, then product. */
    products,
    /** The last 400 days that have trades, by date. */
    days: daysOf(files, known),
    ...assess(products, isFollowed),
  };
}

/** Sums up the files of one product, given by date and first id. */
function productOf(
  files: readonly TableFile[],
  known: KnownFigures,
  nowMs: number,
  isFollowed: boolean,
) {
  const all = files.map(({ path }) => known.files.get(path) as Figures);
  const trades = sumOf(all, 'trades');
  const twice = overlapsOf(files).map((pair) => known.shared.get(nameOf(pair)) ?? 0);
  const duplicates = twice.reduce((total, n) => total + n, sumOf(all, 'repeats'));
  const ids = trades - duplicates;
  const firstId = Math.min(...files.map((file) => file.firstId));
  const lastId = Math.max(...files.map((file) => file.lastId));
  const firstMs = Math.min(...all.map(({ firstUs }) => firstUs)) / 1000;
  const lastMs = Math.max(...all.map(({ lastUs }) => lastUs)) / 1000;
  const missing = lastId - firstId + 1 - ids;
  const completenessPct = (100 * ids) / (ids + missing);
  const ageMinutes = Math.max(0, (nowMs - lastMs) / 60_000);
  const { exchange, product } = files[0] as TableFile;
  return {
    exchange,
    product,
    trades,
    firstId,
    lastId,
    /** ISO 8601 in UTC, with microseconds cut to milliseconds. */
    firstAt: new Date(firstMs).toISOString(),
    lastAt: new Date(lastMs).toISOString(),
    /** The sum of price times quantity, in the currency of the price. */
    volume: sumOf(all, 'volume'),
    /** Rows with an id that another row has. */
    duplicates,
    /** Ids between the first and the last that are not there. */
    missing,
    /** The share of ids that is there, in percent. */
    completenessPct,
    ageMinutes,
    freshness: freshnessOf(ageMinutes),
    health: healthOf(isFollowed ? ageMinutes : 0, completenessPct),
    /** Trades whose price is not above 0; and so on. */
    badPrices: sumOf(all, 'badPrices'),
    badQuantities: sumOf(all, 'badQuantities'),
    badSides: sumOf(all, 'badSides'),
    /** Trades without a value in some column. */
    incomplete: sumOf(all, 'incomplete'),
    ...gapsOf(all),
    /** Hours of the last 30 days with fewer trades than the mean by 2 standard deviations. */
    quietHours: quietHours(all, nowMs),
  };
}

const daysMax = 400;

/** The last days that have trades, by date. */
function daysOf(files: readonly TableFile[], known: KnownFigures) {
  const days = [...Map.groupBy(files, ({ date }) => date)].map(([date, ofDay]) => {
    const all = ofDay.map(({ path }) => known.files.get(path) as Figures);
    return { date, trades: sumOf(all, 'trades'), volume: sumOf(all, 'volume') };
  });
  return days.sort((a, b) => (a.date < b.date ? -1 : 1)).slice(-daysMax);
}

function freshnessOf(ageMinutes: number): Freshness {
  if (ageMinutes < 60) return 'fresh';
  if (ageMinutes < 180) return 'recent';
  return ageMinutes < 1440 ? 'aging' : 'stale';
}

function healthOf(ageMinutes: number, completenessPct: number): Health {
  if (ageMinutes > 1440 || completenessPct < 90) return 'critical';
  if (ageMinutes > 180 || completenessPct < 95) return 'warning';
  return ageMinutes > 60 || completenessPct < 99 ? 'attention' : 'good';
}
