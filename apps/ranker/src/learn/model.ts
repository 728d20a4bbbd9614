import { dot, dotAt } from './document.ts';
import { ageFeature, lengthFeature, neighbourFeature, similarityUnknown } from './features.ts';
import { type ArticleColumns, type Common, type RatedRows, ratedOnly, scoresOf } from './rows.ts';
import { scoreUnknown } from './score.ts';
import { bucketCount, wordsKept } from './words.ts';

/** The parameters that training chooses for a reader; ratings do not change them. */
export interface Choice {
  /** The penalty on the weights of the embedding; `Infinity` leaves it out. */
  readonly topic: number;
  /** The penalty on the weights of n-grams; `Infinity` leaves them out. */
  readonly words: number;
  /** The factor on the distance to the reader's mean. @default less while ratings are few */
  readonly slope?: number | undefined;
  /** The error, in points, within which 8 of 10 ratings are, without a similar rated article. */
  readonly width: number;
}

/** The choice before any training: good for most of the simulated readers. */
export const untrained: Choice = { topic: 0.5, words: 1, width: 2.95 };

/** A reader's linear model: a score is the start plus the points of each part. */
export interface Model {
  readonly start: number;
  readonly common: Common;
  readonly choice: Choice;
  /** The weight of each number of an article's vector. */
  readonly topic: Float32Array;
  /** The weight of each bucket of n-grams. */
  readonly words: Float32Array;
  /** The weight of each of {@link sideNames}. */
  readonly side: Float32Array;
  /** For each source the sum of its weighted scores above the start, then the sum of weights. */
  readonly sources: Float32Array;
  /** The factor on the distance to the start. */
  readonly slope: number;
  /** The factor on that distance for the order of lists, from 1. */
  readonly boldness: number;
}

/** The parts of a score besides embedding and words. */
export const sideNames = ['source', 'neighbours', 'length', 'age'] as const;
export const sideCount: number = sideNames.length;
const sideStart: readonly number[] = [0.5, 0.55, 0, 0];
const sidePenalties: readonly number[] = [60, 60, 40, 40];

/** Ratings of 5.5 that a reader's mean begins with: the first rating alone says little. */
const startRatings = 2;
/** Ratings of the reader's mean that each source begins with. */
const sourceRatings = 3;
/** The slope with many ratings, and the number of ratings with which it is half of that. */
const slopeMost = 0.8;
const cautionRatings = 7.5;
/** The same for the order of lists, which must follow the first votes. */
const orderRatings = 2;
/** The search for weights ends when at most this share of the squared error could be gained. */
const precision = 1e-4;
/**
 * From this many ratings on, fitting a model takes noticeable time, and a lower precision is
 * enough: scores differ by a root mean square of 0.01.
 */
export const manyRatings = 500;
const roundsMax = 100;

/** The slope for this many ratings, before any of it is measured. */
export function cautiousSlope(ratings: number): number {
  return (slopeMost * ratings) / (ratings + cautionRatings);
}

export interface FitOptions {
  /** The half-life of a rating's weight, in milliseconds. */
  readonly halfLifeMs: number;
  /** The rows to learn from. @default all */
  readonly only?: readonly number[] | undefined;
}

/** Learns a model from ratings by ridge regression. */
export function fit(
  rows: RatedRows,
  common: Common,
  choice: Choice,
  { halfLifeMs, only = ratedOnly(rows) }: FitOptions,
): Model {
  const newest = only.reduce((most, row) => Math.max(most, rows.ratedAt[row] as number), 0);
  const weights = new Float64Array(rows.count);
  for (const row of only) {
    weights[row] = 2 ** (((rows.ratedAt[row] as number) - newest) / halfLifeMs);
  }
  let sum = startRatings * scoreUnknown;
  let total = startRatings;
  for (const row of only) {
    sum += (weights[row] as number) * (rows.scores[row] as number);
    total += weights[row] as number;
  }
  const start = sum / total;
  const sources = sourceSums(rows, weights, only, start);
  const equations = new Equations(rows, common, choice, only, weights, start, sources);
  const solution = equations.solve();
  const { dimension } = rows;
  const shared = (length: number) => new Float32Array(new SharedArrayBuffer(4 * length));
  const slope = choice.slope ?? cautiousSlope(only.length);
  const bold = only.length / (only.length + orderRatings);
  const model = {
    start,
    common,
    choice,
    sources,
    slope,
    boldness: slope > 0 ? Math.max(1, bold / slope) : 1,
    topic: shared(dimension),
    words: shared(bucketCount),
    side: shared(sideCount),
  };
  model.topic.set(solution.subarray(0, dimension));
  model.words.set(solution.subarray(dimension, dimension + bucketCount));
  for (const [at, begun] of sideStart.entries()) {
    const learned = begun + (solution[dimension + bucketCount + at] as number);
    // Similarity to a liked article must never lower a score.
    model.side[at] = begun > 0 ? Math.max(0, learned) : learned;
  }
  // While some rows are not compared, the weight of neighbours was not learned with the others, and
  // their information would count twice.
  if (rows.compared < rows.count) model.side[sideNames.indexOf('neighbours')] = 0;
  return model;
}

