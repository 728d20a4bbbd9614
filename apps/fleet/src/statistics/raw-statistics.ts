import { drawEloOf, eloToBayesElo } from './bayes-elo.ts';
import {
  type Counts,
  countsOf,
  type Moments,
  moments,
  observed,
  type Results,
  sum,
} from './distribution.ts';
import { type EloEstimate, eloEstimate, eloOf, eloPerDeviation, scoreOf, z95 } from './elo.ts';
import {
  asLogistic,
  type EloModel,
  gamesPerSample,
  type Hypotheses,
  likeliest,
  llr,
  llrLogisticNormal,
  llrLogisticQuick,
  llrNormalizedQuick,
} from './llr.ts';

/** A value with its 95 % interval. */
export interface Range {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** All there is to say about games seen as pairs, or about games seen one by one. */
export interface SampleStatistics extends Moments {
  readonly counts: Counts;
  readonly games: number;
  readonly distribution: readonly number[];
  readonly elo: EloEstimate;
  /** Per game. */
  readonly score: Range;
  readonly variancePerGame: Range;
  readonly deviationPerGame: Range;
  readonly normalizedElo: Range;
  /** Only of a sequential test. */
  readonly test?: TestStatistics;
}

export interface TestStatistics {
  readonly llr: { readonly [Model in Exclude<EloModel, 'BayesElo'>]: number };
  readonly llrQuick: { readonly [Model in Exclude<EloModel, 'BayesElo'>]: number };
  readonly llrNormal: number;
  /** By how much one sample of each kind moves the ratio. */
  readonly jumps: readonly number[];
}

export type Bounds = { readonly [Model in EloModel]: readonly [number, number] };

export interface RawStatistics {
  readonly drawRatio: number;
  readonly drawElo: number;
  /** The hypotheses in every model, at the draws and the variance seen. */
  readonly bounds?: Bounds;
  readonly trinomial: SampleStatistics;
  readonly pentanomial?: SampleStatistics;
  /** How much less pairs vary than single games would. */
  readonly varianceRatio?: number;
  /** How uneven openings are, in Elo (root mean square). */
  readonly rmsBias?: number;
}

/** The numbers behind a run, for those who want to see how it is decided. */
export function rawStatistics(results: Results, test?: Hypotheses): RawStatistics {
  const { wins, losses, draws, pentanomial } = results;
  const games = wins + losses + draws;
  const logistic = test === undefined ? undefined : logisticBounds(results, test);
  const trinomial = sampleStatistics([losses, draws, wins], logistic);
  const common = {
    drawRatio: games === 0 ? 0 : draws / games,
    drawElo: drawEloOf(results),
    trinomial,
    ...(test !== undefined && { bounds: allBounds(results, test) }),
  };
  if (pentanomial === undefined) return common;
  const pairs = sampleStatistics(pentanomial, logistic);
  const [each, both] = [trinomial.variancePerGame.value, pairs.variancePerGame.value];
  const rmsBias = eloOf(0.5 + Math.sqrt(Math.max(0, each - both)));
  return { ...common, pentanomial: pairs, varianceRatio: both / each, rmsBias };
}

function sampleStatistics(
  counts: Counts,
  logistic: readonly [number, number] | undefined,
): SampleStatistics {
  const seen = observed(counts);
  const about = moments(seen);
  const { samples } = seen;
  const each = gamesPerSample(counts);
  const variance = about.variance * each;
  const scoreError = z95 * Math.sqrt(about.variance / samples);
  // The variance of a sample's variance, from its fourth moment.
  const fourth = about.excessKurtosis + 3;
  const varianceError = z95 * variance * Math.sqrt(Math.max(0, fourth - 1) / samples);
  const deviation = Math.sqrt(variance);
  const t = (about.mean - 0.5) / deviation;
  const tVariance = Math.max(0, 1 / each - tSkew(t, about, each));
  const normal = eloPerDeviation * t;
  const normalError = eloPerDeviation * z95 * Math.sqrt(tVariance / samples);
  return {
    ...about,
    counts,
    games: sum(counts) * each,
    distribution: seen.probabilities,
    elo: eloEstimate(counts),
    score: range(about.mean, scoreError),
    variancePerGame: range(variance, varianceError),
    deviationPerGame: range(deviation, varianceError / (2 * deviation)),
    normalizedElo: range(normal, normalError),
    ...(logistic !== undefined && { test: testStatistics(counts, logistic) }),
  };
}

/** What skewness and kurtosis take from the variance of a t-value per game. */
function tSkew(t: number, { skewness, excessKurtosis }: Moments, each: number): number {
  const own = t * Math.sqrt(each);
  return (own * skewness - (own ** 2 * (excessKurtosis + 2)) / 4) / each;
}

function testStatistics(counts: Counts, [elo0, elo1]: readonly [number, number]): TestStatistics {
  const [n0, n1] = [elo0, elo1].map((elo) => toNormalized(counts, elo)) as [number, number];
  const [losses = 0, draws = 0, wins = 0] = counts;
  const results =
    counts.length === 3
      ? { wins, losses, draws }
      : { wins: 0, losses: 0, draws: 0, pentanomial: counts };
  const under = (elo: number) => likeliest(counts, 'logistic', elo).probabilities;
  const [under0, under1] = [under(elo0), under(elo1)];
  return {
    llr: {
      logistic: llr(results, { elo0, elo1, model: 'logistic' }),
      normalized: llr(results, { elo0: n0, elo1: n1, model: 'normalized' }),
    },
    llrQuick: {
      logistic: llrLogisticQuick(counts, elo0, elo1),
      normalized: llrNormalizedQuick(counts, n0, n1),
    },
    llrNormal: llrLogisticNormal(counts, elo0, elo1),
    jumps: under1.map((chance, at) => Math.log(chance / (under0[at] as number))),
  };
}

function logisticBounds(results: Results, test: Hypotheses): readonly [number, number] {
  const { elo0, elo1, model } = asLogistic(results, test);
  if (model !== 'normalized') return [elo0, elo1];
  const deviation = gameDeviation(countsOf(results));
  const toLogistic = (elo: number) => eloOf((elo / eloPerDeviation) * deviation + 0.5);
  return [toLogistic(elo0), toLogistic(elo1)];
}

function allBounds(results: Results, test: Hypotheses): Bounds {
  const logistic = logisticBounds(results, test);
  const counts = countsOf(results);
  const games = results.wins + results.losses + results.draws;
  const drawRatio = games === 0 ? 0.5 : results.draws / games;
  const [elo0, elo1] = logistic;
  return {
    logistic,
    normalized: [toNormalized(counts, elo0), toNormalized(counts, elo1)],
    BayesElo: [eloToBayesElo(elo0, drawRatio).bayesElo, eloToBayesElo(elo1, drawRatio).bayesElo],
    // Not every way back is exact.
    [test.model]: [test.elo0, test.elo1],
  };
}

function toNormalized(counts: Counts, elo: number): number {
  return ((scoreOf(elo) - 0.5) / gameDeviation(counts)) * eloPerDeviation;
}

function gameDeviation(counts: Counts): number {
  return Math.sqrt(moments(observed(counts)).variance * gamesPerSample(counts));
}

function range(value: number, error: number): Range {
  return { value, low: value - error, high: value + error };
}
