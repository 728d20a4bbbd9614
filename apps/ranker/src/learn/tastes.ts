import { availableParallelism } from 'node:os';
import { Pool, type PoolStats, SingleFlight } from 'spillway';
import { check, checkInteger, untilAborted } from 'spillway/internal';
import { ArticleTable } from './article-table.ts';
import {
  type Article,
  type ArticleText,
  isSameModel,
  type ModelName,
  type RatedArticle,
} from './document.ts';
import type { Choice } from './model.ts';
import { emptyNeighbours, neighboursKept, type RatedRows, threadLimits } from './rows.ts';
import { clampScore, type Score, scoreMax, scoreMin, scoreUnknown } from './score.ts';
import { type RatedLists, scoreOf, Taste, type TasteChange, type TasteVersion } from './taste.ts';
import type { NearLists } from './thread/scorer.ts';

/** The stored part of a reader's taste. */
export interface StoredTaste {
  /** All ratings, oldest first. */
  readonly rated: readonly RatedArticle[];
  readonly choice?: Choice | undefined;
  /** The first and the last number that versions of it may have. */
  readonly version: number;
  readonly versionMax: number;
}

export interface TastesOptions {
  /** The model whose vectors all articles have. */
  readonly model: ModelName;
  /** Reads a taste that is asked for and not in memory. */
  readonly load: (user: string) => Promise<StoredTaste>;
  /** The number of threads that score. From 1. @default one less than cores, at most 4 */
  readonly workers?: number | undefined;
  /** Most tastes in memory; one more removes the least recently used. @default 64 */
  readonly tastesMax?: number | undefined;
  /** The number of ratings that a taste is made of; the newest count. From 10. @default 5000 */
  readonly ratedMax?: number | undefined;
  /** The number of articles that are kept in memory. @default 100_000 */
  readonly articlesMax?: number | undefined;
  /** The half-life of a rating's weight, in milliseconds. @default a year */
  readonly halfLifeMs?: number | undefined;
  /** Called when a reader's articles have been compared with all ratings. @default nothing */
  readonly onCompared?: ((user: string) => void) | undefined;
}

export interface AskOptions {
  /** The time, in milliseconds since 1970. */
  readonly now: number;
  readonly signal?: AbortSignal | undefined;
}

/** Articles as one reader sees them, by one version of their taste. */
export interface Ranking {
  readonly version: number;
  readonly ids: readonly string[];
  readonly scores: Float32Array;
  /** The errors, in points, within which 8 of 10 ratings are. */
  readonly widths: Float32Array;
  /** The score that orders lists: while ratings are few, it follows them more closely. */
  readonly orderOf: (score: number) => number;
}

type Module = typeof import('./thread/scorer.ts');
type Comparer = typeof import('./thread/comparer.ts');

/** Articles that one task scores, in some milliseconds, so that a vote need not wait long. */
const rankSize = 500;
/**
 * Pairs of an article and a rating that a ranking compares before it answers: some 15 ms. With more
 * of them articles are scored by the neighbours they have, and compared in the background.
 */
const pairsMax = 50_000;
/** Pairs that one task compares in the background: some 5 ms, for which a ranking waits. */
const pairsAtOnce = 15_000;

/**
 * The tastes of all readers, and scores by them, on a pool. A rating is in every score asked for
 * after its promise has resolved; a score is made by one version and names it.
 */
export class Tastes implements AsyncDisposable {
  readonly model: ModelName;
  /** The articles that {@link rank} scores. */
  readonly table: ArticleTable;
  readonly halfLifeMs: number;
  readonly #options: TastesOptions;
  readonly #pool: Pool<Module>;
  /** Compares articles with ratings; a ranking may wait for one of its short tasks. */
  readonly #comparers: Pool<Comparer>;
  /** Compares ratings with each other and fits their models; nobody waits for it. */
  readonly #raters: Pool<Comparer>;
  readonly #tastes = new Map<string, Taste>();
  readonly #loading = new SingleFlight<Taste>();
  /** Tastes that were forgotten while they were loaded. */
  readonly #stale = new Set<string>();
  /** The number of times that all were forgotten. */
  #epoch = 0;

