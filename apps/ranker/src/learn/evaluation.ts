import { choose } from './choice.ts';
import { type Choice, fit, untrained, wordValues } from './model.ts';
import {
  type Common,
  emptyNeighbours,
  type RatedRows,
  ratedOnly,
  rowMean,
  scoresOf,
} from './rows.ts';
import { findNearest, Scorer } from './scorer.ts';
import { bucketCount, wordsKept } from './words.ts';

/** The quality of a method of scoring, on articles that were rated after those it learned from. */
export interface Quality {
  /** The chance that an article liked more than most stands above one liked less. */
  readonly auc: number;
  /** The normalised discounted gain of the ten at the top, from 0 to 1. */
  readonly ndcg10: number;
  /** The correlation of ranks, from -1 to 1. */
  readonly spearman: number;
  /** The mean distance to the reader's score, in points. */
  readonly mae: number;
}

/** The result of an evaluation on a split by time. */
export interface Evaluation {
  readonly trained: number;
  readonly tested: number;
  /** The reader's own mean. */
  readonly constant: Quality;
  /** The nearest rated articles alone. */
  readonly neighbours: Quality;
  /** The embedding alone. */
  readonly topic: Quality;
  /** The words alone, by ridge regression. */
  readonly words: Quality;
  /** The words alone, by logistic regression: its scores have an order and no scale. */
  readonly logistic: Quality;
  /** The scores that readers would see. */
  readonly served: Quality;
  /** The regression slope of ratings on scores: 1 is right, below 1 scores are too sure. */
  readonly slope: number;
  /** The share of ratings within the width of their score: 0.8 is right. */
  readonly coverage: number;
}

export interface EvaluationTask {
  readonly rows: RatedRows;
  readonly common: Common;
  readonly halfLifeMs: number;
  /** The newest share of the ratings, which is predicted. */
  readonly share: number;
}

type Way = 'constant' | 'neighbours' | 'topic' | 'words' | 'logistic' | 'served';

/** Learns from the older ratings and predicts the newest share; yields between pieces of work. */
export function* evaluateTaste(task: EvaluationTask): Generator<number, Evaluation> {
  const { rows, common, halfLifeMs, share } = task;
  const byTime = ratedOnly(rows).sort(
    (one, other) => (rows.ratedAt[one] as number) - (rows.ratedAt[other] as number),
  );
  const split = Math.round(byTime.length * (1 - share));
  const older = byTime.slice(0, split);
  const newer = byTime.slice(split);
  const asked = { rows, common, halfLifeMs, current: untrained, kind: 'intensive', only: older };
  const { choice = untrained } = yield* choose({ ...asked, kind: 'intensive' });
  const says: Record<Way, number[]> = {
    constant: [],
    neighbours: [],
    topic: [],
    words: [],
    logistic: [],
    served: [],
  };
  const past = { ...rows, scores: scoresOf(rows, older) };
  const scorerOf = (chosen: Choice) => {
    const model = fit(past, common, chosen, { halfLifeMs, only: older });
    return { model, scorer: new Scorer({ rows: past, model }) };
  };
  const served = scorerOf(choice);
  const topic = scorerOf({ ...choice, topic: 0.5, words: Infinity });
  const words = scorerOf({ ...choice, topic: Infinity, words: 0.5 });
  const { start } = served.model;
  const logistic = logisticWords(past, common, older, start);
  let within = 0;
  for (const row of newer) {
    const list = emptyNeighbours(1);
    findNearest(past, rowMean(rows, row), list, 0);
    const about = {
      source: rows.sources[row] as number,
      now: rows.ratedAt[row] as number,
      place: 0,
    };
    says.constant.push(start);
    says.topic.push(topic.scorer.score(rows, row, list, about));
    says.words.push(words.scorer.score(rows, row, list, about));
    const score = served.scorer.score(rows, row, list, about);
    const said = served.scorer.points[4] as number;
    says.neighbours.push(start + said / (served.model.slope * (served.model.side[1] ?? 0) || 1));
    says.logistic.push(logistic(row));
    says.served.push(score);
    within += Number(Math.abs(score - (rows.scores[row] as number)) <= served.scorer.width);
  }
  const truth = newer.map((row) => rows.scores[row] as number);
  const of = (way: Way) => quality(says[way], truth);
  return {
    trained: older.length,
    tested: newer.length,
    constant: of('constant'),
    neighbours: of('neighbours'),
    topic: of('topic'),
    words: of('words'),
    logistic: of('logistic'),
    served: of('served'),
    slope: slopeOf(says.served, truth, start),
    coverage: within / newer.length,
  };
}

