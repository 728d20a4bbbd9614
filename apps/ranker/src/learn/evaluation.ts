import { candidate, LearnedRows, learnTaste, type PackedArticles } from './learning.ts';
import { TasteReader } from './taste-reader.ts';

/** How good one way of scoring is, on articles rated after all that it learned from. */
export interface Quality {
  /** The chance that an article liked more than most stands above one liked less. */
  readonly auc: number;
  /** How good the ten at the top are, from 0 to 1. */
  readonly ndcg10: number;
  /** The correlation of ranks, from -1 to 1. */
  readonly spearman: number;
  /** The mean distance to the reader's score, in points. */
  readonly mae: number;
}

/** What came of an evaluation on a split by time. */
export interface Evaluation {
  readonly trained: number;
  readonly tested: number;
  readonly constant: Quality;
  readonly neighbours: Quality;
  readonly ridge: Quality;
  /** The scores that readers would see: ridge regression, calibrated. */
  readonly served: Quality;
}

/** Learns from the older articles and asks for the newest share of them; yields between pieces. */
export function* evaluateTaste(
  packed: PackedArticles,
  share: number,
): Generator<number, Evaluation> {
  const { ratedAt, scores } = packed;
  const byTime = [...scores.keys()].sort(
    (one, other) => (ratedAt[one] as number) - (ratedAt[other] as number),
  );
  const split = Math.round(byTime.length * (1 - share));
  const older = byTime.slice(0, split);
  const newer = byTime.slice(split);
  const { trained } = yield* learnTaste(packed, 'intensive', older);
  const state = new LearnedRows(packed, older).state(trained);
  const reader = new TasteReader();
  reader.open(state, 'older');
  const predictions = newer.map((row) => {
    const served = reader.score(candidate(packed, row));
    const constant = state.ridge.start;
    return { constant, neighbours: constant + reader.word.feature, ridge: reader.raw, served };
  });
  const truth = newer.map((row) => scores[row] as number);
  const of = (name: keyof (typeof predictions)[number]) =>
    quality(
      predictions.map((each) => each[name]),
      truth,
    );
  return {
    trained: older.length,
    tested: newer.length,
    constant: of('constant'),
    neighbours: of('neighbours'),
    ridge: of('ridge'),
    served: of('served'),
  };
}

/** Compares what was said with what is true. */
export function quality(says: readonly number[], truth: readonly number[]): Quality {
  const off = says.map((value, at) => Math.abs(value - (truth[at] as number)));
  return {
    auc: auc(says, truth),
    ndcg10: ndcg(says, truth, 10),
    spearman: correlation(ranks(says), ranks(truth)),
    mae: off.reduce((sum, value) => sum + value, 0) / off.length,
  };
}

/** Liked is above the median; a pair that is said to be equal counts half. NaN without pairs. */
function auc(says: readonly number[], truth: readonly number[]): number {
  const sorted = [...truth].sort((one, other) => one - other);
  const middle = sorted[sorted.length >> 1] as number;
  const half = (isLiked: boolean) =>
    says.filter((_, at) => (truth[at] as number) >= middle === isLiked);
  const [liked, others] = [half(true), half(false)];
  let won = 0;
  for (const one of liked) {
    for (const other of others) won += one > other ? 1 : Number(one === other) / 2;
  }
  return won / (liked.length * others.length);
}

/** The gain of the top against that of the best order; what is said to be equal shares its gain. */
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

/** The place of each value among all; equal ones share the mean of their places. */
function ranks(values: readonly number[]): number[] {
  const sorted = [...values].sort((one, other) => one - other);
  return values.map((value) => (sorted.indexOf(value) + sorted.lastIndexOf(value)) / 2);
}

/** From -1 to 1; 0 when one side says the same of all. */
function correlation(one: readonly number[], other: readonly number[]): number {
  const mean = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const [a, b] = [mean(one), mean(other)];
  let [both, left, right] = [0, 0, 0];
  for (const [at, value] of one.entries()) {
    const [x, y] = [value - a, (other[at] as number) - b];
    both += x * y;
    left += x * x;
    right += y * y;
  }
  return left === 0 || right === 0 ? 0 : both / Math.sqrt(left * right);
}