  static async open(options: TastesOptions): Promise<Tastes> {
    const { workers = Math.max(1, Math.min(4, availableParallelism() - 1)) } = options;
    checkInteger('tastesMax', options.tastesMax ?? 64, 1, 100_000);
    checkInteger('ratedMax', options.ratedMax ?? 5_000, 10, 100_000);
    const module = new URL('./thread/scorer.ts', import.meta.url);
    const limits = { queueMax: 1_024, deadlineMs: 30_000, resourceLimits: threadLimits };
    const pool = await Pool.open<Module>({ module, workers, ...limits });
    const comparer = new URL('./thread/comparer.ts', import.meta.url);
    const background = { ...limits, module: comparer, workers: 1 };
    const comparers = await Pool.open<Comparer>(background);
    const raters = await Pool.open<Comparer>({ ...background, deadlineMs: 600_000 });
    return new Tastes(options, pool, comparers, raters);
  }

  private constructor(
    options: TastesOptions,
    pool: Pool<Module>,
    comparers: Pool<Comparer>,
    raters: Pool<Comparer>,
  ) {
    const { model, articlesMax: sizeMax, halfLifeMs = 365 * 86_400_000 } = options;
    this.#options = options;
    this.model = model;
    this.halfLifeMs = halfLifeMs;
    this.table = new ArticleTable({ model, sizeMax });
    this.#pool = pool;
    this.#comparers = comparers;
    this.#raters = raters;
  }

