import { quoted, type Row } from '../table/engine.ts';
import { areRecords, keyOf, type Manifest, type TableFile } from '../table/manifest.ts';
import type { TradeTable } from '../table/trade-table.ts';

const hourUs = 3_600_000_000;
/** Hours that are searched for quiet ones, and the age of files whose hours are counted. */
const hoursMax = 720;
const recentMs = 32 * 86_400_000;
/** Longer gaps are outages of the market, and not a matter of quality. */
const ignoredUs = 7 * 86_400_000_000;
/** Histogram steps per doubling of a gap. */
const stepsPerDoubling = 8;

/**
 * Figures of files that were read. A file never changes, so that only new files have to be read.
 */
export class KnownFigures {
  /** By path. */
  readonly files: Map<string, Figures> = new Map();
  /** Ids that two files with overlapping ranges share, by both paths. */
  readonly shared: Map<string, number> = new Map();
}

/** Filter for times between trades; longer ones count only for the longest gap. */
const usual = `FILTER (us <= ${ignoredUs})`;

/** The numeric figures of one Parquet file, as SQL on its rows. */
const numbers = {
  trades: 'count(*)',
  /** Rows with the id of the row before. */
  repeats: 'count(*) FILTER (repeats)',
  firstUs: 'min(time_us)',
  lastUs: 'max(time_us)',
  volume: 'sum(CAST(price AS DOUBLE) * CAST(quantity AS DOUBLE))',
  badPrices: 'count(*) FILTER (price <= 0)',
  badQuantities: 'count(*) FILTER (quantity <= 0)',
  badSides: `count(*) FILTER (maker_side NOT IN ('buy', 'sell')
    OR taker_side NOT IN ('buy', 'sell') OR maker_side = taker_side)`,
  incomplete: `count(*) FILTER (trade_id IS NULL OR trade_ts IS NULL OR price IS NULL
    OR quantity IS NULL OR maker_side IS NULL OR taker_side IS NULL)`,
  gaps: `count(us) ${usual}`,
  gapSum: `sum(us) ${usual}`,
  gapSquares: `sum(CAST(us AS DOUBLE) * us) ${usual}`,
  gapLongestUs: 'max(us)',
  gapsOverHour: `count(*) FILTER (us > ${hourUs})`,
};

type Numbers = Readonly<Record<keyof typeof numbers, number>>;
type Histogram = readonly (readonly [key: number, count: number])[];

/** Figures of one Parquet file, which are summed up for a day or a product. */
export interface Figures extends Numbers {
  /** Number of gaps from 2^(step / 8) µs to the next step. */
  readonly gapSteps: Histogram;
  /** Trades of each hour since 1970, for files of the last days only. */
  readonly hours: Histogram;
}

/** Sums up one figure of many files. */
export function sumOf<Name extends string>(
  all: readonly Readonly<Record<Name, number>>[],
  name: Name,
): number {
  return all.reduce((sum, one) => sum + one[name], 0);
}

/** Lists files with trades, without those of declared sources with records. */
export function tradeFiles({ products, files }: Manifest): readonly TableFile[] {
  const records = new Set(products.filter(({ types }) => areRecords(types)).map(keyOf));
  return files.filter((file) => !records.has(keyOf(file)));
}

/** Reads new files, and forgets deleted ones; returns the state that the figures describe. */
export async function readFigures(
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

/** Counts ids that two files share, where their ranges overlap, which is rare. */
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
    const a = places.get(one.path);
    const b = places.get(other.path);
    // A file deleted meanwhile is left for the next look.
    if (a === undefined || b === undefined) continue;
    const both = `SELECT count(*) AS n FROM read_parquet(${quoted(b)}) AS b
      SEMI JOIN read_parquet(${quoted(a)}) AS a USING (trade_id)
      WHERE b.trade_id <= ${one.lastId}`;
    const [row = {}] = await view.engine.rows(both, signal);
    shared.set(name, Number(row.n));
  }
}

type Pair = readonly [TableFile, TableFile];

export function nameOf([one, other]: Pair): string {
  return `${one.path} ${other.path}`;
}

/** Pairs each file with the furthest-reaching one before it, if their ids overlap. */
export function overlapsOf(files: readonly TableFile[]): readonly Pair[] {
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
  const pairs = (value: unknown): Histogram =>
    ((value ?? []) as readonly Row[]).map((one) => [Number(one.key), Number(one.value)]);
  const hours = isRecent ? pairs(row.hours) : [];
  return { ...(row as unknown as Numbers), gapSteps: pairs(row.gapSteps), hours };
}

/** Selects the figures of each file, whose rows are read in their order, by ascending id. */
function figuresSql(source: string): string {
  const figures = Object.entries(numbers).map(([name, sql]) => {
    return `coalesce(CAST(${sql} AS DOUBLE), 0) AS "${name}"`;
  });
  return `WITH lines AS NOT MATERIALIZED (SELECT *, epoch_us(trade_ts) AS time_us,
      CASE WHEN file_row_number > 0 THEN time_us - lag(time_us) OVER () END AS us,
      file_row_number > 0 AND trade_id = lag(trade_id) OVER () AS repeats FROM ${source})
    SELECT filename, ${figures.join()},
      histogram(CAST(floor(${stepsPerDoubling} * log2(greatest(us, 1))) AS INTEGER)) ${usual}
        AS "gapSteps",
      histogram(time_us // ${hourUs}) AS hours
    FROM lines GROUP BY filename`;
}

/** Compares times between trades, also across files, with their mean. */
export function gapsOf(all: readonly Figures[]) {
  const borders = all.slice(1).map(({ firstUs }, at) => firstUs - (all[at] as Figures).lastUs);
  const parts = [...all, ...borders.map(gapOf)];
  const count = Math.max(1, sumOf(parts, 'gaps'));
  const mean = sumOf(parts, 'gapSum') / count;
  const variance = sumOf(parts, 'gapSquares') / count - mean * mean;
  const deviation = Math.sqrt(Math.max(0, variance));
  const above = (sigmas: number): number => {
    const least = mean + sigmas * deviation;
    const steps = parts.flatMap(({ gapSteps }) => gapSteps);
    return steps.reduce((total, [step, gaps]) => {
      return total + (2 ** (step / stepsPerDoubling) > least ? gaps : 0);
    }, 0);
  };
  return {
    longestGapMinutes: parts.reduce((most, one) => Math.max(most, one.gapLongestUs), 0) / 60e6,
    /** Number of gaps above an hour. */
    gapsOverHour: sumOf(parts, 'gapsOverHour'),
    /** Gaps above the mean by 3, 4 and 5 standard deviations, to a tenth; none above 7 days. */
    gapsSigma3: above(3),
    gapsSigma4: above(4),
    gapsSigma5: above(5),
  };
}

/** Makes figures of one gap, like those of a file. */
function gapOf(us: number) {
  const isUsual = us <= ignoredUs;
  const step = Math.floor(stepsPerDoubling * Math.log2(Math.max(1, us)));
  const gapSteps: Histogram = isUsual ? [[step, 1]] : [];
  return {
    gaps: isUsual ? 1 : 0,
    gapSum: isUsual ? us : 0,
    gapSquares: isUsual ? us * us : 0,
    gapLongestUs: us,
    gapsOverHour: us > hourUs ? 1 : 0,
    gapSteps,
  };
}

/**
 * Counts hours of the last 30 days with far fewer trades than usual, or none. The first hour is
 * left out, as the history may begin in the middle of it.
 */
export function quietHours(all: readonly Figures[], nowMs: number): number {
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
