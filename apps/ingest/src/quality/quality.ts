import { quoted, type Row } from '../table/engine.ts';
import {
  areRecords,
  keyOf,
  type Manifest,
  type ProductName,
  type TableFile,
} from '../table/manifest.ts';
import type { TradeTable } from '../table/trade-table.ts';
import { type Assessment, assess } from './assessment.ts';

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

/**
 * Figures of the files that were looked at, by path. A file never changes, so one that is known is
 * not read again: a look costs what is new.
 */
export class KnownFigures {
  readonly files: Map<string, Figures> = new Map();
  /** By both paths: ids that two files with overlapping ranges both have. */
  readonly shared: Map<string, number> = new Map();
}

/** Figures of one Parquet file; those of a day and a product are summed up from them. */
interface Figures {
  readonly trades: number;
  /** Rows with the id of the row before. */
  readonly repeats: number;
  readonly firstUs: number;
  readonly lastUs: number;
  readonly volume: number;
  readonly badPrices: number;
  readonly badQuantities: number;
  readonly badSides: number;
  readonly incomplete: number;
  readonly gaps: Gaps;
  /** Trades of each hour since 1970, for files of the last days only. */
  readonly hours: readonly (readonly [hour: number, trades: number])[];
}

/** Looks at the files of the table that are not known yet; `nowMs` is UNIX time. */
export async function quality(
  table: TradeTable,
  nowMs: number,
  signal?: AbortSignal,
  known: KnownFigures = new KnownFigures(),
): Promise<Quality> {
  const manifest = await readFigures(table, nowMs, known, signal);
  const files = tradeFiles(manifest);
  const products = [...Map.groupBy(files, keyOf).values()].map((ofProduct) => {
    return productOf(ofProduct, known, nowMs);
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
    ...assess(products),
  };
}

/** The files with trades; those of declared sources have records. */
function tradeFiles({ products, files }: Manifest): readonly TableFile[] {
  const records = new Set(products.filter(({ types }) => areRecords(types)).map(keyOf));
  return files.filter((file) => !records.has(keyOf(file)));
}

/** Reads what is not known yet, and forgets files that are gone; gives the state it is true of. */
async function readFigures(
  table: TradeTable,
  nowMs: number,
  known: KnownFigures,
  signal: AbortSignal | undefined,
): Promise<Manifest> {
  const fresh = (state: Manifest) => tradeFiles(state).filter(({ path }) => !known.files.has(path));
  let manifest = await table.refresh(signal);
  if (fresh(manifest).length > 0) {
    await using view = await table.view(signal, fresh);
    manifest = view.manifest;
    const source = view.source(', filename = true, file_row_number = true');
    const rows = source === undefined ? [] : await view.engine.rows(figuresSql(source), signal);
    const byName = new Map(rows.map((row) => [row.filename, row]));
    for (const [at, { path, lastUs }] of view.files.entries()) {
      const isRecent = lastUs / 1000 > nowMs - recentMs;
      known.files.set(path, figuresOf(byName.get(view.paths[at]) ?? {}, isRecent));
    }
  }
  const files = tradeFiles(manifest);
  const paths = new Set(files.map(({ path }) => path));
  for (const path of known.files.keys()) if (!paths.has(path)) known.files.delete(path);
  await readShared(table, files, known, signal);
  return manifest;
}

/** Counts the ids that two files have, where their ranges overlap: mostly no two do. */
async function readShared(
  table: TradeTable,
  files: readonly TableFile[],
  { shared }: KnownFigures,
  signal: AbortSignal | undefined,
): Promise<void> {
  const pairs = new Map(overlapsOf(files).map((pair) => [nameOf(pair), pair]));
  for (const name of shared.keys()) if (!pairs.has(name)) shared.delete(name);
  const left = [...pairs].filter(([name]) => !shared.has(name));
  if (left.length === 0) return;
  const wanted = new Set(left.flatMap(([, pair]) => pair.map(({ path }) => path)));
  await using view = await table.view(signal, (state) => {
    return state.files.filter(({ path }) => wanted.has(path));
  });
  const places = new Map(view.files.map(({ path }, at) => [path, view.paths[at] as string]));
  for (const [name, [one, other]] of left) {
    const [a, b] = [places.get(one.path), places.get(other.path)];
    // A file that is gone by now counts in the next look.
    if (a === undefined || b === undefined) continue;
    const both = `SELECT count(*) AS n FROM read_parquet(${quoted(b)}) AS b
      SEMI JOIN read_parquet(${quoted(a)}) AS a USING (trade_id)
      WHERE b.trade_id <= ${one.lastId}`;
    const [row = {}] = await view.engine.rows(both, signal);
    shared.set(name, Number(row.n));
  }
}

type Pair = readonly [TableFile, TableFile];

function nameOf([one, other]: Pair): string {
  return `${one.path} ${other.path}`;
}

/** Each file with the one before it that reaches furthest, where their ids overlap. */
function overlapsOf(files: readonly TableFile[]): readonly Pair[] {
  const pairs: Pair[] = [];
  for (const ofProduct of Map.groupBy(files, keyOf).values()) {
    let furthest: TableFile | undefined;
    for (const file of ofProduct.toSorted((a, b) => a.firstId - b.firstId)) {
      if (furthest !== undefined && file.firstId <= furthest.lastId) pairs.push([furthest, file]);
      if (furthest === undefined || file.lastId > furthest.lastId) furthest = file;
    }
  }
  return pairs;
}

function figuresOf(row: Row, isRecent: boolean): Figures {
  const pairs = (value: unknown): readonly (readonly [number, number])[] =>
    ((value ?? []) as readonly Row[]).map((one) => [Number(one.key), Number(one.value)]);
  return {
    trades: Number(row.trades),
    repeats: Number(row.repeats),
    firstUs: Number(row.first_us),
    lastUs: Number(row.last_us),
    volume: Number(row.volume),
    badPrices: Number(row.bad_prices),
    badQuantities: Number(row.bad_quantities),
    badSides: Number(row.bad_sides),
    incomplete: Number(row.incomplete),
    gaps: {
      count: Number(row.gaps),
      sum: Number(row.gap_sum ?? 0),
      squares: Number(row.gap_squares ?? 0),
      longestUs: Number(row.gap_longest ?? 0),
      overHour: Number(row.gap_hours),
      steps: pairs(row.gap_steps),
    },
    hours: isRecent ? pairs(row.hours) : [],
  };
}

/** Of the files of one product, by date and first id. */
function productOf(
  files: readonly TableFile[],
  known: KnownFigures,
  nowMs: number,
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
    health: healthOf(ageMinutes, completenessPct),
    badPrices: sum('badPrices'),
    badQuantities: sum('badQuantities'),
    badSides: sum('badSides'),
    incomplete: sum('incomplete'),
    ...gapsOf(all),
    quietHours: quietHours(all, nowMs),
  };
}

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

