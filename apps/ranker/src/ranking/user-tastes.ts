import type { Clock } from 'spillway';
import type { Article, ArticleText, ModelName, RatedArticle } from '../learn/document.ts';
import type { Score } from '../learn/score.ts';
import { type StoredTaste, Tastes } from '../learn/tastes.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { ShelvedArticle } from '../storage/shelves.ts';

export interface UserTastesOptions {
  readonly storage: RankerStorage;
  readonly model: ModelName;
  readonly clock: Clock;
  /** The number of tastes in memory; others are loaded when asked for. @default 64 */
  readonly tastesMax?: number | undefined;
  /** A rating counts half after so many days. @default 365 */
  readonly ratingHalfLifeDays?: number | undefined;
  /** Told of a user whose articles have been compared with all ratings. @default nobody is */
  readonly onCompared?: ((userId: string) => void) | undefined;
}

/** A list scored by one version of a taste. */
export interface ScoredShelf {
  readonly version: number;
  /** By article; those without vectors have none. */
  readonly scores: ReadonlyMap<string, { readonly score: number; readonly width: number }>;
  /** The mean vector of an article of the list, if it has one. */
  readonly meanOf: (articleId: string) => Float32Array | undefined;
}

export interface Learned {
  /** The score before the rating was known. */
  readonly predicted: number;
  readonly score: Score;
  /** The number of ratings that the taste is made of now. */
  readonly ratings: number;
}

/** Ratings that a taste is made of; the newest count. */
const ratedMax = 5_000;
/** Numbers for versions that are set aside when a taste is loaded. */
const versionsReserved = 1_000;
/** Ratings that are read at once. */
const pageSize = 250;
const noSentences = { sentences: new Float32Array(0) };
const dayMs = 86_400_000;

/** The tastes of all users on what is stored. */
export class UserTastes {
  readonly tastes: Tastes;
  readonly #options: UserTastesOptions;

  static async open(options: UserTastesOptions): Promise<UserTastes> {
    const { model, tastesMax, ratingHalfLifeDays = 365, onCompared } = options;
    const load = (userId: string) => loadTaste(options, userId);
    const halfLifeMs = ratingHalfLifeDays * dayMs;
    const limits = { tastesMax, ratedMax, halfLifeMs };
    const tastes = await Tastes.open({ model, load, ...limits, onCompared });
    return new UserTastes(options, tastes);
  }

  private constructor(options: UserTastesOptions, tastes: Tastes) {
    this.#options = options;
    this.tastes = tastes;
  }

  get model(): ModelName {
    return this.tastes.model;
  }

  get stats(): Tastes['stats'] {
    return this.tastes.stats;
  }

  score(
    userId: string,
    article: Article & { readonly text?: ArticleText | undefined },
    signal: AbortSignal,
  ): Promise<Score> {
    return this.tastes.score(userId, article, { now: this.#options.clock.now(), signal });
  }

  /** Takes a rating into account at once; `commit` makes it durable, before anybody sees it. */
  async learn(
    userId: string,
    rated: RatedArticle,
    commit: (predicted: number) => Promise<void>,
    signal: AbortSignal,
  ): Promise<Learned> {
    const { score: predicted } = await this.score(userId, rated, signal);
    await commit(predicted);
    // It is stored: whatever goes wrong from here on, a taste that is loaded anew has it.
    await this.tastes.rate(userId, [rated], signal).catch(() => this.reload(userId));
    const score = await this.score(userId, rated, signal);
    return { predicted, score, ratings: await this.#ratings(userId) };
  }

  /** Forgets a rating that was taken back in storage. */
  async unlearn(userId: string, articleId: string, signal: AbortSignal): Promise<number> {
    const change = { removed: [articleId] };
    await this.tastes.change(userId, change, signal).catch(() => this.reload(userId));
    return await this.#ratings(userId);
  }

  async #ratings(userId: string): Promise<number> {
    return (await this.tastes.current(userId)).state?.rows.count ?? 0;
  }

  /** Lets go of a taste, so that it is loaded with all that is stored by then. */
  reload(userId: string): void {
    this.tastes.forget(userId);
  }

  /** The same for the tastes of all users. */
  reloadAll(): void {
    this.tastes.forgetAll();
  }

  /** Scores a list for a user, by one version. */
  async scoreShelf(
    userId: string,
    articles: readonly Pick<ShelvedArticle, 'id' | 'feedId' | 'source' | 'publishedAt'>[],
    signal: AbortSignal,
  ): Promise<ScoredShelf> {
    const { storage, model, clock } = this.#options;
    const { table } = this.tastes;
    const missing = articles.filter(({ id }) => !table.has(id));
    const ids = missing.map(({ id }) => id);
    const summaries = await storage.vectors.summaries(ids, model, signal);
    for (const { id, feedId, source, publishedAt } of missing) {
      const summary = summaries.get(id);
      if (summary === undefined) continue;
      const document = { ...noSentences, ...summary, model };
      table.put({ id, source: feedId ?? source, publishedAt, document });
    }
    const wanted = articles.map(({ id }) => id);
    const ranked = await this.tastes.rank(userId, wanted, { now: clock.now(), signal });
    const scores = new Map<string, { readonly score: number; readonly width: number }>();
    for (const [at, id] of ranked.ids.entries()) {
      scores.set(id, { score: ranked.scores[at] as number, width: ranked.widths[at] as number });
    }
    return { version: ranked.version, scores, meanOf: (id) => table.mean(id) };
  }

  /** The vectors of an article are others from now on. */
  changed(articleId: string): void {
    this.tastes.table.delete(articleId);
  }

  close(): Promise<void> {
    return this.tastes.close();
  }
}

async function loadTaste(
  { storage, model }: UserTastesOptions,
  userId: string,
): Promise<StoredTaste> {
  const versionMax = await storage.tastes.reserve(userId, versionsReserved);
  const choice = await storage.tastes.find(userId, model);
  const ratings = (await storage.ratings.list(userId)).slice(-ratedMax);
  const rated: RatedArticle[] = [];
  for (let at = 0; at < ratings.length; at += pageSize) {
    const page = ratings.slice(at, at + pageSize);
    const ids = page.map(({ articleId }) => articleId);
    const documents = await storage.vectors.summaries(ids, model);
    const facts = await storage.articles.facts(ids);
    for (const { articleId: id, score, ratedAt } of page) {
      const document = documents.get(id);
      const fact = facts.get(id);
      if (document === undefined || fact === undefined) continue;
      rated.push({ id, ...fact, document: { ...noSentences, ...document, model }, score, ratedAt });
    }
  }
  return { rated, choice, version: versionMax - versionsReserved, versionMax };
}
