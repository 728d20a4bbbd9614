import { calibrate } from './calibration.ts';
import { featureNames, NeighbourWord, sourceFeature } from './features.ts';
import { NearestRows, neighboursUsed, noRow, type RatedRows } from './rated-rows.ts';
import type { Ridge } from './ridge.ts';
import { clampScore, type Reason } from './score.ts';
import type { Trained } from './trained.ts';
import { VectorIndex } from './vector-index.ts';
import { addTo, dot } from './vectors.ts';

/** One version of what a reader likes; all large numbers are in shared memory. */
export interface TasteState {
  readonly rows: RatedRows;
  readonly ridge: Ridge;
  readonly trained: Trained;
}

/** An article as numbers that a taste can judge. */
export interface Candidate {
  readonly mean: Float32Array;
  readonly title: Float32Array;
  /** The number of its source, or -1 for one that was never rated. */
  readonly source: number;
  readonly length: number;
  readonly age: number;
}

/** The parts of a score, in the order in which they are added up. */
export const reasons: readonly Reason[] = [
  'start',
  'topic',
  ...featureNames,
  'calibration',
  'limits',
];

const featuresAt = 2;
const calibrationAt = featuresAt + featureNames.length;
const limitsAt = calibrationAt + 1;

/** Judges articles by a taste; keeps the rated vectors of the last one where they are read fast. */
export class TasteReader {
  /** The points of the last article, by reason. */
  readonly points: Float64Array = new Float64Array(reasons.length);
  readonly nearest: NearestRows = new NearestRows(neighboursUsed);
  word: NeighbourWord = new NeighbourWord();
  /** The last article's score by ridge regression, before calibration and limits. */
  raw: number = Number.NaN;
  #state: TasteState | undefined;
  #key = '';
  /** What the topic says of the mean of all rated vectors. */
  #centrePoints = 0;
  readonly #index = new VectorIndex();

  /** Reads this taste from now on; the same key is the same taste. */
  open(state: TasteState, key: string): void {
    this.#state = state;
    this.#centrePoints = dot(state.ridge.topic, state.ridge.centre);
    if (this.#key === key) return;
    this.#key = key;
    this.#index.load(state.rows.means, state.rows.dimension);
  }

  /** How like the last article is to anything rated, from 0 to 1. */
  get support(): number {
    return Math.min(1, Math.max(0, this.nearest.similarities[0] as number));
  }

  /** How like each of these is to all that is rated; good until the next call. */
  similarities(means: readonly Float32Array[]): Float32Array[] {
    return this.#index.productsOfAll(means);
  }

  /**
   * What ridge regression says, without limits; the points up to there are known after it. The
   * similarities are made if they are not given.
   */
  ridge(candidate: Candidate, similarities?: Float32Array): number {
    const { ridge } = this.#opened;
    this.#findNearest(similarities ?? this.#index.products(candidate.mean));
    const { points } = this;
    points[0] = ridge.start;
    points[1] = this.#topicPoints(candidate.mean);
    const [sum, count] = this.sourceRatings(candidate.source);
    const values = [
      dot(ridge.profile, candidate.mean),
      this.word.feature,
      sourceFeature(sum, count, ridge.start),
      candidate.length,
      candidate.age,
      dot(ridge.titleProfile, candidate.title),
    ];
    let score = points[0] + points[1];
    for (const [at, value] of values.entries()) {
      const added = value * (ridge.weights[at] as number);
      points[featuresAt + at] = added;
      score += added;
    }
    return score;
  }

  /** The article's score; its points are known after it. */
  score(candidate: Candidate, similarities?: Float32Array): number {
    const { points } = this;
    this.raw = this.ridge(candidate, similarities);
    const calibrated = calibrate(this.#opened.trained.calibration, this.raw);
    const score = clampScore(calibrated);
    points[calibrationAt] = calibrated - this.raw;
    points[limitsAt] = score - calibrated;
    return score;
  }

  /** The sum and the number of a source's ratings. */
  sourceRatings(source: number): readonly [sum: number, count: number] {
    const { sources } = this.#opened.ridge;
    return [sources[2 * source] ?? 0, sources[2 * source + 1] ?? 0];
  }

  /** How many points each sentence added by its topic. */
  topicShares(sentences: Float32Array): Float32Array {
    const { ridge } = this.#opened;
    const { dimension } = this.#opened.rows;
    const count = sentences.length / dimension;
    const each = Array.from({ length: count }, (_, at) =>
      sentences.subarray(at * dimension, (at + 1) * dimension),
    );
    const sum = new Float32Array(dimension);
    for (const sentence of each) addTo(sum, sentence, 1);
    const norm = Math.sqrt(dot(sum, sum)) || 1;
    const shift = this.#centrePoints / count;
    return Float32Array.from(each, (sentence) => dot(ridge.topic, sentence) / norm - shift);
  }

  get #opened(): TasteState {
    if (this.#state === undefined) throw new Error('no taste is open');
    return this.#state;
  }

  /** An article without text has no topic: nothing is added or taken away for that. */
  #topicPoints(mean: Float32Array): number {
    const isEmpty = mean.every((value) => value === 0);
    return isEmpty ? 0 : dot(this.#opened.ridge.topic, mean) - this.#centrePoints;
  }

  #findNearest(similarities: Float32Array): void {
    const { rows, ridge } = this.#opened;
    this.nearest.find(similarities);
    this.word = new NeighbourWord();
    for (const [at, row] of this.nearest.rows.entries()) {
      if (row === noRow) break;
      const above = (rows.scores[row] as number) - ridge.start;
      this.word.add(this.nearest.similarities[at] as number, above);
    }
  }
}
