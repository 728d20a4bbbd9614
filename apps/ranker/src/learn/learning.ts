import { nextTurn } from 'spillway/internal';
import { type Calibration, calibrate, fitCalibration, type Prediction } from './calibration.ts';
import { isSameModel, type ModelName, type RatedArticle } from './document.ts';
import { ageFeature, lengthFeature } from './features.ts';
import {
  foldCount,
  growRows,
  noRows,
  type RatedColumns,
  type RatedRows,
  sharedFloats,
} from './rated-rows.ts';
import { fitRidge } from './ridge.ts';
import { clampScore } from './score.ts';
import { type Candidate, TasteReader, type TasteState } from './taste-reader.ts';
import {
  type CrossValidatedErrors,
  type Trained,
  type TrainingKind,
  untrained,
} from './trained.ts';
import { VectorIndex } from './vector-index.ts';

/** Rated articles in shared memory, so that a thread can learn from them without a copy. */
export interface PackedArticles extends RatedColumns {
  readonly dimension: number;
  readonly means: Float32Array;
  readonly titles: Float32Array;
  readonly ratedAt: Float64Array;
}

/** Articles that are copied before the event loop has its turn: half a millisecond's worth. */
const turnSize = 32;

/** Which fold an article belongs to: always the same one. */
export function foldOf(id: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at += 1) {
    hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193);
  }
  return ((hash ^ (hash >>> 15)) >>> 0) % foldCount;
}

/** Copies rated articles into shared memory, in turns; those of another model are left out. */
export async function packArticles(
  rated: Iterable<RatedArticle> | AsyncIterable<RatedArticle>,
  model: ModelName,
): Promise<PackedArticles> {
  const { dimension } = model;
  const articles: RatedArticle[] = [];
  for await (const article of rated) {
    if (isSameModel(article.document.model, model)) articles.push(article);
  }
  const packed = emptyPack(articles.length, dimension);
  const sources = new Map<string, number>();
  for (const [row, article] of articles.entries()) {
    if (row % turnSize === turnSize - 1) await new Promise<void>((resolve) => nextTurn(resolve));
    const { id, source, document, publishedAt, ratedAt, score } = article;
    if (!sources.has(source)) sources.set(source, sources.size);
    packed.means.set(document.mean, row * dimension);
    packed.titles.set(document.title, row * dimension);
    packed.scores[row] = score;
    packed.sources[row] = sources.get(source) as number;
    packed.folds[row] = foldOf(id);
    packed.lengths[row] = lengthFeature(document.words);
    packed.ages[row] = ageFeature(publishedAt, ratedAt);
    packed.ratedAt[row] = ratedAt;
  }
  return packed;
}

function emptyPack(count: number, dimension: number): PackedArticles {
  return {
    dimension,
    means: sharedFloats(count * dimension),
    titles: sharedFloats(count * dimension),
    scores: sharedFloats(count),
    sources: new Uint32Array(new SharedArrayBuffer(4 * count)),
    folds: new Uint8Array(new SharedArrayBuffer(count)),
    lengths: sharedFloats(count),
    ages: sharedFloats(count),
    ratedAt: new Float64Array(new SharedArrayBuffer(8 * count)),
  };
}

/** The result of a training. */
export interface Learned {
  readonly trained: Trained;
  readonly errors: CrossValidatedErrors;
}

/** Predictions of each model for articles that it had not seen, by row. */
interface Unseen {
  readonly constant: Float64Array;
  readonly neighbours: Float64Array;
  /** One for each penalty. */
  readonly ridges: readonly Float64Array[];
}

/** The penalties that are tried. */
const penaltiesOf: Record<TrainingKind, readonly number[]> = {
  quick: [0.3, 1, 3, 10],
  intensive: [0.3, 0.4, 0.55, 0.75, 1, 1.4, 1.8, 2.4, 3, 4, 5.5, 7.5, 10],
};
/** The number of articles below which nothing is chosen. */
const samplesMin = 10;

/**
 * Chooses penalty and calibration by cross-validation. Yields its progress, from 0 to 1, between
 * two pieces of work.
 */
export function* learnTaste(
  packed: PackedArticles,
  kind: TrainingKind,
  all: readonly number[] = [...packed.scores.keys()],
): Generator<number, Learned> {
  const folds = new Set(all.map((row) => packed.folds[row]));
  if (all.length < samplesMin || folds.size < 2) {
    return { trained: untrained, errors: unknownErrors };
  }
  const penalties = penaltiesOf[kind];
  const unseen = emptyUnseen(packed.scores.length, penalties.length);
  for (let fold = 0; fold < foldCount; fold += 1) {
    yield fold / foldCount;
    const asked = all.filter((row) => packed.folds[row] === fold);
    if (asked.length === 0) continue;
    const others = all.filter((row) => packed.folds[row] !== fold);
    const model = new LearnedRows(packed, others);
    for (const [at, penalty] of penalties.entries()) {
      const { constant, neighbours, ridges } = unseen;
      model.answer(asked, penalty, { constant, neighbours, ridge: ridges[at] as Float64Array });
      yield (fold + at / penalties.length) / foldCount;
    }
  }
  return choose(packed, all, unseen, penalties);
}

