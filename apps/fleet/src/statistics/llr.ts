import { bayesEloToElo, drawEloOf, eloPerDeviation, scoreOf } from './elo.ts';
import {
  type Counts,
  countsOf,
  type Distribution,
  gamesPerSample,
  meanOf,
  observed,
  type Results,
  sum,
  varianceOf,
} from './results.ts';
import { normalCdf, root } from './special-functions.ts';

const tValueRounds = 10;

/**
 * The likeliest distribution behind the observed one, given that its mean lies `tValue` of its own
 * standard deviations above `reference`. Each round solves the problem linearised at the last.
 */
function likeliestWithTValue(seen: Distribution, reference: number, tValue: number): Distribution {
  const { values } = seen;
  let probabilities: readonly number[] = values.map(() => 1 / values.length);
  for (let round = 0; round < tValueRounds; round += 1) {
    const mean = meanOf({ values, probabilities });
    const deviation = Math.sqrt(varianceOf({ values, probabilities }, mean));
    const bent = values.map((value) => {
      const square = ((mean - value) / deviation) ** 2;
      return value - reference - (tValue * deviation * (1 + square)) / 2;
    });
    const last = probabilities;
    probabilities = tilted(seen.probabilities, bent);
    const moved = probabilities.map((one, at) => Math.abs(one - (last[at] as number)));
    if (Math.max(...moved) < 1e-9) break;
  }
  return { values, probabilities };
}

/** Divides each probability by 1 + x·value, with the x that makes the mean of the values zero. */
function tilted(probabilities: readonly number[], values: readonly number[]): number[] {
  const slope = (x: number): number => {
    let total = 0;
    for (let at = 0; at < values.length; at += 1) {
      const value = values[at] as number;
      total += ((probabilities[at] as number) * value) / (1 + x * value);
    }
    return total;
  };
  // Beyond these ends a probability would be negative; at them the sum has no value.
  const low = -1 / Math.max(...values) + 1e-9;
  const high = -1 / Math.min(...values) - 1e-9;
  const x = root(slope, low, high);
  return probabilities.map((one, at) => one / (1 + x * (values[at] as number)));
}

/** A Brownian motion that starts at 0 and ends where it meets `a` (below 0) or `b` (above 0). */
export interface Brownian {
  readonly a: number;
  readonly b: number;
  readonly drift: number;
  readonly variance: number;
}

/** Far more than the series needs where it is used: about 20. */
const termsMax = 1000;

/** The chance that by `time` the motion has ended at `a`, or stands or ended at most at `y`. */
export function outcomeCdf(motion: Brownian, time: number, y: number): number {
  const { a, b, drift, variance } = motion;
  const width = b - a;
  const pull = drift / variance;
  // The series needs too many terms for a short time, and overflows for a strong drift.
  const free = (variance * time) / width ** 2 < 0.01 || Math.abs(pull * width) > 15;
  return free ? almostFree(motion, time, y) : bySeries(motion, time, y);
}

function bySeries({ a, b, drift, variance }: Brownian, time: number, y: number): number {
  const width = b - a;
  const pull = drift / variance;
  const x = -a;
  const end = y - a;
  const rate = (n: number) =>
    (((n * Math.PI) / width) ** 2 * variance) / 2 + drift ** 2 / (2 * variance);
  const factor = Math.exp(-rate(1) * time - x * pull + end * pull);
  let total = 0;
  for (let n = 1; n <= termsMax; n += 1) {
    const angle = (Math.PI * n * end) / width;
    const u =
      (2 * width * pull * Math.sin(angle) - 2 * Math.PI * n * Math.cos(angle)) /
      (width ** 2 * pull ** 2 + Math.PI ** 2 * n ** 2);
    const term = Math.exp(-(rate(n) - rate(1)) * time) * u;
    total += term * Math.sin((n * Math.PI * x) / width);
    if (Math.abs(factor * term) <= 1e-9) break;
  }
  return chanceOfLower(pull * width, pull * x, x / width) + factor * total;
}

/** The chance to end at the lower bound, if time does not matter. */
function chanceOfLower(pullWidth: number, pullStart: number, share: number): number {
  if (Math.abs(pullWidth) < 1e-8) return 1 - share;
  if (pullWidth > 30) return Math.exp(-2 * pullStart);
  return (1 - Math.exp(2 * (pullWidth - pullStart))) / (1 - Math.exp(2 * pullWidth));
}

/** The free motion, and the first mirror image at each bound. */
function almostFree({ a, b, drift, variance }: Brownian, time: number, y: number): number {
  const pull = drift / variance;
  const deviation = Math.sqrt(time * variance);
  const free = (y - drift * time) / deviation;
  const atA = (-y + drift * time + 2 * a) / deviation;
  const atB = (y - drift * time - 2 * b) / deviation;
  return normalCdf(free) + image(pull * a, atA) - image(pull * b, atB);
}

/** exp(2·weight) · Φ(z), by the tail's asymptote where the two factors would overflow. */
function image(weight: number, z: number): number {
  if (weight < 5) return Math.exp(2 * weight) * normalCdf(z);
  const density = Math.exp((-z * z) / 2 + 2 * weight) / Math.sqrt(2 * Math.PI);
  return -density * (1 / z - 1 / z ** 3);
}

/** Unit of the bounds of a sequential test. */
export type EloModel = (typeof eloModels)[number];
export const eloModels = ['normalized', 'logistic', 'BayesElo'] as const;

export function isEloModel(text: string): text is EloModel {
  return eloModels.some((model) => model === text);
}

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
  if (model === 'logistic') {
    const off = seen.values.map((value) => value - scoreOf(elo));
    return { values: seen.values, probabilities: tilted(seen.probabilities, off) };
  }
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
  const s0 = scoreOf(elo0);
  const s1 = scoreOf(elo1);
  return (seen.samples * (s1 - s0) * (2 * mean - s0 - s1)) / (2 * varianceOf(seen, mean));
}