const daysMax = 400;
const hourUs = 3_600_000_000;
/** Hours in which quiet ones are looked for, and the age of files whose hours are kept. */
const hoursMax = 720;
const recentMs = 32 * 86_400_000;
/** Longer gaps in time are outages of the market, and say nothing of the data. */
const ignoredUs = 7 * 86_400_000_000;
/** Steps of a doubling in which gaps are counted. */
const stepsPerDoubling = 8;

/** Times between neighbouring trades, in microseconds; those above 7 days only as the longest. */
interface Gaps {
  readonly count: number;
  readonly sum: number;
  readonly squares: number;
  readonly longestUs: number;
  readonly overHour: number;
  /** Number of gaps from 2^(step / 8) µs to the next step. */
  readonly steps: readonly (readonly [step: number, gaps: number])[];
}

/** Figures of each file. Rows come as they lie in it, by ascending id. */
function figuresSql(source: string): string {
  const usual = `FILTER (us <= ${ignoredUs})`;
  return `WITH lines AS NOT MATERIALIZED (SELECT *, epoch_us(trade_ts) AS time_us,
      CASE WHEN file_row_number > 0 THEN time_us - lag(time_us) OVER () END AS us,
      file_row_number > 0 AND trade_id = lag(trade_id) OVER () AS repeats FROM ${source})
    SELECT filename, count(*) AS trades, count(*) FILTER (repeats) AS repeats,
      min(time_us) AS first_us, max(time_us) AS last_us,
      sum(CAST(price AS DOUBLE) * CAST(quantity AS DOUBLE)) AS volume,
      count(*) FILTER (price <= 0) AS bad_prices, count(*) FILTER (quantity <= 0) AS bad_quantities,
      count(*) FILTER (maker_side NOT IN ('buy', 'sell') OR taker_side NOT IN ('buy', 'sell')
        OR maker_side = taker_side) AS bad_sides,
      count(*) FILTER (trade_id IS NULL OR trade_ts IS NULL OR price IS NULL OR quantity IS NULL
        OR maker_side IS NULL OR taker_side IS NULL) AS incomplete,
      count(us) ${usual} AS gaps, sum(us) ${usual} AS gap_sum,
      sum(CAST(us AS DOUBLE) * us) ${usual} AS gap_squares, max(us) AS gap_longest,
      count(*) FILTER (us > ${hourUs}) AS gap_hours,
      histogram(CAST(floor(${stepsPerDoubling} * log2(greatest(us, 1))) AS INTEGER)) ${usual}
        AS gap_steps,
      histogram(time_us // ${hourUs}) AS hours
    FROM lines GROUP BY filename`;
}

