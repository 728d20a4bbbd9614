import type { Article } from './document.ts';
import { bucketCount, wordsKept } from './words.ts';

/** Articles as columns in shared memory, so that threads read them without a copy. */
export interface ArticleColumns {
  readonly dimension: number;
  readonly means: Float32Array;
  /** The buckets of each article's n-grams, {@link wordsKept} places a row. */
  readonly keys: Uint16Array;
  /** The occurrences of each n-gram; 0 in places that are not used. */
  readonly counts: Uint8Array;
  /** The numbers of words. */
  readonly lengths: Float32Array;
  /** Milliseconds since 1970, or NaN. */
  readonly publishedAt: Float64Array;
  /** The numbers of their sources; see {@link SourceNumbers}. */
  readonly sources: Uint32Array;
}

/**
 * Rated articles of one reader. A version reads only its first `count` rows, which never change;
 * columns of articles have room for more, so that the next version need not copy them.
 */
export interface RatedRows extends ArticleColumns, Neighbours {
  readonly count: number;
  /** The number of rows that are taken by any version, in shared memory. */
  readonly taken: Int32Array;
  readonly scores: Float32Array;
  readonly ratedAt: Float64Array;
  /** The part that each belongs to when a model is tried on articles that it has not seen. */
  readonly folds: Uint8Array;
  /** The number of first rows that have been compared with each other. */
  readonly compared: number;
}

/**
 * The memory for short-lived objects of a thread that works on rows, which are in shared memory. A
 * thread may have 48 MB otherwise: an idle ranker takes 579 MB with this, 603 without (2026-11).
 */
export const threadLimits = { maxYoungGenerationSizeMb: 6 } as const;
/** The parts that ratings are dealt into for cross-validation. */
export const foldCount = 5;
/** The number of neighbours that a score uses. */
export const neighboursUsed = 8;
/** Neighbours kept of each rated article: more than are used, since some folds are left out. */
export const neighboursKept = 24;
/** The entry of a list of neighbours that is not full. */
export const noRow = 0xffff_ffff;
/** Pairs of ratings that a change compares at once, in some 0.1 s; the rest comes later. */
const pairsMax = 300_000;

export function emptyColumns(count: number, dimension: number): ArticleColumns {
  const shared = (bytes: number) => new SharedArrayBuffer(bytes);
  return {
    dimension,
    means: new Float32Array(shared(4 * count * dimension)),
    keys: new Uint16Array(shared(2 * count * wordsKept)),
    counts: new Uint8Array(shared(count * wordsKept)),
    lengths: new Float32Array(shared(4 * count)),
    publishedAt: new Float64Array(shared(8 * count)),
    sources: new Uint32Array(shared(4 * count)),
  };
}

/** Writes an article into a row. */
export function setRow(
  columns: ArticleColumns,
  row: number,
  { document, publishedAt }: Pick<Article, 'document' | 'publishedAt'>,
  source: number,
): void {
  const from = row * wordsKept;
  columns.means.set(document.mean, row * columns.dimension);
  columns.counts.fill(0, from, from + wordsKept);
  columns.keys.set(document.words.keys, from);
  columns.counts.set(document.words.counts, from);
  columns.lengths[row] = document.length;
  columns.publishedAt[row] = publishedAt ?? Number.NaN;
  columns.sources[row] = source;
}

/** The article's vector. */
export function rowMean({ means, dimension }: ArticleColumns, row: number): Float32Array {
  return means.subarray(row * dimension, (row + 1) * dimension);
}

/** A number for each source, the same as long as the map lives. */
export function numberOf(sources: Map<string, number>, source: string): number {
  const number = sources.get(source) ?? sources.size;
  sources.set(source, number);
  return number;
}

/** The fold that an article belongs to: always the same one. */
export function foldOf(id: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at += 1) {
    hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193);
  }
  return ((hash ^ (hash >>> 15)) >>> 0) % foldCount;
}

/** A rating that is new, or that takes the place of another. */
export interface Edit {
  readonly row: number;
  /** From 1 to 10, or NaN for a rating that was taken back. */
  readonly score: number;
  readonly ratedAt: number;
  /** The article, if the row is new. */
  readonly added?:
    | (Pick<Article, 'id' | 'document' | 'publishedAt'> & { readonly source: number })
    | undefined;
}

