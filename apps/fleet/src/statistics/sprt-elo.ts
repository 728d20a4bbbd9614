import { outcomeCdf } from './brownian.ts';
import { countsOf, meanOf, observed, type Results, varianceOf } from './distribution.ts';
import { eloOf, eloPerDeviation, scoreOf } from './elo.ts';
import { asLogistic, gamesPerSample, type Hypotheses, llr } from './llr.ts';
import { root } from './root.ts';

export interface SprtEloOptions extends Hypotheses {
  /** The chance to accept a change worth `elo0`; 0.05 if absent. */
  readonly alpha?: number | undefined;
  /** The chance to reject a change worth `elo1`; 0.05 if absent. */
  readonly beta?: number | undefined;
}

/** What a sequential test says about strength; Elo is logistic, whatever the bounds are in. */
export interface SprtElo {
  readonly a: number;
  readonly b: number;
  readonly elo: number;
  /** 95 %. */
  readonly ci: readonly [number, number];
  readonly LOS: number;
  readonly LLR: number;
}

const eloMax = 1000;

/** An estimate without the bias of stopping early: the test is seen as a bounded motion. */
export function sprtElo(results: Results, options: SprtEloOptions): SprtElo {
  const { alpha = 0.05, beta = 0.05 } = options;
  const a = Math.log(beta / (1 - alpha));
  const b = Math.log((1 - beta) / alpha);
  const counts = countsOf(results);
  const seen = observed(counts);
  const mean = meanOf(seen);
  const variance = varianceOf(seen, mean);
  const { elo0, elo1, model } = asLogistic(results, options);
  const gameDeviation = Math.sqrt(gamesPerSample(counts) * variance);
  const boundScore = (elo: number) =>
    model === 'normalized' ? (elo / eloPerDeviation) * gameDeviation + 0.5 : scoreOf(elo);
  const [s0, s1] = [boundScore(elo0), boundScore(elo1)];
  const drift = (score: number) => ((score - (s0 + s1) / 2) * (s1 - s0)) / variance;

  const walked = seen.samples * drift(mean);
  const held = Math.min(Math.max(walked, a), b);
  const time = held === walked ? seen.samples : held / drift(mean);
  const chance = (elo: number) => {
    const motion = { a, b, drift: drift(scoreOf(elo)), variance: (s1 - s0) ** 2 / variance };
    return outcomeCdf(motion, time, held);
  };
  const at = (quantile: number) => eloWhere(chance, 1 - quantile, eloOf(s0), eloOf(s1));
  return {
    a,
    b,
    elo: at(0.5),
    ci: [at(0.025), at(0.975)],
    LOS: chance(0),
    LLR: llr(results, options),
  };
}

/** Where the chance, which falls with Elo, has this value; looks ever farther from the bounds. */
function eloWhere(
  chance: (elo: number) => number,
  value: number,
  elo0: number,
  elo1: number,
): number {
  const middle = (elo0 + elo1) / 2;
  const excess = (elo: number) => chance(elo) - value;
  for (let reach = Math.max(30 * (elo1 - elo0), 1); reach < 4 * eloMax; reach *= 2) {
    const low = Math.max(middle - reach, -eloMax);
    const high = Math.min(middle + reach, eloMax);
    if (excess(low) * excess(high) <= 0) return root(excess, low, high);
  }
  return excess(-eloMax) > 0 ? eloMax : -eloMax;
}
