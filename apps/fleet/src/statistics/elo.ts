import { type Counts, regularized, sum } from './distribution.ts';
import { normalCdf } from './normal.ts';

/** Elo of one standard deviation of a game's score: what normalized Elo is measured in. */
export const eloPerDeviation: number = 800 / Math.LN10;

/** Half the width, in standard deviations, of an interval that holds 95 %. */
export const z95 = 1.959963985;

/** The expected score of who is this much Elo stronger. */
export function scoreOf(elo: number): number {
  return 1 / (1 + 10 ** (-elo / 400));
}

/** The Elo difference that explains a score; scores beyond 0.001 and 0.999 count as those. */
export function eloOf(score: number): number {
  const held = Math.min(Math.max(score, 0.001), 0.999);
  return -400 * Math.log10(1 / held - 1);
}

export interface EloEstimate {
  readonly elo: number;
  /** Half the width of the 95 % interval. */
  readonly error95: number;
  /** Likelihood of superiority: the chance that the new engine is stronger. */
  readonly los: number;
}

/** The strength of the new engine after a fixed number of games. */
export function eloEstimate(counts: Counts): EloEstimate {
  const weights = regularized(counts);
  const gamesEach = (weights.length - 1) / 2;
  const games = sum(weights) * gamesEach;
  const mean = weights.reduce((total, weight, at) => total + (weight * at) / 2, 0) / games;
  const square = (at: number) => (at / 2 - gamesEach * mean) ** 2;
  const variance = weights.reduce((total, weight, at) => total + weight * square(at), 0) / games;
  const deviation = Math.sqrt(variance / games);
  return {
    elo: eloOf(mean),
    error95: (eloOf(mean + z95 * deviation) - eloOf(mean - z95 * deviation)) / 2,
    los: normalCdf((mean - 0.5) / deviation),
  };
}
