import type { Clock } from 'spillway';
import { rankerError } from '../errors.ts';
import { canonicalUrl } from '../fetching/canonical-url.ts';
import type {
  DueFeed,
  FeedClaim,
  FeedFetched,
  NewArticle,
  NewFeed,
  NewRule,
  ReaderAccuracy,
  ReaderArticle,
  ReaderExplanation,
  ReaderFeed,
  ReaderQuery,
  ReaderRule,
  ReaderShelf,
  ReaderStore,
  ReaderUser,
  ReaderVote,
} from '../reader/reader-store.ts';
import { articleId, type StoredArticle } from '../storage/articles.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { ShelvedArticle } from '../storage/shelves.ts';
import { areaUnderCurve } from './area-under-curve.ts';
import type { ArticleRanking } from './article-ranking.ts';
import { sourceOf } from './library.ts';
import type { UserChanges } from './ranking-parts.ts';
import { sampleArticles } from './samples.ts';
import type { ScoredShelf, UserTastes } from './user-tastes.ts';

export interface RankerReaderOptions {
  readonly storage: RankerStorage;
  readonly ranking: ArticleRanking;
  readonly tastes: UserTastes;
  readonly changes: UserChanges;
  readonly clock: Clock;
  /** Called when there may be articles without vectors. */
  readonly onArticles: () => void;
}

/** A text of a feed is taken for the whole article from so many characters on. */
const wholeMin = 1_000;
/** A reader who is not told when to stop reads on until the server ends. */
const never = new AbortController().signal;

/** What the reader page asks for, from storage and ranking. */
export class RankerReader implements ReaderStore {
  readonly #options: RankerReaderOptions;

  constructor(options: RankerReaderOptions) {
    this.#options = options;
  }

  async userOf(apiKey: string, signal?: AbortSignal): Promise<ReaderUser | undefined> {
    return await this.#options.storage.users.byKey(apiKey, signal);
  }

  articles(userId: string, limit: number, signal?: AbortSignal): Promise<ReaderShelf> {
    return this.#shelf(userId, { words: [], limit }, signal);
  }

  search(userId: string, query: ReaderQuery, signal?: AbortSignal): Promise<ReaderShelf> {
    return this.#shelf(userId, query, signal);
  }

  async explain(
    userId: string,
    id: string,
    signal: AbortSignal = never,
  ): Promise<ReaderExplanation | undefined> {
    const ranked = await this.#options.ranking.explain(userId, id, signal);
    if (ranked?.explained === undefined) return undefined;
    const { score, explained } = ranked;
    const { source, nearest, sentences } = explained;
    return {
      ...{ score: score.score, tasteVersion: score.version, nearest },
      sentences: sentences.map(({ text, points }) => ({ text, weight: points })),
      source:
        source.ratings === 0
          ? undefined
          : { host: source.host, mean: source.score, ratings: source.ratings },
    };
  }

  async vote(
    userId: string,
    { articleId: id, score }: ReaderVote,
    signal: AbortSignal = never,
  ): Promise<void> {
    await this.#options.ranking.vote(userId, id, score, signal);
  }

  async unvote(userId: string, id: string, signal: AbortSignal = never): Promise<void> {
    await this.#options.ranking.unvote(userId, id, signal);
  }

  async markRead(userId: string, id: string, signal?: AbortSignal): Promise<void> {
    const { storage, clock, changes } = this.#options;
    await storage.shelves.markRead(userId, id, clock.now(), signal);
    changes.tell(userId);
  }

  async addSamples(userId: string, signal?: AbortSignal): Promise<void> {
    const { storage, clock, changes, onArticles } = this.#options;
    const now = clock.now();
    await storage.shelves.add(userId, sampleArticles(now), now, signal);
    onArticles();
    changes.tell(userId);
  }

  async accuracy(userId: string, signal?: AbortSignal): Promise<ReaderAccuracy> {
    const { ratings } = this.#options.storage;
    const { count, meanDelta, meanAbsoluteDelta } = await ratings.accuracy({ userId });
    const auc = areaUnderCurve(await ratings.predictions(userId, signal));
    return { count, bias: meanDelta, meanAbsoluteError: meanAbsoluteDelta, auc };
  }