function slopeOf(says: readonly number[], truth: readonly number[], start: number): number {
  let both = 0;
  let own = 0;
  for (const [at, said] of says.entries()) {
    both += (said - start) * ((truth[at] as number) - start);
    own += (said - start) ** 2;
  }
  return own === 0 ? Number.NaN : both / own;
}

/** Logistic regression on words by plain gradient descent, a common baseline. */
export function logisticWords(
  rows: RatedRows,
  common: Common,
  only: readonly number[],
  start: number,
): (row: number) => number {
  const weights = new Float32Array(bucketCount);
  const values = new Float32Array(wordsKept);
  const says = (row: number): number => {
    wordValues(rows, row, common, values);
    let sum = 0;
    for (const [at, value] of values.entries()) {
      sum += value * (weights[rows.keys[row * wordsKept + at] as number] as number);
    }
    return sum;
  };
  for (let round = 0; round < 60; round += 1) {
    for (const row of only) {
      const isLiked = Number((rows.scores[row] as number) > start);
      const error = isLiked - 1 / (1 + Math.exp(-says(row)));
      for (const [at, value] of values.entries()) {
        const key = rows.keys[row * wordsKept + at] as number;
        weights[key] = 0.998 * (weights[key] as number) + 0.5 * error * value;
      }
    }
  }
  return says;
}

/** Compares predictions with ratings. */
export function quality(says: readonly number[], truth: readonly number[]): Quality {
  const off = says.map((value, at) => Math.abs(value - (truth[at] as number)));
  return {
    auc: auc(says, truth),
    ndcg10: ndcg(says, truth, 10),
    spearman: correlation(ranks(says), ranks(truth)),
    mae: off.reduce((sum, value) => sum + value, 0) / off.length,
  };
}

/** Liked is above the median; a pair with equal predictions counts half. NaN without pairs. */
function auc(says: readonly number[], truth: readonly number[]): number {
  const sorted = [...truth].sort((one, other) => one - other);
  const middle = sorted[sorted.length >> 1] as number;
  const half = (isLiked: boolean) =>
    says.filter((_, at) => (truth[at] as number) >= middle === isLiked);
  const liked = half(true);
  const others = half(false);
  let won = 0;
  for (const one of liked) {
    for (const other of others) won += one > other ? 1 : Number(one === other) / 2;
  }
  return won / (liked.length * others.length);
}

/** The gain of the top relative to the best order; equal predictions share their gain. */
function ndcg(says: readonly number[], truth: readonly number[], top: number): number {
  const gain = (by: readonly number[]) => {
    const order = [...by.keys()].sort((one, other) => (by[other] as number) - (by[one] as number));
    let sum = 0;
    for (let place = 0; place < Math.min(top, order.length); place += 1) {
      const said = by[order[place] as number] as number;
      const equals = order.filter((at) => by[at] === said);
      const scores = equals.map((at) => (truth[at] as number) - 1);
      const mean = scores.reduce((total, score) => total + score, 0) / scores.length;
      sum += mean / Math.log2(place + 2);
    }
    return sum;
  };
  const best = gain(truth);
  return best === 0 ? 1 : gain(says) / best;
}

/** The rank of each value; equal ones share the mean of their ranks. */
function ranks(values: readonly number[]): number[] {
  const sorted = [...values].sort((one, other) => one - other);
  return values.map((value) => (sorted.indexOf(value) + sorted.lastIndexOf(value)) / 2);
}

/** The correlation of two lists, from -1 to 1; 0 when one list is constant. */
export function correlation(one: readonly number[], other: readonly number[]): number {
  const mean = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const a = mean(one);
  const b = mean(other);
  let both = 0;
  let left = 0;
  let right = 0;
  for (const [at, value] of one.entries()) {
    const x = value - a;
    const y = (other[at] as number) - b;
    both += x * y;
    left += x * x;
    right += y * y;
  }
  return left === 0 || right === 0 ? 0 : both / Math.sqrt(left * right);
}
