import {
  foldCount,
  neighboursKept,
  neighboursUsed,
  neighbourWeight,
  noRow,
  type RatedRows,
} from './rated-rows.ts';
import { scoreUnknown } from './score.ts';
import { addTo, dot, normalise } from './vectors.ts';

/** What ridge regression knows of an article besides its vector, in this order. */
export const featureNames = ['profile', 'neighbours', 'source', 'length', 'age', 'title'] as const;
export const featureCount: number = featureNames.length;

/** What each feature is worth before anything is learned, in points of score for one unit. */
export const featureWeights: readonly number[] = [2, 0.6, 0.4, 0, 0, 1];
/** How many ratings it takes, about, to move a weight away from that. */
export const featurePenalties: readonly number[] = [4, 20, 20, 20, 20, 4];

/** Ratings of 5.5 that a reader's mean begins with: the first rating alone says little. */
const startRatings = 2;
/** Ratings of the reader's mean that each source begins with. */
const sourceRatings = 4;

/** What the reader's mean is taken to be. */
export function startScore(scores: Float32Array): number {
  const sum = scores.reduce((total, score) => total + score, 0);
  return (sum + startRatings * scoreUnknown) / (scores.length + startRatings);
}

/** A text's length as a feature: 0 at 400 words, 1 at 1,800. */
export function lengthFeature(words: number): number {
  return (Math.log1p(words) - 6) / 1.5;
}

/** An article's age as a feature: 0 at two days or when it is not known, 1 at two weeks. */
export function ageFeature(publishedAt: number | undefined, now: number): number {
  if (publishedAt === undefined) return 0;
  return (Math.log1p(Math.max(0, now - publishedAt) / 86_400_000) - 1) / 1.7;
}

/** The mean of a source's scores as a feature: what it is above the reader's mean, with caution. */
export function sourceFeature(sum: number, count: number, start: number): number {
  return (sum - count * start) / (count + sourceRatings);
}

/** What the nearest rated articles say: how far above the reader's mean, with caution. */
export class NeighbourWord {
  #sum = 0;
  #weights = 1;

  /** Whoever knows nothing has a say of 1. */
  get feature(): number {
    return this.#sum / this.#weights;
  }

  add(similarity: number, aboveStart: number): void {
    const weight = neighbourWeight(similarity);
    this.#sum += weight * aboveStart;
    this.#weights += weight;
  }

  /** A neighbour's share of all that is said. */
  share(similarity: number): number {
    return neighbourWeight(similarity) / this.#weights;
  }
}

/** The direction of what is liked less that of what is disliked. */
export function profileOf(rows: RatedRows, vectors: Float32Array, start: number): Float32Array {
  const sums = foldSums(rows, vectors, start);
  const total = new Float32Array(rows.dimension);
  for (const sum of sums) addTo(total, sum, 1);
  return normalise(total);
}

/**
 * The features of every rated article as a model may see them when it learns: made from the ratings
 * of other folds only, so that no row contains its own score.
 */
export function trainingFeatures(rows: RatedRows, start: number): Float64Array {
  const features = new Float64Array(rows.count * featureCount);
  const profiles = otherFolds(foldSums(rows, rows.means, start));
  const titles = otherFolds(foldSums(rows, rows.titles, start));
  const sources = sourceSums(rows);
  for (let row = 0; row < rows.count; row += 1) {
    const fold = rows.folds[row] as number;
    const { sum, count } = sources.without(rows.sources[row] as number, fold);
    const values = [
      dot(profiles[fold] as Float32Array, rowOf(rows.means, row, rows.dimension)),
      neighbourFeature(rows, row, start),
      sourceFeature(sum, count, start),
      rows.lengths[row] as number,
      rows.ages[row] as number,
      dot(titles[fold] as Float32Array, rowOf(rows.titles, row, rows.dimension)),
    ];
    features.set(values, row * featureCount);
  }
  return features;
}

export function rowOf(vectors: Float32Array, row: number, dimension: number): Float32Array {
  return vectors.subarray(row * dimension, (row + 1) * dimension);
}

function neighbourFeature(rows: RatedRows, row: number, start: number): number {
  const word = new NeighbourWord();
  const from = row * neighboursKept;
  let used = 0;
  for (let at = from; at < from + neighboursKept && used < neighboursUsed; at += 1) {
    const other = rows.nearest[at] as number;
    if (other === noRow) break;
    if (rows.folds[other] === rows.folds[row]) continue;
    word.add(rows.similarities[at] as number, (rows.scores[other] as number) - start);
    used += 1;
  }
  return word.feature;
}

function foldSums(rows: RatedRows, vectors: Float32Array, start: number): Float32Array[] {
  const sums = Array.from({ length: foldCount }, () => new Float32Array(rows.dimension));
  for (let row = 0; row < rows.count; row += 1) {
    const weight = ((rows.scores[row] as number) - start) / 9;
    const sum = sums[rows.folds[row] as number] as Float32Array;
    addTo(sum, rowOf(vectors, row, rows.dimension), weight);
  }
  return sums;
}

/** For each fold the direction of the sum of all others. */
function otherFolds(sums: readonly Float32Array[]): Float32Array[] {
  return sums.map((own) => {
    const rest = new Float32Array(own.length);
    for (const sum of sums) if (sum !== own) addTo(rest, sum, 1);
    return normalise(rest);
  });
}

function sourceSums(rows: RatedRows) {
  const cells = new Map<number, { sum: number; count: number }>();
  const cell = (key: number) => cells.get(key) ?? { sum: 0, count: 0 };
  const all = -1;
  const keyOf = (source: number, fold: number) => source * (foldCount + 1) + fold + 1;
  for (const [row, source] of rows.sources.entries()) {
    for (const fold of [rows.folds[row] as number, all]) {
      const { sum, count } = cell(keyOf(source, fold));
      const score = rows.scores[row] as number;
      cells.set(keyOf(source, fold), { sum: sum + score, count: count + 1 });
    }
  }
  return {
    without(source: number, fold: number) {
      const [whole, own] = [cell(keyOf(source, all)), cell(keyOf(source, fold))];
      return { sum: whole.sum - own.sum, count: whole.count - own.count };
    },
  };
}
