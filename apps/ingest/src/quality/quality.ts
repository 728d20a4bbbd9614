import type { Row } from '../storage/engine.ts';
import { keyOf, type ProductName } from '../storage/table-draft.ts';
import type { TradeTable } from '../storage/trade-table.ts';
import { type Assessment, assess } from './assessment.ts';
import { daysSql, gapsSql, perDaySql, productsSql, quietHoursSql } from './quality-sql.ts';

/** How old the newest trade of a product is: under 1 h, 3 h, 24 h, or more. */
export type Freshness = 'fresh' | 'recent' | 'aging' | 'stale';

/** How a product is doing: the worst of its age and its completeness. */
export type Health = 'good' | 'attention' | 'warning' | 'critical';

/** What the table tells of one product. */
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
  /** Times above the product's mean by 3, 4 and 5 standard deviations; none above 7 days. */
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

/** How good the data is, as of one moment. */
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

/** Looks at every trade of the table; `nowMs` is UNIX time. */
export async function quality(
  table: TradeTable,
  nowMs: number,
  signal?: AbortSignal,
): Promise<Quality> {
  await using view = await table.view({ signal });
  const { engine, manifest } = view;
  const rows = async (sql: string) => await engine.rows(sql, signal);
  await engine.run(perDaySql, signal);
  const gaps = byProduct(await rows(gapsSql));
  const quiet = byProduct(await rows(quietHoursSql(nowMs * 1000)));
  const products = (await rows(productsSql)).map((row) => {
    const key = keyOf(row as unknown as ProductName);
    return productOf(row, gaps.get(key) ?? {}, quiet.get(key) ?? {}, nowMs);
  });
  const days = (await rows(daysSql)).map(({ date, trades, volume }) => {
    return { date: String(date), trades: Number(trades), volume: Number(volume) };
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
    days: days.reverse(),
    ...assess(products),
  };
}

function productOf(row: Row, gaps: Row, quiet: Row, nowMs: number): ProductQuality {
  const [trades, ids] = [Number(row.trades), Number(row.ids)];
  const [firstId, lastId] = [Number(row.first_id), Number(row.last_id)];
  const [firstMs, lastMs] = [Number(row.first_us) / 1000, Number(row.last_us) / 1000];
  const missing = lastId - firstId + 1 - ids;
  const completenessPct = (100 * ids) / (ids + missing);
  const ageMinutes = Math.max(0, (nowMs - lastMs) / 60_000);
  return {
    exchange: String(row.exchange),
    product: String(row.product),
    trades,
    firstId,
    lastId,
    firstAt: new Date(firstMs).toISOString(),
    lastAt: new Date(lastMs).toISOString(),
    volume: Number(row.volume),
    duplicates: trades - ids,
    missing,
    completenessPct,
    ageMinutes,
    freshness: freshnessOf(ageMinutes),
    health: healthOf(ageMinutes, completenessPct),
    badPrices: Number(row.bad_prices),
    badQuantities: Number(row.bad_quantities),
    badSides: Number(row.bad_sides),
    incomplete: Number(row.incomplete),
    longestGapMinutes: Number(gaps.longest_us ?? 0) / 60_000_000,
    gapsOverHour: Number(gaps.hours ?? 0),
    gapsSigma3: Number(gaps.sigma3 ?? 0),
    gapsSigma4: Number(gaps.sigma4 ?? 0),
    gapsSigma5: Number(gaps.sigma5 ?? 0),
    quietHours: Number(quiet.quiet ?? 0),
  };
}

function byProduct(rows: readonly Row[]): ReadonlyMap<string, Row> {
  return new Map(rows.map((row) => [keyOf(row as unknown as ProductName), row]));
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
