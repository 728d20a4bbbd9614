import type { Clock } from 'spillway';
import { untilAborted } from 'spillway/internal';
import type { Article, ModelName, RatedArticle } from '../learn/document.ts';
import type { Score } from '../learn/score.ts';
import { Tastes } from '../learn/tastes.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { ShelvedArticle } from '../storage/shelves.ts';

export interface UserTastesOptions {
  readonly storage: RankerStorage;
  readonly model: ModelName;
  readonly clock: Clock;
  /** How many users' tastes are in memory; others are loaded when asked for. @default 64 */
  readonly tastesMax?: number | undefined;
}

/** A list scored by one version of a taste. */
export interface ScoredShelf {
  readonly version: number;
  /** By article; those without vectors have none. */
  readonly scores: ReadonlyMap<string, { readonly score: number; readonly support: number }>;
  /** The mean vector of an article of the list, if it has one. */
  readonly meanOf: (articleId: string) => Float32Array | undefined;
}

export interface Learned {
  /** What was said before the judgement was known. */
  readonly predicted: number;
  /** What is said now. */
  readonly score: Score;
}

/** Ratings that a taste is made of; the newest count. */
const ratedMax = 5_000;
/** Numbers for versions that are set aside when a taste is loaded. */
const versionsReserved = 1_000;
/** Some are left for training, which asks for none itself. */
const versionsLeft = 50;

/** Ratings that are read at once. */
const pageSize = 250;
const noSentences = { sentences: new Float32Array(0) };

/** What each user likes, loaded from storage when it is asked for. */
export class UserTastes {
  readonly #options: UserTastesOptions;
  readonly tastes: Tastes;
  /** Tastes that are being loaded, by user; bounded by those who wait for them. */
  readonly #loading = new Map<string, Promise<void>>();
  /** The last number that was set aside for each user. */
  readonly #lastVersion = new Map<string, number>();
  readonly #tastesMax: number;

  static async open(options: UserTastesOptions): Promise<UserTastes> {
    const { model, tastesMax = 64 } = options;
    const tastes = await Tastes.open({ model, readersMax: tastesMax, ratedMax });
    return new UserTastes(options, tastes, tastesMax);
  }

  private constructor(options: UserTastesOptions, tastes: Tastes, tastesMax: number) {
    this.#options = options;
    this.tastes = tastes;
    this.#tastesMax = tastesMax;
  }

  get model(): ModelName {
    return this.#options.model;
  }

  get stats(): Tastes['stats'] & { readonly loading: number } {
    return { ...this.tastes.stats, loading: this.#loading.size };
  }

  async score(userId: string, article: Article, signal: AbortSignal): Promise<Score> {
    const now = this.#options.clock.now();
    return await this.#with(userId, signal, () =>
      this.tastes.score(userId, article, { now, signal }),
    );
  }