/** The rows with these edits; old rows keep their lists of neighbours, new ones have none yet. */
export function placeRows(
  before: RatedRows | undefined,
  edits: readonly Edit[],
  dimension: number,
): RatedRows {
  const count = edits.reduce((most, { row }) => Math.max(most, row + 1), before?.count ?? 0);
  const shared = (bytes: number) => new SharedArrayBuffer(bytes);
  const rows: RatedRows = {
    ...roomFor(before, count, dimension),
    ...emptyNeighbours(count, neighboursKept),
    count,
    compared: before?.compared ?? 0,
    scores: new Float32Array(shared(4 * count)),
    ratedAt: new Float64Array(shared(8 * count)),
  };
  if (before !== undefined) {
    for (const name of ownColumns) rows[name].set(before[name]);
  }
  for (const { row, score, ratedAt, added } of edits) {
    rows.scores[row] = score;
    rows.ratedAt[row] = ratedAt;
    if (added === undefined) continue;
    setRow(rows, row, added, added.source);
    rows.folds[row] = foldOf(added.id);
  }
  return rows;
}

/** The rows, with new ones compared with all others unless they are too many. */
export function comparedRows(rows: RatedRows): RatedRows {
  const { count, compared } = rows;
  if ((count - compared) * count > pairsMax) return rows;
  compareRows(rows, compared, count);
  return { ...rows, compared: count };
}

/** The columns that each version has for itself. */
const ownColumns = ['scores', 'ratedAt', 'nearest', 'similarities'] as const;
/** The columns that versions share. */
const sharedColumns = [
  'means',
  'keys',
  'counts',
  'lengths',
  'publishedAt',
  'sources',
  'folds',
] as const;

type SharedColumns = Pick<RatedRows, (typeof sharedColumns)[number] | 'dimension' | 'taken'>;

/** Columns with room up to `count`: the same ones, unless another version has taken the room. */
function roomFor(before: RatedRows | undefined, count: number, dimension: number): SharedColumns {
  const isRoom = before !== undefined && count <= before.lengths.length;
  const kept = before?.count ?? 0;
  if (isRoom && Atomics.compareExchange(before.taken, 0, kept, count) === kept) return before;
  const size = count + Math.ceil(count / 8) + 16;
  const columns = {
    ...emptyColumns(size, dimension),
    folds: new Uint8Array(new SharedArrayBuffer(size)),
    taken: new Int32Array(new SharedArrayBuffer(4)),
  };
  columns.taken[0] = count;
  if (before === undefined) return columns;
  for (const name of sharedColumns) {
    const width = before[name].length / before.lengths.length;
    columns[name].set(before[name].subarray(0, kept * width) as never);
  }
  return columns;
}

/** The rows that are rated; rows whose rating was taken back are left out. */
export function ratedOnly({ scores }: RatedRows): number[] {
  return [...scores.keys()].filter((row) => !Number.isNaN(scores[row]));
}

/** The scores of these rows; those of all others are NaN. */
export function scoresOf({ scores }: RatedRows, only: readonly number[]): Float32Array {
  const known = new Float32Array(scores.length).fill(Number.NaN);
  for (const row of only) known[row] = scores[row] as number;
  return known;
}

/** Compares rows with all before them, and updates the lists of both. */
export function compareRows(rows: RatedRows, from: number, to: number): void {
  for (let row = from; row < to; row += 1) {
    eachSimilarity(rows, rowMean(rows, row), 0, row, (other, similarity) => {
      insertNeighbour(rows, row, other, similarity);
      insertNeighbour(rows, other, row, similarity);
    });
  }
}

const rowsAtOnce = 4;

/**
 * The cosines of a vector to rows. Four at a time, so that the vector is read once for them: 330 ns
 * a row instead of 490 (2026-11). All add up in the same order, however many there are.
 */
export function eachSimilarity(
  { means, dimension }: Pick<ArticleColumns, 'means' | 'dimension'>,
  mean: Float32Array,
  from: number,
  to: number,
  found: (row: number, similarity: number) => void,
): void {
  const vector = Float64Array.from(mean);
  const four = new Float64Array(rowsAtOnce);
  let row = from;
  for (; row + rowsAtOnce <= to; row += rowsAtOnce) {
    dotFour(vector, means, row * dimension, four);
    for (let at = 0; at < rowsAtOnce; at += 1) found(row + at, four[at] as number);
  }
  for (; row < to; row += 1) found(row, dotOne(vector, means, row * dimension));
}