function sourceSums(
  rows: RatedRows,
  weights: Float64Array,
  only: readonly number[],
  start: number,
): Float32Array {
  const known = only.reduce((most, row) => Math.max(most, (rows.sources[row] as number) + 1), 0);
  const sums = new Float32Array(new SharedArrayBuffer(8 * known));
  for (const row of only) {
    const source = rows.sources[row] as number;
    const weight = weights[row] as number;
    sums[2 * source] =
      (sums[2 * source] as number) + weight * ((rows.scores[row] as number) - start);
    sums[2 * source + 1] = (sums[2 * source + 1] as number) + weight;
  }
  return sums;
}

/** The weighted normal equations without their matrix: each product is computed from the rows. */
class Equations {
  readonly #rows: RatedRows;
  readonly #common: Common;
  readonly #only: readonly number[];
  readonly #weights: Float64Array;
  readonly #side: Float64Array;
  readonly #rest: Float64Array;
  readonly #penalties: Float64Array;
  readonly #values: Float32Array;
  readonly #size: number;
  readonly #hasTopic: boolean;
  readonly #hasWords: boolean;

  constructor(
    rows: RatedRows,
    common: Common,
    choice: Choice,
    only: readonly number[],
    weights: Float64Array,
    start: number,
    sources: Float32Array,
  ) {
    this.#rows = rows;
    this.#common = common;
    this.#only = only;
    this.#weights = weights;
    this.#hasTopic = choice.topic !== Infinity;
    this.#hasWords = choice.words !== Infinity;
    this.#size = rows.dimension + bucketCount + sideCount;
    this.#penalties = new Float64Array(this.#size);
    // The weights of a part that is left out stay 0.
    const { topic, words } = choice;
    this.#penalties.fill(this.#hasTopic ? topic : 1, 0, rows.dimension);
    const from = rows.dimension;
    this.#penalties.fill(this.#hasWords ? words : 1, from, from + bucketCount);
    this.#penalties.set(sidePenalties, rows.dimension + bucketCount);
    this.#side = new Float64Array(only.length * sideCount);
    this.#rest = new Float64Array(only.length);
    this.#values = new Float32Array(only.length * wordsKept);
    const known = scoresOf(rows, only);
    const about = { start, unknown: similarityUnknown(common) };
    // Until all ratings have been compared, some have lists and others none.
    const hasLists = rows.compared === rows.count;
    for (const [place, row] of only.entries()) {
      const values = this.#values.subarray(place * wordsKept, (place + 1) * wordsKept);
      wordValues(rows, row, common, values);
      const side = [
        ownSource(rows, row, weights, start, sources),
        hasLists ? neighbourFeature(rows, row, known, about).feature : 0,
        lengthFeature(rows.lengths[row] as number),
        ageFeature(rows.publishedAt[row] as number, rows.ratedAt[row] as number),
      ];
      this.#side.set(side, place * sideCount);
      const believed = side.reduce((sum, value, at) => sum + value * (sideStart[at] as number), 0);
      this.#rest[place] = (rows.scores[row] as number) - start - believed;
    }
  }

