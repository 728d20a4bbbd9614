import { Gate } from 'spillway';
import { rankerError } from '../errors.ts';
import { canonicalUrl } from '../fetching/canonical-url.ts';
import { UnavailableError } from '../fetching/unavailable.ts';
import { articleId, articleInsert, type StoredArticle } from '../storage/articles.ts';
import { sourceOf } from './library.ts';
import type { RankingWorld } from './ranking-parts.ts';

type Options = Pick<RankingWorld, 'storage' | 'library' | 'tastes' | 'training' | 'clock'>;

/** An address and its rating. */
export interface RatedItem {
  readonly url: string;
  readonly score: number;
  /** The time of the rating; now if absent. */
  readonly ratedAt?: number | undefined;
}

/** The number of texts fetched at once, and in one request. */
const fetchesMax = 4;
const batchMax = 10_000;

/** Ratings that come in bulk, before anybody has seen the articles. */
export class TrainingSet {
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Stores all ratings, or none if an address is wrong; their texts are fetched later. */
  async add(userId: string, items: readonly RatedItem[], signal: AbortSignal): Promise<number> {
    const { storage, tastes, training, clock } = this.#options;
    const now = clock.now();
    const articles = items.map(({ url }, at) => unreadArticle(url, at, now));
    const inserts = articles.map((article) => articleInsert(storage.database.kysely, article));
    await storage.database.batch(inserts, { signal });
    const corrections = items.map(({ score, ratedAt = now }, at) => {
      const { id } = articles[at] as StoredArticle;
      return { userId, articleId: id, score, predicted: undefined, at: ratedAt };
    });
    await storage.ratings.record(corrections, signal);
    tastes.forget(userId);
    training.add(userId, 'quick');
    return items.length;
  }

  /** Fetches the texts of rated articles that have none; gives the counts. */
  async fetch(
    userId: string,
    signal: AbortSignal,
  ): Promise<{ readonly fetched: number; readonly failed: number }> {
    const { storage, tastes, training } = this.#options;
    const ids = await storage.ratings.unfetched(userId, batchMax, signal);
    const gate = new Gate({ limit: fetchesMax, queueMax: batchMax });
    let fetched = 0;
    const one = async (id: string): Promise<void> => {
      using _place = await gate.enter({ signal });
      if (await this.#fetchOne(userId, id, signal)) fetched += 1;
    };
    await Promise.all(ids.map(one));
    if (fetched > 0) {
      tastes.forget(userId);
      training.add(userId, 'quick');
    }
    return { fetched, failed: ids.length - fetched };
  }

  /** Moves a rating to the canonical address of its page. */
  async #fetchOne(userId: string, id: string, signal: AbortSignal): Promise<boolean> {
    const { storage, library } = this.#options;
    const [unread, rating] = await Promise.all([
      storage.articles.find(id, signal),
      storage.ratings.find(userId, id, signal),
    ]);
    if (unread === undefined || rating === undefined) return false;
    try {
      const { article } = await library.read({ url: unread.url }, signal);
      if (article.id !== id) await storage.ratings.move(userId, id, article.id, signal);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof UnavailableError) {
        await storage.articles.note(id, error.reason, signal);
      }
      return false;
    }
  }
}

/** An article of which only the address is known. */
function unreadArticle(given: string, at: number, now: number): StoredArticle {
  const url = canonicalUrl(given);
  if (url === undefined) {
    throw rankerError('INPUT_INVALID', `body.items.${at}.url: must be an address of the web`);
  }
  return {
    id: articleId(url),
    url,
    givenUrl: given,
    title: '',
    text: '',
    source: sourceOf(url),
    publishedAt: undefined,
    fetchedAt: undefined,
    addedAt: now,
  };
}