function dotFour(
  vector: Float64Array,
  means: Float32Array,
  from: number,
  into: Float64Array,
): void {
  const { length } = vector;
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  for (let at = 0; at < length; at += 1) {
    const value = vector[at] as number;
    const place = from + at;
    a += value * (means[place] as number);
    b += value * (means[place + length] as number);
    c += value * (means[place + 2 * length] as number);
    d += value * (means[place + 3 * length] as number);
  }
  into[0] = a;
  into[1] = b;
  into[2] = c;
  into[3] = d;
}

function dotOne(vector: Float64Array, means: Float32Array, from: number): number {
  let sum = 0;
  for (let at = 0; at < vector.length; at += 1) {
    sum += (vector[at] as number) * (means[from + at] as number);
  }
  return sum;
}

/** Lists of the nearest rated rows, one at each place, nearest first. */
export interface Neighbours {
  /** The length of each list. */
  readonly size: number;
  readonly nearest: Uint32Array;
  readonly similarities: Float32Array;
}

/** Lists without any row yet. */
export function emptyNeighbours(places: number, size: number = neighboursUsed): Neighbours {
  const bytes = 4 * places * size;
  return {
    size,
    nearest: new Uint32Array(new SharedArrayBuffer(bytes)).fill(noRow),
    similarities: new Float32Array(new SharedArrayBuffer(bytes)).fill(-2),
  };
}

/** Empties the list at a place. */
export function clearNeighbours(lists: Neighbours, place: number): void {
  const from = place * lists.size;
  lists.nearest.fill(noRow, from, from + lists.size);
  lists.similarities.fill(-2, from, from + lists.size);
}

/** Puts a row where it belongs in the list at a place; the last one drops out. */
export function insertNeighbour(
  { nearest, similarities, size }: Neighbours,
  place: number,
  row: number,
  similarity: number,
): void {
  const from = place * size;
  let at = from + size - 1;
  if (similarity <= (similarities[at] as number)) return;
  for (; at > from && (similarities[at - 1] as number) < similarity; at -= 1) {
    nearest[at] = nearest[at - 1] as number;
    similarities[at] = similarities[at - 1] as number;
  }
  nearest[at] = row;
  similarities[at] = similarity;
}

/** Statistics of all articles, which reveal nothing about a single one. */
export interface Common {
  /** The mean of all vectors. */
  readonly centre: Float32Array;
  /** The weight of each bucket: rare n-grams say more. */
  readonly rarity: Float32Array;
  /** The number of articles it was made of. */
  readonly count: number;
}

/** Zero vectors that the mean begins with, so that a few articles have little effect on it. */
const centreStart = 10;

/** Counts the statistics of articles; articles can be removed again. */
export class CommonCounts {
  readonly #sum: Float64Array;
  readonly #seen = new Uint32Array(bucketCount);
  count = 0;

  constructor(dimension: number) {
    this.#sum = new Float64Array(dimension);
  }

  /** Counts a row, or with a sign of -1 does not count it any more. */
  add(columns: ArticleColumns, row: number, sign: 1 | -1 = 1): void {
    this.count += sign;
    const mean = rowMean(columns, row);
    // An iterator would take 30 times as long, for each article of a list.
    for (let at = 0; at < mean.length; at += 1) {
      this.#sum[at] = (this.#sum[at] as number) + sign * (mean[at] as number);
    }
    const from = row * wordsKept;
    for (let at = from; at < from + wordsKept && columns.counts[at] !== 0; at += 1) {
      const key = columns.keys[at] as number;
      this.#seen[key] = (this.#seen[key] as number) + sign;
    }
  }

  /** A copy of the statistics; later counts do not change it. */
  snapshot(): Common {
    const { count } = this;
    const centre = new Float32Array(new SharedArrayBuffer(4 * this.#sum.length));
    for (const [at, sum] of this.#sum.entries()) centre[at] = sum / (count + centreStart);
    const rarity = new Float32Array(new SharedArrayBuffer(4 * bucketCount));
    for (const [at, seen] of this.#seen.entries()) rarity[at] = Math.log((count + 2) / (seen + 1));
    return { centre, rarity, count };
  }
}

/** The statistics of a reader's own ratings, where no other articles have been seen. */
export function commonOf(rows: RatedRows): Common {
  const counts = new CommonCounts(rows.dimension);
  for (let row = 0; row < rows.count; row += 1) counts.add(rows, row);
  return counts.snapshot();
}
