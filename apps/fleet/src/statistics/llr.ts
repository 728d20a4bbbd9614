import { bayesEloToElo, drawEloOf } from './bayes-elo.ts';
import {
  type Counts,
  countsOf,
  type Distribution,
  meanOf,
  observed,
  type Results,
  sum,
  varianceOf,
} from './distribution.ts';
import { eloPerDeviation, scoreOf } from './elo.ts';
import { likeliestWithMean, likeliestWithTValue } from './likelihood.ts';

/** What the bounds of a sequential test are measured in. */
export type EloModel = 'BayesElo' | 'logistic' | 'normalized';

/** The two hypotheses of a sequential test: the Elo difference is `elo0`, or it is `elo1`. */
export interface Hypotheses {
  readonly elo0: number;
  readonly elo1: number;
  readonly model: EloModel;
}

/** The generalized log-likelihood ratio of the second hypothesis to the first. */
export function llr(results: Results, hypotheses: Hypotheses): number {
  const { elo0, elo1, model } = asLogistic(results, hypotheses);
  return exactLlr(countsOf(results), model, elo0, elo1);
}

/** BayesElo bounds as logistic ones, at the draws seen so far; others as they are. */
export function asLogistic(
  results: Results,
  { elo0, elo1, model }: Hypotheses,
): Hypotheses & { readonly model: Exclude<EloModel, 'BayesElo'> } {
  if (model !== 'BayesElo') return { elo0, elo1, model };
  const drawElo = drawEloOf(results);
  return {
    elo0: bayesEloToElo(elo0, drawElo),
    elo1: bayesEloToElo(elo1, drawElo),
    model: 'logistic',
  };
}

function exactLlr(
  counts: Counts,
  model: Exclude<EloModel, 'BayesElo'>,
  elo0: number,
  elo1: number,
): number {
  const { probabilities, samples } = observed(counts);
  const under0 = likeliest(counts, model, elo0).probabilities;
  const under1 = likeliest(counts, model, elo1).probabilities;
  const ratio = (at: number) => Math.log(under1[at] as number) - Math.log(under0[at] as number);
  return samples * sum(probabilities.map((chance, at) => chance * ratio(at)));
}

/** The distribution that explains the counts best if the difference is this. */
export function likeliest(
  counts: Counts,
  model: Exclude<EloModel, 'BayesElo'>,
  elo: number,
): Distribution {
  const seen = observed(counts);
  if (model === 'logistic') return likeliestWithMean(seen, scoreOf(elo));
  const tValue = (elo / eloPerDeviation) * Math.sqrt(gamesPerSample(counts));
  return likeliestWithTValue(seen, 0.5, tValue);
}

/** The ratio of normalized hypotheses, by an approximation that needs no search. */
export function llrNormalizedQuick(counts: Counts, elo0: number, elo1: number): number {
  const seen = observed(counts);
  const mean = meanOf(seen);
  const gameDeviation = Math.sqrt(gamesPerSample(counts) * varianceOf(seen, mean));
  const off = (elo: number) => (mean - 0.5) / gameDeviation - elo / eloPerDeviation;
  const games = seen.samples * gamesPerSample(counts);
  return (games / 2) * Math.log((1 + off(elo0) ** 2) / (1 + off(elo1) ** 2));
}

/** The ratio of logistic hypotheses, by an approximation that needs no search. */
export function llrLogisticQuick(counts: Counts, elo0: number, elo1: number): number {
  const seen = observed(counts);
  const spread = (elo: number) => varianceOf(seen, scoreOf(elo));
  return (seen.samples / 2) * Math.log(spread(elo0) / spread(elo1));
}

/** The simplest approximation for logistic hypotheses: as if the score were normal. */
export function llrLogisticNormal(counts: Counts, elo0: number, elo1: number): number {
  const seen = observed(counts);
  const mean = meanOf(seen);
  const [s0, s1] = [scoreOf(elo0), scoreOf(elo1)];
  return (seen.samples * (s1 - s0) * (2 * mean - s0 - s1)) / (2 * varianceOf(seen, mean));
}

/** Two for pairs, one for single games. */
export function gamesPerSample(counts: Counts): number {
  return (counts.length - 1) / 2;
}