  /** Takes a judgement into account at once; `commit` makes it durable, before anybody sees it. */
  async learn(
    userId: string,
    rated: RatedArticle,
    commit: (predicted: number) => Promise<void>,
    signal: AbortSignal,
  ): Promise<Learned> {
    const { score: predicted } = await this.score(userId, rated, signal);
    await commit(predicted);
    // It is stored: whatever goes wrong from here on, a taste that is loaded anew has it.
    try {
      if (this.#isWorn(userId)) this.reload(userId);
      await this.#with(userId, signal, () => this.tastes.rate(userId, [rated], signal));
    } catch {
      this.reload(userId);
    }
    return { predicted, score: await this.score(userId, rated, signal) };
  }

  /** Forgets a judgement that was taken back in storage. */
  async unlearn(userId: string, articleId: string, signal: AbortSignal): Promise<void> {
    try {
      if (this.#isWorn(userId)) this.reload(userId);
      await this.#with(userId, signal, () => this.tastes.unrate(userId, [articleId], signal));
    } catch {
      this.reload(userId);
    }
  }

  /** Lets go of a taste, so that it is loaded with all that is stored by then. */
  reload(userId: string): void {
    this.tastes.forget(userId);
  }

  /** The newest ratings of a user with the articles' vectors, oldest first, read in pages. */
  async *rated(userId: string): AsyncGenerator<RatedArticle> {
    const { storage, model } = this.#options;
    const { vectors, articles } = storage;
    const ratings = (await storage.ratings.list(userId)).slice(-ratedMax);
    for (let at = 0; at < ratings.length; at += pageSize) {
      const page = ratings.slice(at, at + pageSize);
      const ids = page.map(({ articleId }) => articleId);
      const documents = await vectors.summaries(ids, model);
      const facts = await articles.facts(ids);
      for (const { articleId: id, score, ratedAt } of page) {
        const [found, fact] = [documents.get(id), facts.get(id)];
        if (found === undefined || fact === undefined) continue;
        const document = { ...noSentences, ...found, model };
        yield { id, ...fact, document, score, ratedAt };
      }
    }
  }

  /** What a list is worth to a user, by one version. */
  async scoreShelf(
    userId: string,
    articles: readonly ShelvedArticle[],
    signal: AbortSignal,
  ): Promise<ScoredShelf> {
    const { shelf } = this.tastes;
    await this.#fillShelf(articles, signal);
    const now = this.#options.clock.now();
    const ranked = await this.#with(userId, signal, () =>
      this.tastes.rank(userId, { now, signal }),
    );
    const wanted = new Set(articles.map(({ id }) => id));
    const scores = new Map<string, { readonly score: number; readonly support: number }>();
    for (const [at, id] of ranked.ids.entries()) {
      if (!wanted.has(id)) continue;
      scores.set(id, { score: ranked.scores[at] as number, support: ranked.support[at] as number });
    }
    const { dimension, means } = shelf.rows;
    const meanOf = (id: string) => {
      const place = shelf.find(id);
      return place && means.slice(place.row * dimension, (place.row + 1) * dimension);
    };
    return { version: ranked.version, scores, meanOf };
  }

  /** The vectors of an article are others from now on. */
  changed(articleId: string): void {
    this.tastes.shelf.delete(articleId);
  }

  close(): Promise<void> {
    return this.tastes.close();
  }

  /** The version that serves a user, and how many ratings it is made of. */
  async describe(userId: string, signal: AbortSignal): Promise<{ readonly version: number }> {
    return await this.#with(userId, signal, async () => {
      return { version: this.tastes.version(userId) };
    });
  }

  /**
   * Does work that needs the user's taste. Between the look whether it is there and the work there
   * is no await, since a taste may go at any time for one that is used more.
   */
  async #with<T>(userId: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    while (!this.tastes.has(userId)) await this.#load(userId, signal);
    return await work();
  }

  #isWorn(userId: string): boolean {
    const last = this.#lastVersion.get(userId) ?? 0;
    return this.tastes.version(userId) > last - versionsLeft;
  }

  /** Many who ask for the same taste wait for one load. */
  #load(userId: string, signal: AbortSignal): Promise<void> {
    let loading = this.#loading.get(userId);
    if (loading === undefined) {
      loading = this.#loadNow(userId).finally(() => this.#loading.delete(userId));
      // Whoever waits hears of it; nobody may be left.
      loading.catch(() => {});
      this.#loading.set(userId, loading);
    }
    return untilAborted(loading, signal);
  }

  async #loadNow(userId: string): Promise<void> {
    const { storage, model } = this.#options;
    const last = await storage.tastes.reserve(userId, versionsReserved);
    const trained = await storage.tastes.find(userId, model);
    const rated = await Array.fromAsync(this.rated(userId));
    this.#lastVersion.set(userId, last);
    if (this.#lastVersion.size > 2 * this.#tastesMax) {
      for (const known of this.#lastVersion.keys()) {
        if (!this.tastes.has(known) && known !== userId) this.#lastVersion.delete(known);
      }
    }
    const version = last - versionsReserved + 1;
    await this.tastes.load(userId, { rated, trained, version });
  }

  async #fillShelf(articles: readonly ShelvedArticle[], signal: AbortSignal): Promise<void> {
    const { shelf } = this.tastes;
    const { storage, model } = this.#options;
    const missing = articles.filter(({ id }) => shelf.find(id) === undefined);
    const ids = missing.map(({ id }) => id);
    const summaries = await storage.vectors.summaries(ids, model, signal);
    for (const { id, source, publishedAt } of missing) {
      const summary = summaries.get(id);
      if (summary === undefined) continue;
      shelf.put({ id, source, publishedAt, document: { ...noSentences, ...summary, model } });
    }
  }
}
