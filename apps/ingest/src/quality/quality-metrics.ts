import type { MetricFamily } from 'spillway-http';
import type { ProductQuality, Quality } from './quality.ts';

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
