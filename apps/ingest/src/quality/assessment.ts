import type { ProductQuality } from './quality.ts';

/** One rule, and whether the data keeps to it. */
export interface QualityCheck {
  readonly name: string;
  readonly passed: boolean;
  /** The data must not be used while it fails. */
  readonly isGate: boolean;
  /** What was found, in words. */
  readonly found: string;
}

/** What the numbers mean. */
export interface Assessment {
  /** From 0 to 100. */
  readonly score: number;
  readonly checks: readonly QualityCheck[];
  /** Whether every gate is passed. */
  readonly passed: boolean;
}

/** The rules, and the score of it all. */
export function assess(products: readonly ProductQuality[]): Assessment {
  const checks = checksOf(products);
  const passed = checks.every((one) => one.passed || !one.isGate);
  return { score: scoreOf(products), checks, passed };
}

/**
 * From 100: up to 20 off for repeats, up to 30 for the worst completeness below 99 %, up to 20 for
 * missing ids above 100, and up to 30 for the share of products without a trade for 6 hours.
 */
function scoreOf(products: readonly ProductQuality[]): number {
  if (products.length === 0) return 0;
  const duplicates = total(products, 'duplicates');
  const missing = total(products, 'missing');
  const worst = Math.min(...products.map(({ completenessPct }) => completenessPct));
  const stale = products.filter(({ ageMinutes }) => ageMinutes > 360).length;
  const off =
    Math.min(20, duplicates) +
    (worst < 99 ? Math.min(30, 3 * (100 - worst)) : 0) +
    (missing > 100 ? Math.min(20, missing / 100) : 0) +
    Math.min(30, (100 * stale) / products.length);
  return Math.max(0, 100 - off);
}

function checksOf(products: readonly ProductQuality[]): readonly QualityCheck[] {
  const trades = total(products, 'trades');
  const duplicates = total(products, 'duplicates');
  const missing = total(products, 'missing');
  const newest = Math.min(...products.map(({ ageMinutes }) => ageMinutes));
  const gappy = products.filter(({ gapsOverHour }) => gapsOverHour > 0).length;
  const silent = products.filter(({ ageMinutes }) => ageMinutes > 120).length;
  const critical = products.filter(({ health }) => health === 'critical').length;
  const age = products.length === 0 ? 'no trades' : `newest ${ageText(newest)} old`;
  const none = (name: string, count: number, what: string): QualityCheck => {
    return { name, passed: count === 0, isGate: false, found: `${count} ${what}` };
  };
  return [
    gate('every column has a value', total(products, 'incomplete') === 0, {
      found: `${total(products, 'incomplete')} trades without`,
    }),
    gate('at most 5 % of trades are repeats', duplicates <= 0.05 * trades, {
      found: `${duplicates.toLocaleString('en-US')} of ${trades.toLocaleString('en-US')}`,
    }),
    gate('the newest trade is under 4 hours old', newest <= 240, { found: age }),
    {
      name: 'the newest trade is under 1 hour old',
      passed: newest <= 60,
      isGate: false,
      found: age,
    },
    none('no trade is there twice', duplicates, 'repeats'),
    none('no id is missing', missing, 'ids'),
    none('prices are above 0', total(products, 'badPrices'), 'trades'),
    none('quantities are above 0', total(products, 'badQuantities'), 'trades'),
    none('sides are buy and sell', total(products, 'badSides'), 'trades'),
    atMost('at most 3 products have gaps over an hour', gappy, 3),
    atMost('at most 5 products are silent for 2 hours', silent, 5),
    none('no product is critical', critical, 'products'),
  ];
}

/** Minutes, hours or days, whichever is short. */
export function ageText(minutes: number): string {
  if (minutes < 120) return `${Math.round(minutes)} min`;
  if (minutes < 2880) return `${Math.round(minutes / 60)} h`;
  return `${Math.round(minutes / 1440).toLocaleString('en-US')} days`;
}

function gate(name: string, passed: boolean, { found }: { readonly found: string }): QualityCheck {
  return { name, passed, isGate: true, found };
}

function atMost(name: string, count: number, most: number): QualityCheck {
  return { name, passed: count <= most, isGate: false, found: `${count} products` };
}

type CountName = {
  [Name in keyof ProductQuality]: ProductQuality[Name] extends number ? Name : never;
}[keyof ProductQuality];

function total(products: readonly ProductQuality[], name: CountName): number {
  return products.reduce((sum, one) => sum + one[name], 0);
}
