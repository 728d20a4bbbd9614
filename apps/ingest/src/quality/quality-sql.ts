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
