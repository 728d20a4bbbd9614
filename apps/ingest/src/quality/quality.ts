import { keyOf, type ProductName, type TableFile } from '../table/manifest.ts';
import type { TradeTable } from '../table/trade-table.ts';
import { type Assessment, assess } from './assessment.ts';
import {
  type Figures,
  gapsOf,
  KnownFigures,
  nameOf,
  overlapsOf,
  quietHours,
  readFigures,
  tradeFiles,
} from './figures.ts';

/** Age of the newest trade of a product: under 1 h, 3 h, 24 h, or more. */
export type Freshness = 'fresh' | 'recent' | 'aging' | 'stale';

/** Health of a product: the worse of its age and its completeness. */
export type Health = 'good' | 'attention' | 'warning' | 'critical';

/** Figures of one product in the table. */
export interface ProductQuality extends ProductName {
  readonly trades: number;
  readonly firstId: number;
  readonly lastId: number;
  /** ISO 8601 in UTC, with microseconds cut to milliseconds. */
  readonly firstAt: string;
  readonly lastAt: string;
  /** The sum of price times quantity, in the currency of the price. */
  readonly volume: number;
  /** Rows with an id that another row has. */
  readonly duplicates: number;
  /** Ids between the first and the last that are not there. */
  readonly missing: number;
  /** The share of ids that is there, in percent. */
  readonly completenessPct: number;
  readonly ageMinutes: number;
  readonly freshness: Freshness;
  readonly health: Health;
  /** Trades whose price is not above 0; and so on. */
  readonly badPrices: number;
  readonly badQuantities: number;
  readonly badSides: number;
  /** Trades without a value in some column. */
  readonly incomplete: number;
  readonly longestGapMinutes: number;
  /** Times between neighbouring trades above an hour. */
  readonly gapsOverHour: number;
  /**
   * Times above the product's mean by 3, 4 and 5 standard deviations, to a tenth of the time; none
   * above 7 days.
   */
  readonly gapsSigma3: number;
  readonly gapsSigma4: number;
  readonly gapsSigma5: number;
  /** Hours of the last 30 days with fewer trades than the mean by 2 standard deviations. */
  readonly quietHours: number;
}

export interface DayQuality {
  /** In UTC, as `2026-01-28`. */
  readonly date: string;
  readonly trades: number;
  readonly volume: number;
}

/** Quality of the data at one moment. */
export interface Quality extends Assessment {
  /** ISO 8601 in UTC. */
  readonly at: string;
  /** The version of the table that was looked at. */
  readonly version: number;
  readonly trades: number;
  readonly volume: number;
  readonly bytes: number;
  readonly files: number;
  /** From the first trade of any product to the last. */
  readonly spanDays: number;
  /** By exchange, then product. */
  readonly products: readonly ProductQuality[];
  /** The last 400 days that have trades, by date. */
  readonly days: readonly DayQuality[];
}

export interface QualityOptions {
  readonly signal?: AbortSignal;
  /** Files that an earlier look has read. @default none */
  readonly known?: KnownFigures;
  /** True if the table is kept up to date: old data is bad then, and a history is not. */
  readonly isFollowed?: boolean;
}

/** Looks at the files of the table that are not known yet; `nowMs` is UNIX time. */
export async function quality(
  table: TradeTable,
  nowMs: number,
  { signal, known = new KnownFigures(), isFollowed = false }: QualityOptions = {},
): Promise<Quality> {
  const manifest = await readFigures(table, nowMs, known, signal);
  const files = tradeFiles(manifest);
  const products = [...Map.groupBy(files, keyOf).values()].map((ofProduct) => {
    return productOf(ofProduct, known, nowMs, isFollowed);
  });
  const first = Math.min(...products.map(({ firstAt }) => Date.parse(firstAt)));
  const last = Math.max(...products.map(({ lastAt }) => Date.parse(lastAt)));
  return {
    at: new Date(nowMs).toISOString(),
    version: manifest.version,
    trades: products.reduce((sum, { trades }) => sum + trades, 0),
    volume: products.reduce((sum, { volume }) => sum + volume, 0),
    bytes: manifest.files.reduce((sum, { bytes }) => sum + bytes, 0),
    files: manifest.files.length,
    spanDays: products.length === 0 ? 0 : (last - first) / 86_400_000,
    products,
    days: daysOf(files, known),
    ...assess(products, isFollowed),
  };
}

/** Of the files of one product, by date and first id. */
function productOf(
  files: readonly TableFile[],
  known: KnownFigures,
  nowMs: number,
  isFollowed: boolean,
): ProductQuality {
  const all = files.map(({ path }) => known.files.get(path) as Figures);
  const sum = (name: keyof Omit<Figures, 'gaps' | 'hours'>): number =>
    all.reduce((total, one) => total + one[name], 0);
  const trades = sum('trades');
  const twice = overlapsOf(files).map((pair) => known.shared.get(nameOf(pair)) ?? 0);
  const duplicates = twice.reduce((total, n) => total + n, sum('repeats'));
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
    firstAt: new Date(firstMs).toISOString(),
    lastAt: new Date(lastMs).toISOString(),
    volume: sum('volume'),
    duplicates,
    missing,
    completenessPct,
    ageMinutes,
    freshness: freshnessOf(ageMinutes),
    health: healthOf(isFollowed ? ageMinutes : 0, completenessPct),
    badPrices: sum('badPrices'),
    badQuantities: sum('badQuantities'),
    badSides: sum('badSides'),
    incomplete: sum('incomplete'),
    ...gapsOf(all),
    quietHours: quietHours(all, nowMs),
  };
}

const daysMax = 400;

/** The last days that have trades, by date. */
function daysOf(files: readonly TableFile[], known: KnownFigures): readonly DayQuality[] {
  const days = [...Map.groupBy(files, ({ date }) => date)].map(([date, ofDay]) => {
    const all = ofDay.map(({ path }) => known.files.get(path) as Figures);
    const trades = all.reduce((sum, one) => sum + one.trades, 0);
    return { date, trades, volume: all.reduce((sum, one) => sum + one.volume, 0) };
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
