import { insertNeighbour, NearestRows, neighboursKept, noRow } from './neighbours.ts';
import type { VectorIndex } from './vector-index.ts';

/** What is known of each rated article besides its vectors; a row each. */
export interface RatedColumns {
  readonly scores: Float32Array;
  /** The number of its source. */
  readonly sources: Uint32Array;
  /** Which part of the articles it belongs to when what it learns from must not include it. */
  readonly folds: Uint8Array;
  readonly lengths: Float32Array;
  readonly ages: Float32Array;
}

/** All rated articles of one reader, in shared memory; never changed once made. */
export interface RatedRows extends RatedColumns {
  readonly count: number;
  readonly dimension: number;
  readonly means: Float32Array;
  readonly titles: Float32Array;
  /** The nearest others of each row, nearest first. */
  readonly nearest: Uint32Array;
  readonly similarities: Float32Array;
  /** The sum of the products of each mean with itself: what ridge regression needs of them. */
  readonly moment: Float64Array;
}

/** Vectors that come to those that are known. */
export interface AddedVectors {
  readonly means: Float32Array;
  readonly titles: Float32Array;
}

/** Parts that articles are dealt into when a model is to be tried on what it has not seen. */
export const foldCount = 5;

export function sharedFloats(length: number): Float32Array<SharedArrayBuffer> {
  return new Float32Array(new SharedArrayBuffer(length * 4));
}

/** No articles at all. */
export function noRows(dimension: number): RatedRows {
  const none = sharedFloats(0);
  return {
    count: 0,
    dimension,
    ...{ means: none, titles: none, scores: none, lengths: none, ages: none, similarities: none },
    sources: new Uint32Array(new SharedArrayBuffer(0)),
    folds: new Uint8Array(new SharedArrayBuffer(0)),
    nearest: new Uint32Array(new SharedArrayBuffer(0)),
    moment: new Float64Array(new SharedArrayBuffer(8 * dimension * dimension)),
  };
}

/**
 * The same rows and more after them; all columns are given anew, since scores change. The content
 * of the index is replaced.
 */
export function growRows(
  old: RatedRows,
  added: AddedVectors,
  columns: RatedColumns,
  index: VectorIndex,
): RatedRows {
  const { dimension } = old;
  if (added.means.length === 0) return { ...old, ...shareColumns(columns) };
  const count = columns.scores.length;
  const means = joined(old.means, added.means);
  const titles = joined(old.titles, added.titles);
  const nearest = new Uint32Array(new SharedArrayBuffer(4 * count * neighboursKept)).fill(noRow);
  const similarities = sharedFloats(count * neighboursKept).fill(-2);
  nearest.set(old.nearest);
  similarities.set(old.similarities);
  const moment = new Float64Array(new SharedArrayBuffer(old.moment.byteLength));
  moment.set(old.moment);
  index.load(means, dimension);
  const found = new NearestRows(neighboursKept);
  for (let row = old.count; row < count; row += 1) {
    const mean = means.subarray(row * dimension, (row + 1) * dimension);
    addMoment(moment, mean);
    const products = index.products(mean);
    found.find(products, row);
    nearest.set(found.rows, row * neighboursKept);
    similarities.set(found.similarities, row * neighboursKept);
    for (let other = 0; other < old.count; other += 1) {
      const neighbour = { row, similarity: products[other] as number };
      insertNeighbour(nearest, similarities, neighbour, other * neighboursKept, neighboursKept);
    }
  }
  const shape = { count, dimension, means, titles, nearest, similarities, moment };
  return { ...shape, ...shareColumns(columns) };
}

function shareColumns(columns: RatedColumns): RatedColumns {
  const { length } = columns.scores;
  const sources = new Uint32Array(new SharedArrayBuffer(4 * length));
  const folds = new Uint8Array(new SharedArrayBuffer(length));
  sources.set(columns.sources);
  folds.set(columns.folds);
  const none = new Float32Array(0);
  return {
    scores: joined(columns.scores, none),
    lengths: joined(columns.lengths, none),
    ages: joined(columns.ages, none),
    sources,
    folds,
  };
}

function joined(one: Float32Array, other: Float32Array): Float32Array {
  const both = sharedFloats(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

/** Adds the product of a vector with itself; only the lower half is kept. */
function addMoment(moment: Float64Array, vector: Float32Array): void {
  const { length } = vector;
  for (let row = 0; row < length; row += 1) {
    const factor = vector[row] as number;
    const from = row * length;
    for (let at = 0; at <= row; at += 1) {
      moment[from + at] = (moment[from + at] as number) + factor * (vector[at] as number);
    }
  }
}
