import { Snapshot, SpillwayError } from 'spillway';
import type { ModelName, RatedArticle } from './document.ts';
import { ageFeature, lengthFeature } from './features.ts';
import { foldOf } from './learning.ts';
import { type AddedVectors, noRows, type RatedColumns, type RatedRows } from './rated-rows.ts';
import { type Explanation, type Score, scoreUnknown } from './score.ts';
import { reasons, type TasteState } from './taste-reader.ts';
import type { ScoreParts } from './taste-worker.ts';
import { type Trained, untrained } from './trained.ts';

/** What is to become of a reader's taste. */
export interface TasteChange {
  /** Ratings that are new or that replace older ones of the same article. */
  readonly rated: readonly RatedArticle[];
  /** Articles that are not rated any more. */
  readonly removed: readonly string[];
  /** What training has found. */
  readonly trained?: Trained | undefined;
  /** Nothing of what was known before is kept. */
  readonly isNew?: boolean | undefined;
  /** The version that comes of it is at least this one. */
  readonly version?: number | undefined;
}

/** A version with the names of what its rows are about. */
export interface TasteVersion {
  readonly state: TasteState | undefined;
  readonly ids: readonly string[];
  /** Where each id stands; may name rows of later versions too. */
  readonly rowOf: Map<string, number>;
  /** The number of each source; may name those of later versions too. */
  readonly sources: Map<string, number>;
  readonly trained: Trained;
}

/** The rating of this very article, if it has one. */
export function ratingOf({ state, ids, rowOf }: TasteVersion, id: string): number | undefined {
  const row = rowOf.get(id);
  return row !== undefined && ids[row] === id ? state?.rows.scores[row] : undefined;
}

/** What a worker is to do for a change, and the names that the result will have. */
export interface TastePlan extends Omit<TasteVersion, 'state'> {
  readonly rows: RatedRows;
  readonly added: AddedVectors;
  readonly columns: RatedColumns;
}

interface Row {
  readonly id: string;
  readonly vectors: { readonly mean: Float32Array; readonly title: Float32Array };
  readonly source: number;
  readonly length: number;
  readonly score: number;
  readonly age: number;
}

export interface PlanOptions {
  readonly model: ModelName;
  /** How many ratings a taste is made of. */
  readonly ratedMax: number;
}

/** Puts changes together, oldest first, and says what they come to. */
export function planChange(
  before: TasteVersion,
  changes: readonly TasteChange[],
  options: PlanOptions,
): TastePlan {
  const trained = changes.findLast((change) => change.trained)?.trained ?? before.trained;
  const rated = changes.flatMap((change) => change.rated);
  const isGrowth = changes.every(({ isNew, removed }) => !isNew && removed.length === 0);
  const isSmall = before.ids.length + rated.length <= options.ratedMax;
  const rows =
    isGrowth && isSmall ? grow(before, rated, options) : rebuild(before, changes, options);
  return { ...rows, trained };
}

type Rows = Omit<TastePlan, 'trained'>;

/** The usual change: what is known stays as it is, so its cost hardly grows with it. */
function grow(before: TasteVersion, rated: readonly RatedArticle[], { model }: PlanOptions): Rows {
  const rows = before.state?.rows ?? noRows(model.dimension);
  const { sources, rowOf } = before;
  const ids = [...before.ids];
  const fresh: Row[] = [];
  const again: { readonly row: number; readonly article: RatedArticle }[] = [];
  for (const article of rated) {
    const known = rowOf.get(article.id);
    // The map is shared with versions that came to nothing: only what is in the list is true.
    if (known !== undefined && ids[known] === article.id) again.push({ row: known, article });
    else {
      rowOf.set(article.id, ids.length);
      ids.push(article.id);
      fresh.push(newRow(article, sources));
    }
  }
  const columns = columnsOf(fresh, rows);
  for (const { row, article } of again) {
    columns.scores[row] = article.score;
    columns.ages[row] = ageFeature(article.publishedAt, article.ratedAt);
    columns.sources[row] = numberOf(article.source, sources);
  }
  return { ids, rowOf, sources, rows, added: vectorsOf(fresh, model.dimension), columns };
}

/** Begins anew with what is left. */
function rebuild(
  before: TasteVersion,
  changes: readonly TasteChange[],
  { model, ratedMax }: PlanOptions,
): Rows {
  const from = changes.findLastIndex(({ isNew }) => isNew);
  const sources = new Map(from < 0 ? before.sources : []);
  const left = new Map((from < 0 ? rowsOf(before) : []).map((row) => [row.id, row]));
  for (const change of changes.slice(Math.max(0, from))) {
    for (const id of change.removed) left.delete(id);
    for (const article of change.rated) left.set(article.id, newRow(article, sources));
  }
  // A tenth goes at once, so that not every further rating means to begin anew.
  const surplus = left.size > ratedMax ? left.size - Math.ceil(0.9 * ratedMax) : 0;
  const all = [...left.values()].slice(surplus);
  const rows = noRows(model.dimension);
  return {
    ids: all.map(({ id }) => id),
    rowOf: new Map(all.map(({ id }, row) => [id, row])),
    sources,
    rows,
    added: vectorsOf(all, model.dimension),
    columns: columnsOf(all, rows),
  };
}

function rowsOf({ state, ids }: TasteVersion): Row[] {
  const rows = state?.rows;
  if (rows === undefined) return [];
  const { dimension } = rows;
  return ids.map((id, row) => {
    const vector = (all: Float32Array) => all.subarray(row * dimension, (row + 1) * dimension);
    return {
      id,
      vectors: { mean: vector(rows.means), title: vector(rows.titles) },
      source: rows.sources[row] as number,
      length: rows.lengths[row] as number,
      score: rows.scores[row] as number,
      age: rows.ages[row] as number,
    };
  });
}