  get stats(): { readonly tastes: number; readonly articles: number; readonly pool: PoolStats } {
    return { tastes: this.#tastes.size, articles: this.table.size, pool: this.#pool.stats };
  }

  /** The threads, for the operator. */
  get parts(): { readonly pool: Pool<Module> } {
    return { pool: this.#pool };
  }

  /** The version that a score would be made by now. */
  async current(user: string, signal?: AbortSignal): Promise<TasteVersion> {
    return (await this.#taste(user, signal)).current;
  }

  /** As {@link current}, once all ratings have been compared with each other. */
  async compared(user: string, signal?: AbortSignal): Promise<TasteVersion> {
    const taste = await this.#taste(user, signal);
    if (taste.comparing !== undefined) await untilAborted(taste.comparing, signal);
    return taste.current;
  }

  /** Takes ratings into account; resolves with the first version that has them. */
  rate(user: string, rated: readonly RatedArticle[], signal?: AbortSignal): Promise<number> {
    for (const article of rated) {
      this.#checkModel(article);
      const isScore = article.score >= scoreMin && article.score <= scoreMax;
      check(isScore, 'score', `a number from ${scoreMin} to ${scoreMax}`, article.score);
    }
    return this.change(user, { rated }, signal);
  }

  /** Changes a taste; a worn one is loaded anew before. */
  async change(user: string, change: TasteChange, signal?: AbortSignal): Promise<number> {
    if (this.#tastes.get(user)?.isWorn) this.forget(user);
    const taste = await this.#taste(user, signal);
    const done = taste.change(change).finally(() => this.#compareRatings(user, taste));
    return await (signal === undefined ? done : untilAborted(done, signal));
  }

  /** Drops a taste from memory: the next use loads what is stored by then. */
  forget(user: string): void {
    this.#tastes.delete(user);
    if (this.#loading.has(user)) this.#stale.add(user);
  }

  /** Drops all tastes from memory. */
  forgetAll(): void {
    this.#tastes.clear();
    this.#epoch += 1;
  }

  /** Scores an article for the reader, with reasons; with its text, by sentence too. */
  async score(
    user: string,
    article: Article & { readonly text?: ArticleText | undefined },
    { now, signal }: AskOptions,
  ): Promise<Score> {
    this.#checkModel(article);
    const taste = await this.#taste(user, signal);
    const { current } = taste;
    const { state } = current;
    if (state === undefined) return scoreOf(undefined, taste, current);
    const { document, publishedAt, text = { title: '', text: '' } } = article;
    const source = taste.sources.get(article.source) ?? -1;
    const asked = { document, publishedAt, source, now, article: text };
    const turn = { signal, key: user, priority: 1 };
    const parts = await this.#pool.run('score', { state, asked }, turn);
    return scoreOf(parts, taste, current, taste.ratingOf(current, article.id));
  }

  /** Scores articles of the table; those that are not in it, or leave it, are left out. */
  async rank(user: string, ids: readonly string[], options: AskOptions): Promise<Ranking> {
    const taste = await this.#taste(user, options.signal);
    return await taste.alone(() => this.#rank(user, taste, ids, options));
  }

  async close(): Promise<void> {
    const background = [this.#comparers, this.#raters];
    await Promise.all([this.#pool.close(), ...background.map((one) => one.close({ withinMs: 0 }))]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #rank(
    user: string,
    taste: Taste,
    wanted: readonly string[],
    { now, signal }: AskOptions,
  ): Promise<Ranking> {
    const { current } = taste;
    const { version, state } = current;
    const { ids, rows, stamps } = this.table.find(wanted);
    const scores = new Float32Array(ids.length).fill(scoreUnknown);
    const widths = new Float32Array(ids.length).fill(current.choice.width);
    if (state === undefined) return { version, ids, scores, widths, orderOf: (score) => score };
    const { start, boldness } = state.model;
    const names = [...this.table.sources.keys()];
    const sources = Int32Array.from(names, (name) => taste.sources.get(name) ?? -1);
    const table = this.table.rows;
    taste.near = grown(taste.near, table.size);
    const same = { state, table, near: taste.near, sources, now };
    const share = Math.ceil(pairsMax / Math.max(1, Math.ceil(rows.length / rankSize)));
    const parts: Promise<void>[] = [];
    for (let from = 0; from < rows.length; from += rankSize) {
      const [some, seen] = [rows, stamps].map((all) => all.slice(from, from + rankSize));
      const task = { ...same, rows: some as Uint32Array, stamps: seen as Int32Array };
      const turn = { signal, key: user };
      const part = this.#pool.run('rank', { ...task, pairsMax: share }, turn).then((result) => {
        scores.set(result.scores, from);
        widths.set(result.widths, from);
        for (const at of result.behind) taste.behind.add(ids[from + at] as string);
      });
      parts.push(part);
    }
    await Promise.all(parts);
    if (taste.behind.size > 0) void this.#compare(user, taste);
    for (const [at, id] of ids.entries()) {
      if (Number.isNaN(scores[at])) continue;
      scores[at] = taste.ratingOf(current, id) ?? (scores[at] as number);
    }
    const whole = [...ids.keys()].filter((at) => !Number.isNaN(scores[at]));
    return {
      version,
      ids: whole.map((at) => ids[at] as string),
      scores: Float32Array.from(whole, (at) => scores[at] as number),
      widths: Float32Array.from(whole, (at) => widths[at] as number),
      orderOf: (score) => clampScore(start + boldness * (score - start)),
    };
  }

  /** Compares articles with the ratings that they have not been compared with, a few at a time. */
  async #compare(user: string, taste: Taste): Promise<void> {
    if (taste.isComparing) return;
    taste.isComparing = true;
    try {
      while (taste.behind.size > 0 && this.#tastes.get(user) === taste) {
        await taste.alone(() => this.#compareSome(user, taste));
      }
      this.#options.onCompared?.(user);
    } catch {
      // The pool is full or closed: the next ranking begins with what is left.
    } finally {
      taste.isComparing = false;
    }
  }

  async #compareSome(user: string, taste: Taste): Promise<void> {
    const { state } = taste.current;
    if (state === undefined) return taste.behind.clear();
    const count = Math.max(1, Math.floor(pairsAtOnce / state.rows.count));
    const some = taste.behind.values().take(count).toArray();
    for (const id of some) taste.behind.delete(id);
    const { rows, stamps } = this.table.find(some);
    const table = this.table.rows;
    taste.near = grown(taste.near, table.size);
    const task = { state, table, near: taste.near, rows, stamps };
    await this.#comparers.run('compare', task, { key: user });
  }

  /** Compares the ratings of a taste with each other, where they were too many to do it at once. */
  #compareRatings(user: string, taste: Taste): void {
    const { state } = taste.current;
    if (state === undefined || state.rows.compared === state.rows.count) return;
    taste.comparing ??= this.#compareAll(user, taste, state.rows)
      // The pool is full or closed: scores do without neighbours until the next change.
      .catch(() => {})
      .finally(() => {
        taste.comparing = undefined;
      });
  }

  async #compareAll(user: string, taste: Taste, known: RatedRows): Promise<void> {
    const lists = { ...emptyNeighbours(known.count, neighboursKept), compared: known.count };
    lists.nearest.set(known.nearest);
    lists.similarities.set(known.similarities);
    const rows = { ...known, ...lists };
    for (let from = known.compared; from < rows.count; ) {
      const to = Math.min(rows.count, from + Math.ceil(pairsAtOnce / (from + 1)));
      await this.#raters.run('compareRated', { rows, from, to }, { key: user });
      if (this.#tastes.get(user) !== taste) return;
      from = to;
    }
    const { choice } = taste.current;
    const { halfLifeMs } = this;
    const task = { rows, common: this.table.common, choice, halfLifeMs };
    const model = await this.#raters.run('refit', task, { key: user });
    await taste.change({ model, lists: lists satisfies RatedLists });
    this.#options.onCompared?.(user);
  }

  #checkModel({ document }: Article): void {
    const isKnown = isSameModel(document.model, this.model);
    check(isKnown, 'document', `made by ${this.model.id}`, document.model);
  }

  /** The taste of a reader, now the most recently used. Concurrent callers share one load. */
  async #taste(user: string, signal?: AbortSignal): Promise<Taste> {
    const known = this.#tastes.get(user);
    if (known === undefined)
      return await this.#loading.run(user, () => this.#load(user), { signal });
    this.#tastes.delete(user);
    this.#tastes.set(user, known);
    return known;
  }

  async #load(user: string): Promise<Taste> {
    const { tastesMax = 64 } = this.#options;
    let taste: Taste;
    let epoch: number;
    do {
      this.#stale.delete(user);
      epoch = this.#epoch;
      taste = await this.#read(user);
    } while (this.#stale.has(user) || epoch !== this.#epoch);
    this.#tastes.set(user, taste);
    this.#compareRatings(user, taste);
    if (this.#tastes.size > tastesMax) {
      const [idle] = [...this.#tastes].find(([, { isBusy }]) => !isBusy) ?? [];
      if (idle !== undefined) this.#tastes.delete(idle);
    }
    return taste;
  }

  async #read(user: string): Promise<Taste> {
    const { load, ratedMax = 5_000 } = this.#options;
    const { rated, ...stored } = await load(user);
    const taste = new Taste({
      ...stored,
      ratedMax,
      dimension: this.model.dimension,
      make: (rows, changed, model, choice) => {
        const { halfLifeMs } = this;
        const task = { rows, changed, model, common: this.table.common, choice, halfLifeMs };
        return this.#pool.run('update', task, { priority: 2 });
      },
    });
    await taste.change({ rated: rated.slice(-ratedMax) });
    return taste;
  }
}

/** The lists with room for `size` rows. */
function grown(before: NearLists | undefined, size: number): NearLists {
  if (before !== undefined && before.stamps.length >= size) return before;
  const lists = {
    ...emptyNeighbours(size),
    stamps: new Int32Array(new SharedArrayBuffer(4 * size)),
    seen: new Uint32Array(new SharedArrayBuffer(4 * size)),
  };
  if (before !== undefined) {
    lists.nearest.set(before.nearest);
    lists.similarities.set(before.similarities);
    lists.stamps.set(before.stamps);
    lists.seen.set(before.seen);
  }
  return lists;
}
