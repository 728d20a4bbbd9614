import { withoutBoilerplate } from '../feeds/boilerplate.ts';
import { canonicalUrl } from '../fetching/canonical-url.ts';
import { articleId, type StoredArticle } from '../storage/articles.ts';
import type { FeedFetched } from '../storage/feeds.ts';
import { privateArticleUrl } from '../storage/private-feeds.ts';
import type { Mark, UserArticle, UserArticleQuery } from '../storage/user-articles.ts';
import { sourceOf } from './library.ts';
import type { RankingWorld } from './ranking-parts.ts';
import { sampleArticles } from './samples.ts';

export interface ScoredArticles {
  /** Of the taste that all the scores are by. */
  readonly tasteVersion: number;
  readonly articles: readonly ReaderArticle[];
}

/** An article as a user has it, with its score. */
export interface ReaderArticle extends UserArticle {
  /** The time of publication, or of finding it if that is not known. */
  readonly publishedAt: number;
  /** From 1 to 10; undefined while it is not known. */
  readonly score: number | undefined;
  /** The score that lists are ordered by. @default the score */
  readonly order?: number | undefined;
  /** The expected error of the score in points; undefined if not known. */
  readonly uncertainty: number | undefined;
  /** Its mean vector of length 1, by the model of all others; undefined while there is none. */
  readonly vector: Float32Array | undefined;
}

type Options = Pick<RankingWorld, 'storage' | 'tastes' | 'changes' | 'clock'> & {
  /** Called when articles, these or any, may be without vectors. */
  readonly onArticles: (ids?: readonly string[]) => void;
};

/** A feed's text of at least this many characters counts as the whole article. */
const wholeMin = 1_000;
const noSentences = { sentences: new Float32Array(0) };
/** The signal of callers that never stop. */
const never = new AbortController().signal;