/** A model that is made of some of the articles alone. */
export class LearnedRows {
  readonly #packed: PackedArticles;
  readonly #rows: RatedRows;
  readonly #reader = new TasteReader();

  constructor(packed: PackedArticles, rows: readonly number[]) {
    this.#packed = packed;
    this.#rows = pick(packed, rows);
  }

  /** Predicts these articles by constant, by neighbours and by ridge regression. */
  answer(
    asked: readonly number[],
    penalty: number,
    into: Omit<Unseen, 'ridges'> & { readonly ridge: Float64Array },
  ): void {
    const state = this.state({ ...untrained, penalty });
    this.#reader.open(state, 'these');
    for (const row of asked) {
      into.ridge[row] = this.#reader.ridge(candidate(this.#packed, row));
      into.constant[row] = state.ridge.start;
      into.neighbours[row] = state.ridge.start + this.#reader.word.feature;
    }
  }

  /** The taste that serves with these choices. */
  state(trained: Trained): TasteState {
    return { rows: this.#rows, ridge: fitRidge(this.#rows, trained.penalty), trained };
  }
}

/** The article in the form that a taste scores. */
export function candidate(packed: PackedArticles, row: number): Candidate {
  const { dimension } = packed;
  return {
    mean: packed.means.subarray(row * dimension, (row + 1) * dimension),
    title: packed.titles.subarray(row * dimension, (row + 1) * dimension),
    source: packed.sources[row] as number,
    length: packed.lengths[row] as number,
    age: packed.ages[row] as number,
  };
}

function choose(
  packed: PackedArticles,
  all: readonly number[],
  unseen: Unseen,
  penalties: readonly number[],
): Learned {
  const scoreAt = (row: number) => packed.scores[row] as number;
  const error = (says: (row: number) => number, cost: (off: number) => number) =>
    all.reduce((sum, row) => sum + cost(says(row) - scoreAt(row)), 0) / all.length;
  const at = (by: Float64Array) => (row: number) => by[row] as number;
  const squared = unseen.ridges.map((ridge) => error(at(ridge), (off) => off * off));
  const best = squared.indexOf(Math.min(...squared));
  const ridge = at(unseen.ridges[best] as Float64Array);
  const samplesOf = (rows: readonly number[]): Prediction[] =>
    rows.map((row) => ({ raw: ridge(row), score: scoreAt(row) }));
  const calibration = fitCalibration(samplesOf(all));
  const fits = Array.from({ length: foldCount }, (_, fold) =>
    fitCalibration(samplesOf(all.filter((row) => packed.folds[row] !== fold))),
  );
  const served = (row: number) =>
    clampScore(calibrate(fits[packed.folds[row] as number] as Calibration, ridge(row)));
  const errors: CrossValidatedErrors = {
    constant: error(at(unseen.constant), Math.abs),
    neighbours: error(at(unseen.neighbours), Math.abs),
    ridge: error(ridge, Math.abs),
    served: error(served, Math.abs),
  };
  return { trained: { penalty: penalties[best] as number, calibration }, errors };
}

function pick(packed: PackedArticles, rows: readonly number[]): RatedRows {
  const { dimension } = packed;
  const vectors = (all: Float32Array) => {
    const some = new Float32Array(rows.length * dimension);
    for (const [at, row] of rows.entries()) {
      some.set(all.subarray(row * dimension, (row + 1) * dimension), at * dimension);
    }
    return some;
  };
  const floats = (all: Float32Array) => Float32Array.from(rows, (row) => all[row] as number);
  const added = { means: vectors(packed.means), titles: vectors(packed.titles) };
  const columns = {
    scores: floats(packed.scores),
    lengths: floats(packed.lengths),
    ages: floats(packed.ages),
    sources: Uint32Array.from(rows, (row) => packed.sources[row] as number),
    folds: Uint8Array.from(rows, (row) => packed.folds[row] as number),
  };
  return growRows(noRows(dimension), added, columns, new VectorIndex());
}

function emptyUnseen(count: number, penalties: number): Unseen {
  const nothing = () => new Float64Array(count).fill(Number.NaN);
  const ridges = Array.from({ length: penalties }, nothing);
  return { constant: nothing(), neighbours: nothing(), ridges };
}

const unknownErrors: CrossValidatedErrors = {
  constant: Number.NaN,
  neighbours: Number.NaN,
  ridge: Number.NaN,
  served: Number.NaN,
};
