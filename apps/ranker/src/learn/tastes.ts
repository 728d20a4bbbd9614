import { availableParallelism } from 'node:os';
import { Pool, type PoolStats } from 'spillway';
import { check, checkInteger, untilAborted } from 'spillway/internal';
import { type Article, isSameModel, type ModelName, type RatedArticle } from './document.ts';
import { ageFeature, lengthFeature } from './features.ts';
import { type Score, scoreMax, scoreMin, scoreUnknown } from './score.ts';
import {
  planChange,
  ReaderTaste,
  ratingOf,
  scoreOf,
  type TasteChange,
  type TasteMaker,
  type TasteVersion,
} from './taste.ts';
import { type Trained, unpackTrained } from './trained.ts';
import { VectorTable } from './vector-table.ts';

export interface TastesOptions {
  /** Whose vectors all articles have. */
  readonly model: ModelName;
  /** Threads that score. From 1. @default one less than there are cores, at most 4 */
  readonly workers?: number | undefined;
  /** How many readers' tastes are kept; for one more the least used goes. @default 1000 */
  readonly readersMax?: number | undefined;
  /** How many ratings a taste is made of; the newest are kept. From 10. @default 5000 */
  readonly ratedMax?: number | undefined;
  /** How many articles the shelf keeps. @default 20000 */
  readonly shelfMax?: number | undefined;
  /** How many tasks may wait for a thread; one more is refused. @default 1024 */
  readonly queueMax?: number | undefined;
  /** Milliseconds that a score or a change may take. @default 30000 */
  readonly deadlineMs?: number | undefined;
}

export interface LoadOptions {
  readonly rated: readonly RatedArticle[];
  /** What training had found, as {@link packTrained} packed it. */
  readonly trained?: Uint8Array | undefined;
  /** The version that comes of it is at least this one. */
  readonly version?: number | undefined;
}

export interface AskOptions {
  /** The time, in milliseconds since 1970. */
  readonly now: number;
  readonly signal?: AbortSignal | undefined;
}

/** The shelf as one reader sees it, by one version of their taste. */
export interface Ranking {
  readonly version: number;
  readonly ids: readonly string[];
  readonly scores: Float32Array;
  readonly support: Float32Array;
}

type Module = typeof import('./taste-worker.ts');

/** Articles that one task scores: some 100 ms at 1,000 ratings. */
const rankSize = 1_250;

/**
 * What each reader likes, and scores by it, on a pool. A rating is in every score asked for after
 * its promise has resolved; a score is made by one version and names it.
 */
export class Tastes implements AsyncDisposable {
  readonly model: ModelName;
  /** The articles that {@link rank} scores. */
  readonly shelf: VectorTable;
  readonly #pool: Pool<Module>;
  readonly #readers = new Map<string, ReaderTaste>();
  readonly #readersMax: number;
  readonly #maker: TasteMaker;
  #readerCount = 0;

  static async open(options: TastesOptions): Promise<Tastes> {
    const { readersMax = 1_000, ratedMax = 5_000, queueMax = 1_024, deadlineMs = 30_000 } = options;
    const { workers = Math.max(1, Math.min(4, availableParallelism() - 1)) } = options;
    checkInteger('readersMax', readersMax, 1, 100_000);
    checkInteger('ratedMax', ratedMax, 10, 100_000);
    const shelf = new VectorTable({ model: options.model, sizeMax: options.shelfMax });
    const module = new URL('./taste-worker.ts', import.meta.url);
    const pool = await Pool.open<Module>({ module, workers, queueMax, deadlineMs });
    return new Tastes(pool, shelf, { readersMax, ratedMax });
  }