  /** Solves the equations by conjugate gradients with a diagonal preconditioner. */
  solve(): Float64Array {
    const solution = new Float64Array(this.#size);
    const scale = this.#scale();
    const rest = this.#pass(solution, this.#rest);
    const scaled = rest.map((value, at) => value / (scale[at] as number));
    const direction = scaled.slice();
    const { length } = this.#only;
    const enough = precision * (length < manyRatings ? 1 : length);
    let left = product(rest, scaled);
    for (let round = 0; round < roundsMax && left > enough; round += 1) {
      const image = this.#pass(direction);
      for (let at = 0; at < image.length; at += 1) {
        const penalty = (this.#penalties[at] as number) * (direction[at] as number);
        image[at] = penalty - (image[at] as number);
      }
      const step = left / product(direction, image);
      for (let at = 0; at < solution.length; at += 1) {
        solution[at] = (solution[at] as number) + step * (direction[at] as number);
        rest[at] = (rest[at] as number) - step * (image[at] as number);
        scaled[at] = (rest[at] as number) / (scale[at] as number);
      }
      const last = left;
      left = product(rest, scaled);
      for (let at = 0; at < direction.length; at += 1) {
        direction[at] = (scaled[at] as number) + (left / last) * (direction[at] as number);
      }
    }
    return solution;
  }

  /** The diagonal of the equations, the preconditioner: with it a few rounds are enough. */
  #scale(): Float64Array {
    const { dimension, keys } = this.#rows;
    const scale = this.#penalties.slice();
    let total = 0;
    for (const [place, row] of this.#only.entries()) {
      const weight = this.#weights[row] as number;
      total += weight;
      for (let at = 0; at < wordsKept && this.#hasWords; at += 1) {
        const value = this.#values[place * wordsKept + at] as number;
        if (value === 0) continue;
        const key = dimension + (keys[row * wordsKept + at] as number);
        scale[key] = (scale[key] as number) + weight * value * value;
      }
      for (let at = 0; at < sideCount; at += 1) {
        const key = dimension + bucketCount + at;
        const value = this.#side[place * sideCount + at] as number;
        scale[key] = (scale[key] as number) + weight * value * value;
      }
    }
    // Vectors have length 1, so their numbers have similar sizes.
    for (let at = 0; at < dimension; at += 1) {
      scale[at] = (scale[at] as number) + total / dimension;
    }
    return scale;
  }

  /**
   * The sum of all rows, each times its weight and the distance from `wanted` (0 by default) to its
   * product with these weights. One pass does both, since the rows are more than the caches hold.
   */
  #pass(weights: Float64Array, wanted?: Float64Array): Float64Array {
    const { dimension, keys, means } = this.#rows;
    const { centre } = this.#common;
    const values = this.#values;
    const side = this.#side;
    const topicEnd = this.#hasTopic ? dimension : 0;
    const wordsEnd = this.#hasWords ? wordsKept : 0;
    const sideFrom = dimension + bucketCount;
    const topic = Float32Array.from(weights.subarray(0, dimension));
    const shift = this.#hasTopic ? dot(topic, centre) : 0;
    const sums = new Float64Array(this.#size);
    let total = 0;
    for (let place = 0; place < this.#only.length; place += 1) {
      const row = this.#only[place] as number;
      const from = row * dimension;
      const keyFrom = row * wordsKept;
      const valueFrom = place * wordsKept;
      let said = topicEnd > 0 ? dotAt(topic, 0, means, from, dimension) - shift : 0;
      for (let at = 0; at < wordsEnd; at += 1) {
        const value = values[valueFrom + at] as number;
        if (value === 0) continue;
        said += value * (weights[dimension + (keys[keyFrom + at] as number)] as number);
      }
      for (let at = 0; at < sideCount; at += 1) {
        said += (side[place * sideCount + at] as number) * (weights[sideFrom + at] as number);
      }
      const goal = wanted === undefined ? 0 : (wanted[place] as number);
      const factor = (goal - said) * (this.#weights[row] as number);
      total += factor;
      for (let at = 0; at < topicEnd; at += 1) {
        sums[at] = (sums[at] as number) + factor * (means[from + at] as number);
      }
      for (let at = 0; at < wordsEnd; at += 1) {
        const value = values[valueFrom + at] as number;
        if (value === 0) continue;
        const key = dimension + (keys[keyFrom + at] as number);
        sums[key] = (sums[key] as number) + factor * value;
      }
      for (let at = 0; at < sideCount; at += 1) {
        const added = factor * (side[place * sideCount + at] as number);
        sums[sideFrom + at] = (sums[sideFrom + at] as number) + added;
      }
    }
    for (let at = 0; at < topicEnd; at += 1) {
      sums[at] = (sums[at] as number) - total * (centre[at] as number);
    }
    return sums;
  }
}

function product(one: Float64Array, other: Float64Array): number {
  let sum = 0;
  for (let at = 0; at < other.length; at += 1) sum += (one[at] as number) * (other[at] as number);
  return sum;
}

/** The values of a row's n-grams as a vector of length 1: rare and frequent ones count most. */
export function wordValues(
  { keys, counts }: Pick<ArticleColumns, 'keys' | 'counts'>,
  row: number,
  { rarity }: Common,
  into: Float32Array,
): void {
  const from = row * wordsKept;
  let norm = 0;
  for (let at = 0; at < wordsKept; at += 1) {
    const count = counts[from + at] as number;
    const value =
      count === 0 ? 0 : Math.sqrt(count) * (rarity[keys[from + at] as number] as number);
    into[at] = value;
    norm += value * value;
  }
  if (norm === 0) return;
  const factor = 1 / Math.sqrt(norm);
  for (let at = 0; at < wordsKept; at += 1) into[at] = (into[at] as number) * factor;
}

/** The source feature of a row, without the row's own score. */
function ownSource(
  rows: RatedRows,
  row: number,
  weights: Float64Array,
  start: number,
  sources: Float32Array,
): number {
  const source = rows.sources[row] as number;
  const weight = weights[row] as number;
  const sum = (sources[2 * source] as number) - weight * ((rows.scores[row] as number) - start);
  return sourceFeature(sum, (sources[2 * source + 1] as number) - weight);
}

/** The mean of a source's scores above the reader's mean, drawn towards 0 while they are few. */
export function sourceFeature(sum: number, weight: number): number {
  return sum / (weight + sourceRatings);
}