function newRow(article: RatedArticle, sources: Map<string, number>): Row {
  const { id, document, score, publishedAt, ratedAt } = article;
  const { mean, title, words } = document;
  const source = numberOf(article.source, sources);
  const age = ageFeature(publishedAt, ratedAt);
  return { id, vectors: { mean, title }, length: lengthFeature(words), source, score, age };
}

function numberOf(source: string, sources: Map<string, number>): number {
  const number = sources.get(source) ?? sources.size;
  sources.set(source, number);
  return number;
}

function vectorsOf(rows: readonly Row[], dimension: number): AddedVectors {
  const means = new Float32Array(rows.length * dimension);
  const titles = new Float32Array(rows.length * dimension);
  for (const [at, { vectors }] of rows.entries()) {
    means.set(vectors.mean, at * dimension);
    titles.set(vectors.title, at * dimension);
  }
  return { means, titles };
}

/** The columns of the rows that are known, with those of more rows after them. */
function columnsOf(rows: readonly Row[], known: RatedColumns): RatedColumns {
  const count = known.scores.length + rows.length;
  const columns = {
    scores: new Float32Array(count),
    sources: new Uint32Array(count),
    folds: new Uint8Array(count),
    lengths: new Float32Array(count),
    ages: new Float32Array(count),
  };
  for (const name of ['scores', 'sources', 'folds', 'lengths', 'ages'] as const) {
    columns[name].set(known[name]);
  }
  for (const [at, row] of rows.entries()) {
    const place = known.scores.length + at;
    columns.scores[place] = row.score;
    columns.sources[place] = row.source;
    columns.folds[place] = foldOf(row.id);
    columns.lengths[place] = row.length;
    columns.ages[place] = row.age;
  }
  return columns;
}

/** How a change becomes a version. */
export interface TasteMaker {
  plan(before: TasteVersion, changes: readonly TasteChange[]): TastePlan;
  make(plan: TastePlan): Promise<TasteState>;
}

interface Waiting {
  readonly change: TasteChange;
  readonly done: PromiseWithResolvers<number>;
}

/** Changes that may wait while one is made; they all become one version. */
const waitingMax = 1_000;

function nobody(): TasteVersion {
  return { state: undefined, ids: [], rowOf: new Map(), sources: new Map(), trained: untrained };
}

/** One reader's taste: changed by one at a time, each change published whole. */
export class ReaderTaste {
  readonly snapshot: Snapshot<TasteVersion> = new Snapshot(nobody());
  readonly #maker: TasteMaker;
  readonly #number: number;
  #waiting: Waiting[] = [];
  #isBusy = false;

  /** The number is another one for each that was ever made. */
  constructor(maker: TasteMaker, number: number) {
    this.#maker = maker;
    this.#number = number;
  }

  /** The name of a version for workers, which keep what they have read: it is never used twice. */
  key(version: number): string {
    return `${this.#number} ${version}`;
  }

  get isBusy(): boolean {
    return this.#isBusy;
  }

  /** Resolves with the version in which the change is; changes that wait are made together. */
  change(change: TasteChange): Promise<number> {
    if (this.#waiting.length >= waitingMax) {
      const message = `${waitingMax} changes of this taste wait`;
      return Promise.reject(new SpillwayError('POOL_FULL', message, { retryAfterMs: 1_000 }));
    }
    const done = Promise.withResolvers<number>();
    this.#waiting.push({ change, done });
    if (!this.#isBusy) void this.#work();
    return done.promise;
  }

  async #work(): Promise<void> {
    this.#isBusy = true;
    while (this.#waiting.length > 0) {
      const due = this.#waiting;
      this.#waiting = [];
      try {
        const changes = due.map(({ change }) => change);
        const plan = this.#maker.plan(this.snapshot.current, changes);
        const state = await this.#maker.make(plan);
        const { ids, rowOf, sources, trained } = plan;
        const first = changes.findLast(({ version }) => version !== undefined)?.version ?? 0;
        const number = Math.max(first, this.snapshot.stats.version + 1);
        this.snapshot.publish({ state, ids, rowOf, sources, trained }, number);
        for (const { done } of due) done.resolve(number);
      } catch (error) {
        for (const { done } of due) done.reject(error);
      }
    }
    this.#isBusy = false;
  }
}

/**
 * A score with its explanation. Without any rating everything is worth 5.5; an article that was
 * rated itself is worth its rating.
 */
export function scoreOf(
  parts: ScoreParts | undefined,
  value: TasteVersion,
  version: number,
  rating?: number,
): Score {
  if (parts === undefined || value.state === undefined) {
    const contributions = [{ reason: 'start', points: scoreUnknown }] as const;
    const source = { score: scoreUnknown, ratings: 0 };
    const explanation = { neighbours: [], sentences: [], source, contributions };
    return { score: scoreUnknown, version, support: 0, explanation };
  }
  const { rows, ridge } = value.state;
  const [sum, ratings] = parts.source;
  const score = rating ?? parts.score;
  const contributions: Explanation['contributions'] = [
    ...reasons.map((reason, at) => ({ reason, points: parts.points[at] as number })),
    { reason: 'rated', points: score - parts.score },
  ];
  const explanation: Explanation = {
    neighbours: parts.neighbours.map(({ row, similarity, weight }) => ({
      id: value.ids[row] as string,
      similarity,
      score: rows.scores[row] as number,
      weight,
    })),
    sentences: parts.sentences,
    source: { score: ratings > 0 ? sum / ratings : ridge.start, ratings },
    contributions,
  };
  return { score, version, support: parts.support, explanation };
}