/** A user's articles with their scores, what is done with them, and what feeds bring. */
export class Reader {
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
  }

  /** The newest articles that a query finds; all scores are by one version of the taste. */
  async articles(
    userId: string,
    query: Omit<UserArticleQuery, 'userId'>,
    signal: AbortSignal = never,
  ): Promise<ScoredArticles> {
    const { storage, tastes } = this.#options;
    // Loads the taste while the list is read; a failure comes up again with the scores.
    void tastes.current(userId, signal).catch(() => {});
    const found = await storage.userArticles.list({ ...query, userId }, signal);
    return await this.scored(userId, found, signal);
  }

  /** These articles, with the scores of now. */
  async scored(
    userId: string,
    list: readonly UserArticle[],
    signal: AbortSignal,
  ): Promise<ScoredArticles> {
    const { tastes, clock } = this.#options;
    const { table } = tastes;
    await this.#fillTable(list, signal);
    const wanted = list.map(({ id }) => id);
    const ranked = await tastes.rank(userId, wanted, { now: clock.now(), signal });
    const places = new Map(ranked.ids.map((id, at) => [id, at]));
    // Only the few vectors that are looked at are looked up.
    const vector = {
      get vector() {
        return table.mean((this as unknown as ReaderArticle).id);
      },
    };
    const articles = list.map((article): ReaderArticle => {
      const { publishedAt = article.addedAt } = article;
      const at = places.get(article.id);
      const score = at === undefined ? undefined : ranked.scores[at];
      const order = score === undefined ? undefined : ranked.orderOf(score);
      const uncertainty = at === undefined ? undefined : ranked.widths[at];
      const scored = { ...article, publishedAt, score, order, uncertainty };
      return Object.assign(Object.create(vector), scored);
    });
    return { tasteVersion: ranked.version, articles };
  }

  /** Loads the vectors of articles that are not in the table. */
  async #fillTable(list: readonly UserArticle[], signal: AbortSignal): Promise<void> {
    const { storage, tastes } = this.#options;
    const { table, model } = tastes;
    const missing = list.filter(({ id }) => !table.has(id));
    const ids = missing.map(({ id }) => id);
    const summaries = await storage.vectors.summaries(ids, model, signal);
    for (const { id, feedId, source, publishedAt } of missing) {
      const summary = summaries.get(id);
      if (summary === undefined) continue;
      const document = { ...noSentences, ...summary, model };
      table.put({ id, source: feedId ?? source, publishedAt, document });
    }
  }

  /** Keeps that the user has read these articles, all at one time; gives the time. */
  async markRead(userId: string, ids: readonly string[], signal?: AbortSignal): Promise<number> {
    const { storage, clock, changes } = this.#options;
    const at = clock.now();
    await storage.userArticles.markRead(userId, ids, at, signal);
    changes.tell(userId, { ids, now: { isRead: true } });
    return at;
  }

  /** The same of all articles, or of all of a feed; gives their number too. */
  async markAllRead(
    userId: string,
    feedId: string | undefined,
    signal?: AbortSignal,
  ): Promise<{ readonly at: number; readonly count: number }> {
    const { storage, clock, changes } = this.#options;
    const at = clock.now();
    const count = await storage.userArticles.markAllRead(userId, feedId, at, signal);
    changes.tell(userId, 'all');
    return { at, count };
  }

  /** Takes back that articles were read: one of them, or all that were read at one time. */
  async markUnread(
    userId: string,
    which: { readonly id: string } | { readonly at: number },
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#options.storage.userArticles.markUnread(userId, which, signal);
    const change = 'id' in which ? { ids: [which.id], now: { isRead: false } } : 'all';
    this.#options.changes.tell(userId, change);
  }

  /** Sets or takes away a star, or a place on the list of what is read later. */
  async mark(
    userId: string,
    id: string,
    mark: Mark,
    isSet: boolean,
    signal?: AbortSignal,
  ): Promise<void> {
    const { storage, clock, changes } = this.#options;
    const row = { user_id: userId, article_id: id, kind: mark, marked_at: clock.now() };
    await storage.userArticles.mark(row, isSet, signal);
    const now = mark === 'starred' ? { isStarred: isSet } : { isLater: isSet };
    changes.tell(userId, { ids: [id], now });
  }

  /** Adds the articles that come with the app; known ones are left alone. */
  async addSamples(userId: string, signal?: AbortSignal): Promise<void> {
    const { storage, clock, changes, onArticles } = this.#options;
    const now = clock.now();
    await storage.userArticles.add(userId, sampleArticles(now), now, signal);
    onArticles();
    changes.tell(userId, 'all');
  }

  /** Keeps the outcome of a fetch, and tells all who read the feed. */
  async saveFetch(fetched: FeedFetched, signal?: AbortSignal): Promise<void> {
    const { storage, changes, tastes, onArticles } = this.#options;
    if (fetched.outcome === 'new') {
      const isFullText = await storage.feeds.isFullText(fetched, signal);
      const articles = storedArticles(fetched, isFullText);
      await storage.feeds.save({ ...fetched, articles }, signal);
      // Articles that have changed have lost their vectors.
      for (const { id } of articles) tastes.table.delete(id);
      onArticles(articles.map(({ id }) => id));
    } else {
      await storage.feeds.save(fetched, signal);
    }
    for (const userId of await storage.feeds.subscribers(fetched.feedId, signal)) {
      changes.tell(userId, 'all');
    }
  }
}

/** Entries of a feed as they are stored; one whose address is none is left out. */
function storedArticles(
  fetched: Extract<FeedFetched, { outcome: 'new' }>,
  isFullText: boolean,
): StoredArticle[] {
  const { articles, feedId, isPrivate, fetchedAt: now } = fetched;
  const texts = withoutBoilerplate(articles.map(({ text }) => text));
  return articles.flatMap((entry, at) => {
    const { url: given, title, publishedAt, author, images, tags } = entry;
    const known = canonicalUrl(given);
    if (known === undefined) return [];
    const url = isPrivate ? privateArticleUrl(known, feedId) : known;
    // Pages of a private feed are private too: there is nothing to fetch without its credentials.
    const text = texts[at] as string;
    const isWhole = isPrivate || (text.length >= wholeMin && !isFullText);
    return {
      id: articleId(url),
      url,
      givenUrl: given,
      title,
      text,
      source: sourceOf(url),
      author,
      images,
      tags,
      ...(text !== entry.text && { sharedText: entry.text }),
      // A short text may be a summary: the article itself is fetched when it is asked for.
      fetchedAt: isWhole ? now : undefined,
      addedAt: now,
      isFromFeed: true,
      publishedAt,
    };
  });
}