type GapQuality = Pick<
  ProductQuality,
  'longestGapMinutes' | 'gapsOverHour' | 'gapsSigma3' | 'gapsSigma4' | 'gapsSigma5'
>;

/** Times between neighbours, also those from one file to the next, against what is usual. */
function gapsOf(all: readonly Figures[]): GapQuality {
  const borders = all.slice(1).map(({ firstUs }, at) => firstUs - (all[at] as Figures).lastUs);
  const gaps = [...all.map((one) => one.gaps), ...borders.map(gapOf)];
  const sum = (name: keyof Omit<Gaps, 'steps'>): number =>
    gaps.reduce((total, one) => total + one[name], 0);
  const mean = sum('sum') / Math.max(1, sum('count'));
  const variance = sum('squares') / Math.max(1, sum('count')) - mean * mean;
  const deviation = Math.sqrt(Math.max(0, variance));
  const above = (sigmas: number): number => {
    const least = mean + sigmas * deviation;
    const steps = gaps.flatMap((one) => one.steps);
    return steps.reduce((total, [step, count]) => {
      return total + (2 ** (step / stepsPerDoubling) > least ? count : 0);
    }, 0);
  };
  return {
    longestGapMinutes: gaps.reduce((most, one) => Math.max(most, one.longestUs), 0) / 60_000_000,
    gapsOverHour: sum('overHour'),
    gapsSigma3: above(3),
    gapsSigma4: above(4),
    gapsSigma5: above(5),
  };
}

function gapOf(us: number): Gaps {
  const isUsual = us <= ignoredUs;
  const step = Math.floor(stepsPerDoubling * Math.log2(Math.max(1, us)));
  return {
    count: isUsual ? 1 : 0,
    sum: isUsual ? us : 0,
    squares: isUsual ? us * us : 0,
    longestUs: us,
    overHour: us > hourUs ? 1 : 0,
    steps: isUsual ? [[step, 1]] : [],
  };
}

/**
 * Hours of the 30 days up to that time with far fewer trades than usual; one without any counts.
 * The first hour is left out, because it did not begin with its first trade.
 */
function quietHours(all: readonly Figures[], nowMs: number): number {
  const end = Math.floor((nowMs * 1000) / hourUs);
  const counts = new Map<number, number>();
  for (const [hour, trades] of all.flatMap(({ hours }) => hours)) {
    if (hour < end - hoursMax || hour >= end) continue;
    counts.set(hour, (counts.get(hour) ?? 0) + trades);
  }
  if (counts.size === 0) return 0;
  const first = Math.min(...counts.keys()) + 1;
  const hours = Array.from({ length: Math.max(...counts.keys()) + 1 - first }, (_, at) => {
    return counts.get(first + at) ?? 0;
  });
  const mean = hours.reduce((sum, one) => sum + one, 0) / hours.length;
  const squares = hours.reduce((sum, one) => sum + (one - mean) ** 2, 0);
  const deviation = Math.sqrt(squares / hours.length);
  return hours.filter((one) => one < mean - 2 * deviation).length;
}