  private constructor(
    pool: Pool<Module>,
    shelf: VectorTable,
    limits: { readonly readersMax: number; readonly ratedMax: number },
  ) {
    const { model } = shelf;
    this.model = model;
    this.shelf = shelf;
    this.#pool = pool;
    this.#readersMax = limits.readersMax;
    this.#maker = {
      plan: (before, changes) => planChange(before, changes, { model, ratedMax: limits.ratedMax }),
      make: ({ rows, added, columns, trained }) =>
        pool.run('update', { rows, added, columns, trained }, { priority: 2 }),
    };
  }

  get stats(): { readonly readers: number; readonly shelf: number; readonly pool: PoolStats } {
    return { readers: this.#readers.size, shelf: this.shelf.size, pool: this.#pool.stats };
  }

  /** Whether this reader's taste is here; if not it has to be loaded before anything is asked. */
  has(user: string): boolean {
    return this.version(user) > 0;
  }

  /** What training has found for the reader so far. */
  trained(user: string): Trained | undefined {
    return this.#readers.get(user)?.snapshot.current.trained;
  }

  /** The version that a score would be made by now; 0 before there is one. */
  version(user: string): number {
    return this.#readers.get(user)?.snapshot.stats.version ?? 0;
  }

  /** Makes a reader's taste from all ratings, in place of what was here. */
  load(user: string, options: LoadOptions, signal?: AbortSignal): Promise<number> {
    const { rated, version } = options;
    const trained = options.trained && unpackTrained(options.trained);
    const change = { rated, removed: [], trained, version, isNew: true };
    return this.#change(this.#begin(user), change, signal);
  }

  /** Takes ratings into account at once; resolves with the first version that has them. */
  rate(user: string, rated: readonly RatedArticle[], signal?: AbortSignal): Promise<number> {
    return this.#change(this.#reader(user), { rated, removed: [] }, signal);
  }

  /** Takes ratings back. */
  unrate(user: string, ids: readonly string[], signal?: AbortSignal): Promise<number> {
    return this.#change(this.#reader(user), { rated: [], removed: ids }, signal);
  }

  /** Publishes what training has found, together with all ratings that came meanwhile. */
  improve(user: string, trained: Trained, signal?: AbortSignal): Promise<number> {
    return this.#change(this.#reader(user), { rated: [], removed: [], trained }, signal);
  }

  /** Lets go of a reader's taste. */
  forget(user: string): void {
    this.#readers.delete(user);
  }

  /** What the article is worth to the reader, and why. */
  async score(user: string, article: Article, options: AskOptions): Promise<Score> {
    this.#checkModel(article);
    const reader = this.#reader(user);
    using view = reader.snapshot.acquire();
    const { value, version } = view;
    const { document, publishedAt, source } = article;
    const { state } = value;
    if (state === undefined) return scoreOf(undefined, value, version);
    const candidate = {
      mean: document.mean,
      title: document.title,
      source: value.sources.get(source) ?? -1,
      length: lengthFeature(document.words),
      age: ageFeature(publishedAt, options.now),
    };
    const { sentences } = document;
    const task = { key: reader.key(version), state, candidate, sentences };
    const turn = { signal: options.signal, key: user, priority: 1 };
    const parts = await this.#pool.run('score', task, turn);
    return scoreOf(parts, value, version, ratingOf(value, article.id));
  }

  /** Scores all articles on the shelf; those that leave it meanwhile are left out. */
  async rank(user: string, options: AskOptions): Promise<Ranking> {
    const reader = this.#reader(user);
    using view = reader.snapshot.acquire();
    const { value, version } = view;
    const { state } = value;
    const { ids, rows, stamps } = this.shelf.list();
    if (state === undefined) return { version, ...unranked(ids) };
    const names = [...this.shelf.sources.keys()];
    const sources = Int32Array.from(names, (name) => value.sources.get(name) ?? -1);
    const same = { key: reader.key(version), state, sources };
    const parts: (readonly [from: number, to: number])[] = [];
    for (let from = 0; from < rows.length; from += rankSize) parts.push([from, from + rankSize]);
    const turn = { signal: options.signal, key: user };
    const tasks = parts.map((part) => {
      const list = { rows: rows.slice(...part), stamps: stamps.slice(...part) };
      const task = { ...same, list, shelf: this.shelf.rows, now: options.now };
      return this.#pool.run('rank', task, turn);
    });
    return { version, ...joinParts(ids, await Promise.all(tasks), value) };
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #change(
    reader: ReaderTaste,
    change: TasteChange,
    signal: AbortSignal | undefined,
  ): Promise<number> {
    for (const article of change.rated) {
      this.#checkModel(article);
      const isScore = article.score >= scoreMin && article.score <= scoreMax;
      check(isScore, 'score', `a number from ${scoreMin} to ${scoreMax}`, article.score);
    }
    const done = reader.change(change);
    return signal === undefined ? done : untilAborted(done, signal);
  }

  #checkModel({ document }: Article): void {
    const isKnown = isSameModel(document.model, this.model);
    check(isKnown, 'document', `made by ${this.model.id}`, document.model);
  }

  /** The taste of a reader who has one, now the most recently used. */
  #reader(user: string): ReaderTaste {
    const reader = this.#readers.get(user);
    const isLoaded = reader !== undefined && this.has(user);
    check(isLoaded, 'user', 'one whose taste was loaded', user);
    this.#readers.delete(user);
    this.#readers.set(user, reader);
    return reader;
  }

  /** A taste to be loaded; for one too many the least used one that rests goes. */
  #begin(user: string): ReaderTaste {
    const known = this.#readers.get(user);
    if (known !== undefined) return known;
    if (this.#readers.size >= this.#readersMax) {
      const [idle] = [...this.#readers].find(([, { isBusy }]) => !isBusy) ?? [];
      if (idle !== undefined) this.#readers.delete(idle);
    }
    this.#readerCount += 1;
    const reader = new ReaderTaste(this.#maker, this.#readerCount);
    this.#readers.set(user, reader);
    return reader;
  }
}

function unranked(ids: readonly string[]) {
  const scores = new Float32Array(ids.length).fill(scoreUnknown);
  return { ids, scores, support: new Float32Array(ids.length) };
}

/** Joins the parts, without articles that were changed meanwhile; own ratings replace scores. */
function joinParts(
  all: readonly string[],
  parts: readonly { readonly scores: Float32Array; readonly support: Float32Array }[],
  taste: TasteVersion,
) {
  const ids: string[] = [];
  const scores = new Float32Array(all.length);
  const support = new Float32Array(all.length);
  let at = 0;
  for (const part of parts) {
    for (const [row, score] of part.scores.entries()) {
      const id = all[at] as string;
      at += 1;
      if (Number.isNaN(score)) continue;
      scores[ids.length] = ratingOf(taste, id) ?? score;
      support[ids.length] = part.support[row] as number;
      ids.push(id);
    }
  }
  return { ids, scores: scores.subarray(0, ids.length), support: support.subarray(0, ids.length) };
}