  async rules(userId: string, signal?: AbortSignal): Promise<readonly ReaderRule[]> {
    return await this.#options.storage.rules.list(userId, signal);
  }

  async addRule(userId: string, rule: NewRule, signal?: AbortSignal): Promise<void> {
    const { storage, clock, changes } = this.#options;
    await storage.rules.add(userId, rule, clock.now(), signal);
    changes.tell(userId);
  }

  async removeRule(userId: string, ruleId: string, signal?: AbortSignal): Promise<void> {
    const { storage, changes } = this.#options;
    const isGone = await storage.rules.remove(userId, ruleId, signal);
    if (!isGone) throw rankerError('RECORD_UNKNOWN', `there is no rule ${ruleId}`);
    changes.tell(userId);
  }

  async feeds(userId: string, signal?: AbortSignal): Promise<readonly ReaderFeed[]> {
    return await this.#options.storage.feeds.list(userId, signal);
  }

  async subscribe(userId: string, feeds: readonly NewFeed[], signal?: AbortSignal): Promise<void> {
    const { storage, clock, changes } = this.#options;
    await storage.feeds.subscribe(userId, feeds, clock.now(), signal);
    changes.tell(userId);
  }

  async unsubscribe(userId: string, feedId: string, signal?: AbortSignal): Promise<void> {
    const { storage, changes } = this.#options;
    const isGone = await storage.feeds.unsubscribe(userId, feedId, signal);
    if (!isGone) throw rankerError('RECORD_UNKNOWN', `there is no subscription ${feedId}`);
    changes.tell(userId);
  }

  async claimFeeds(claim: FeedClaim, signal?: AbortSignal): Promise<readonly DueFeed[]> {
    return await this.#options.storage.feeds.claim(claim, signal);
  }

  async saveFetch(fetched: FeedFetched, signal?: AbortSignal): Promise<void> {
    const { storage, changes, onArticles } = this.#options;
    if (fetched.outcome === 'new') {
      const articles = storedArticles(fetched.articles, fetched.fetchedAt);
      await storage.feeds.save({ ...fetched, articles }, signal);
      onArticles();
    } else {
      await storage.feeds.save(fetched, signal);
    }
    for (const userId of await storage.feeds.subscribers(fetched.feedId, signal)) {
      changes.tell(userId);
    }
  }

  onChange(listener: (userId: string) => void): Disposable {
    return this.#options.changes.listen(listener);
  }

  async #shelf(
    userId: string,
    { words, limit }: ReaderQuery,
    signal: AbortSignal = never,
  ): Promise<ReaderShelf> {
    const { storage, tastes } = this.#options;
    const shelved = await storage.shelves.list({ userId, words, limit }, signal);
    const scored = await tastes.scoreShelf(userId, shelved, signal);
    const articles = shelved.map((article) => readerArticle(article, scored));
    return { tasteVersion: scored.version, articles };
  }
}

function readerArticle(article: ShelvedArticle, { scores, meanOf }: ScoredShelf): ReaderArticle {
  const found = scores.get(article.id);
  return {
    ...{ id: article.id, url: article.url, title: article.title, source: article.source },
    publishedAt: article.publishedAt ?? article.addedAt,
    lead: article.lead,
    score: found?.score,
    uncertainty: found?.width,
    vote: article.vote,
    isRead: article.isRead,
    // Most who list articles do not look at it, and a list of thousands would copy megabytes.
    get vector() {
      return meanOf(article.id);
    },
    unavailable: article.unavailable,
  };
}

/** What a feed says of articles, as it is stored; an entry whose address is none is left out. */
function storedArticles(articles: readonly NewArticle[], now: number): StoredArticle[] {
  return articles.flatMap(({ url: given, title, text, publishedAt }) => {
    const url = canonicalUrl(given);
    if (url === undefined) return [];
    return {
      ...{ id: articleId(url), url, givenUrl: given, title, text, source: sourceOf(url) },
      ...{ publishedAt, etag: undefined, lastModified: undefined, unavailable: undefined },
      // A short text may be a summary: who asks for the article itself shall get all of it.
      ...{ fetchedAt: text.length >= wholeMin ? now : undefined, addedAt: now },
    };
  });
}
