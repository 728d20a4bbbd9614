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

/** So many rated articles have a say in an article's score. */
export const neighboursUsed = 8;
/** So many are known of each rated article: those of its own fold are left out when it learns. */
export const neighboursKept = 24;
/** What stands in a list that is not full. */
export const noRow = 0xffff_ffff;

/** A neighbour nearer by this much has a say 2.7 times as strong. */
const temperature = 0.1;
/** Neighbours at this cosine, where unrelated articles begin, count as much as knowing nothing. */
const similarityUnknown = 0.35;

/** Keeps the rows with the highest similarities, highest first. */
export class NearestRows {
  readonly rows: Uint32Array;
  readonly similarities: Float32Array;
  readonly #size: number;

  constructor(size: number) {
    this.#size = size;
    this.rows = new Uint32Array(size);
    this.similarities = new Float32Array(size);
  }

  /** Finds them among all rows but `except`; lists that are not full end with `noRow`. */
  find(similarities: Float32Array, except: number = noRow): this {
    this.rows.fill(noRow);
    this.similarities.fill(-2);
    let least = -2;
    for (let row = 0; row < similarities.length; row += 1) {
      const similarity = similarities[row] as number;
      if (similarity <= least || row === except) continue;
      insertNeighbour(this.rows, this.similarities, { row, similarity }, 0, this.#size);
      least = this.similarities[this.#size - 1] as number;
    }
    return this;
  }
}

/** Puts a row where it belongs in a sorted list that begins at `from`; the last one drops out. */
export function insertNeighbour(
  rows: Uint32Array,
  similarities: Float32Array,
  { row, similarity }: { readonly row: number; readonly similarity: number },
  from: number,
  size: number,
): void {
  let at = from + size - 1;
  if (similarity <= (similarities[at] as number)) return;
  for (; at > from && (similarities[at - 1] as number) < similarity; at -= 1) {
    rows[at] = rows[at - 1] as number;
    similarities[at] = similarities[at - 1] as number;
  }
  rows[at] = row;
  similarities[at] = similarity;
}

/** The say of a neighbour at this cosine; one at `similarityUnknown` has 1. */
export function neighbourWeight(similarity: number): number {
  return Math.exp((similarity - similarityUnknown) / temperature);
}
