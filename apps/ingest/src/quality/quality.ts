import type { Row } from '../table/engine.ts';
import { keyOf, type ProductName } from '../table/manifest.ts';
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

/** Looks at every trade of the table; `nowMs` is UNIX time. */
export async function quality(
  table: TradeTable,
  nowMs: number,
  signal?: AbortSignal,
): Promise<Quality> {
  await using view = await table.view(signal);
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

/** Longer gaps in time are outages of the market, and say nothing of the data. */
const ignoredUs = '7 * 86400000000';

/**
 * One row for each day of a product, from which the rest is summed up: to turn decimals of 128 bits
 * into numbers takes half a second for a million trades (2026-11), so it is done once.
 */
export const perDaySql = `CREATE OR REPLACE TEMP TABLE per_day AS SELECT exchange, product, date,
  count(*) AS trades, min(trade_id) AS first_id, max(trade_id) AS last_id,
  epoch_us(min(trade_ts)) AS first_us, epoch_us(max(trade_ts)) AS last_us,
  sum(CAST(price AS DOUBLE) * CAST(quantity AS DOUBLE)) AS volume,
  count(*) FILTER (price <= 0) AS bad_prices, count(*) FILTER (quantity <= 0) AS bad_quantities,
  count(*) FILTER (maker_side NOT IN ('buy', 'sell') OR taker_side NOT IN ('buy', 'sell')
    OR maker_side = taker_side) AS bad_sides,
  count(*) FILTER (trade_id IS NULL OR trade_ts IS NULL OR price IS NULL OR quantity IS NULL
    OR maker_side IS NULL OR taker_side IS NULL) AS incomplete
  FROM trades GROUP BY ALL`;

/** One row for each product: how many, from when to when, which ids, and what cannot be. */
export const productsSql = `SELECT exchange, product, sum(trades) AS trades, any_value(ids) AS ids,
  min(first_id) AS first_id, max(last_id) AS last_id, min(first_us) AS first_us,
  max(last_us) AS last_us, sum(volume) AS volume, sum(bad_prices) AS bad_prices,
  sum(bad_quantities) AS bad_quantities, sum(bad_sides) AS bad_sides,
  sum(incomplete) AS incomplete
  FROM per_day JOIN (SELECT exchange, product, count(DISTINCT trade_id) AS ids FROM trades
    GROUP BY ALL) USING (exchange, product)
  GROUP BY exchange, product ORDER BY exchange, product`;

/**
 * Times between neighbours, against what is usual for the product. The trades come as they lie in
 * the files, by product and id: to sort them would take as much memory as they take.
 */
export const gapsSql: string = `WITH gaps AS NOT MATERIALIZED (
    SELECT exchange, product, CASE WHEN product = lag(product) OVER ()
      AND exchange = lag(exchange) OVER ()
      THEN epoch_us(trade_ts) - lag(epoch_us(trade_ts)) OVER () END AS us FROM trades),
  usual AS (
    SELECT exchange, product, avg(us) AS mean, stddev_pop(us) AS deviation FROM gaps
    WHERE us <= ${ignoredUs} GROUP BY ALL)
  SELECT exchange, product, max(us) AS longest_us,
    count(*) FILTER (us > 3600000000) AS hours,
    count(*) FILTER (us <= ${ignoredUs} AND us > mean + 3 * deviation) AS sigma3,
    count(*) FILTER (us <= ${ignoredUs} AND us > mean + 4 * deviation) AS sigma4,
    count(*) FILTER (us <= ${ignoredUs} AND us > mean + 5 * deviation) AS sigma5
  FROM gaps JOIN usual USING (exchange, product) GROUP BY ALL ORDER BY exchange, product`;

/**
 * Hours of the 30 days up to that time with far fewer trades than usual; none counts as 0. The
 * first hour is left out, because it did not begin with its first trade.
 */
export function quietHoursSql(nowUs: number): string {
  const hour = 'epoch_us(trade_ts) // 3600000000';
  const last = Math.floor(nowUs / 3_600_000_000);
  return `WITH counted AS (
      SELECT exchange, product, ${hour} AS hour, count(*) AS trades FROM trades
      WHERE ${hour} >= ${last - 720} AND ${hour} < ${last} GROUP BY ALL),
    spans AS (
      SELECT exchange, product, unnest(range(min(hour) + 1, max(hour) + 1)) AS hour
      FROM counted GROUP BY exchange, product),
    hours AS (
      SELECT exchange, product, coalesce(trades, 0) AS trades
      FROM spans LEFT JOIN counted USING (exchange, product, hour)),
    usual AS (
      SELECT exchange, product, avg(trades) AS mean, stddev_pop(trades) AS deviation
      FROM hours GROUP BY ALL)
    SELECT exchange, product, count(*) FILTER (trades < mean - 2 * deviation) AS quiet
    FROM hours JOIN usual USING (exchange, product) GROUP BY ALL ORDER BY exchange, product`;
}

/** Trades of each of the last 400 days that have any. */
export const daysSql = `SELECT CAST(date AS VARCHAR) AS date, sum(trades) AS trades,
  sum(volume) AS volume FROM per_day GROUP BY date ORDER BY date DESC LIMIT 400`;
