import { type Counts, moments, observed } from './distribution.ts';
import { eloPerDeviation, z95 } from './elo.ts';

export interface NormalizedElo {
  readonly elo: number;
  /** Half the width of the 95 % interval. */
  readonly error95: number;
  /** Pairs won to pairs lost; infinite or not a number when none was lost. */
  readonly pairsRatio: number;
}

/** Strength in units that do not depend on how drawish the games are. */
export function normalizedElo(pentanomial: Counts): NormalizedElo {
  const seen = observed(pentanomial);
  const { mean, variance, skewness, excessKurtosis } = moments(seen);
  const t = (mean - 0.5) / Math.sqrt(variance);
  const tVariance = Math.max(1 - t * skewness + (t ** 2 * (excessKurtosis + 2)) / 4, 0);
  const perDeviation = eloPerDeviation / Math.SQRT2;
  const [ll = 0, ld = 0, , wd = 0, ww = 0] = pentanomial;
  return {
    elo: perDeviation * t,
    error95: perDeviation * z95 * Math.sqrt(tVariance / seen.samples),
    pairsRatio: (wd + ww) / (ll + ld),
  };
}

/** `nElo: 1.23 +/- 4.5 (95%) PairsRatio: 1.02` */
export function normalizedEloLine(pentanomial: Counts): string {
  const { elo, error95, pairsRatio } = normalizedElo(pentanomial);
  const ratio = Number.isFinite(pairsRatio) ? pairsRatio.toFixed(2) : infOrNan(pairsRatio);
  return `nElo: ${elo.toFixed(2)} +/- ${error95.toFixed(1)} (95%) PairsRatio: ${ratio}`;
}

function infOrNan(number: number): string {
  return Number.isNaN(number) ? 'nan' : 'inf';
}
