import { sumOf } from './figures.ts';
import type { ProductQuality } from './quality.ts';

export type QualityCheck = ReturnType<typeof check>;

/** Applies the rules, and computes the score. Age counts only if the table is kept up to date. */
export function assess(products: readonly ProductQuality[], isFollowed: boolean) {
  const checks = [...checksOf(products), ...(isFollowed ? ageChecksOf(products) : [])];
  return {
    /** From 0 to 100. */
    score: scoreOf(products, isFollowed),
    checks,
    /** True if every gate has passed. */
    passed: checks.every((one) => one.passed || !one.isGate),
  };
}

/**
 * Computes the score: 100, less up to 20 for repeats, up to 30 for the worst completeness below
 * 99 %, up to 20 for more than 100 missing ids, and, if the table is kept up to date, up to 30 for
 * the share of products without a trade for 6 hours.
 */
function scoreOf(products: readonly ProductQuality[], isFollowed: boolean): number {
  if (products.length === 0) return 0;
  const duplicates = sumOf(products, 'duplicates');
  const missing = sumOf(products, 'missing');
  const worst = Math.min(...products.map(({ completenessPct }) => completenessPct));
  const stale = products.filter(({ ageMinutes }) => isFollowed && ageMinutes > 360).length;
  const off =
    Math.min(20, duplicates) +
    (worst < 99 ? Math.min(30, 3 * (100 - worst)) : 0) +
    (missing > 100 ? Math.min(20, missing / 100) : 0) +
    Math.min(30, (100 * stale) / products.length);
  return Math.max(0, 100 - off);
}

/** Makes the result of one rule; data that fail a gate must not be used. */
function check(name: string, passed: boolean, found: string, isGate = false) {
  return { name, passed, isGate, found };
}

function atMost(name: string, count: number, most: number, what: string): QualityCheck {
  return check(name, count <= most, `${count} ${what}`);
}

function checksOf(products: readonly ProductQuality[]): readonly QualityCheck[] {
  const trades = sumOf(products, 'trades');
  const duplicates = sumOf(products, 'duplicates');
  const repeats = `${duplicates.toLocaleString('en-US')} of ${trades.toLocaleString('en-US')}`;
  const incomplete = sumOf(products, 'incomplete');
  const gappy = products.filter(({ gapsOverHour }) => gapsOverHour > 0).length;
  const critical = products.filter(({ health }) => health === 'critical').length;
  return [
    check('every column has a value', incomplete === 0, `${incomplete} trades without`, true),
    check('at most 5 % of trades are repeats', duplicates <= 0.05 * trades, repeats, true),
    atMost('no trade is there twice', duplicates, 0, 'repeats'),
    atMost('no id is missing', sumOf(products, 'missing'), 0, 'ids'),
    atMost('prices are above 0', sumOf(products, 'badPrices'), 0, 'trades'),
    atMost('quantities are above 0', sumOf(products, 'badQuantities'), 0, 'trades'),
    atMost('sides are buy and sell', sumOf(products, 'badSides'), 0, 'trades'),
    atMost('at most 3 products have gaps over an hour', gappy, 3, 'products'),
    atMost('no product is critical', critical, 0, 'products'),
  ];
}

function ageChecksOf(products: readonly ProductQuality[]): readonly QualityCheck[] {
  const newest = Math.min(...products.map(({ ageMinutes }) => ageMinutes));
  const age = products.length === 0 ? 'no trades' : `newest ${ageText(newest)} old`;
  const silent = products.filter(({ ageMinutes }) => ageMinutes > 120).length;
  return [
    check('the newest trade is under 4 hours old', newest <= 240, age, true),
    check('the newest trade is under 1 hour old', newest <= 60, age),
    atMost('at most 5 products are silent for 2 hours', silent, 5, 'products'),
  ];
}

/** Formats an age in minutes, hours or days. */
export function ageText(minutes: number): string {
  if (minutes < 120) return `${Math.round(minutes)} min`;
  if (minutes < 2880) return `${Math.round(minutes / 60)} h`;
  return `${Math.round(minutes / 1440).toLocaleString('en-US')} days`;
}
