import { type SqlBool, sql } from 'kysely';
import { rankerError } from '../errors.ts';
import type { Outline } from '../feeds/opml.ts';
import type { Credentials } from '../fetching/web.ts';
import {
  articleId,
  articleInsert,
  articleUpdates,
  clean,
  fetchAgain,
  type StoredArticle,
} from './articles.ts';
import {
  credentialQueries,
  credentialsInsert,
  feedInsert,
  isPrivateUrl,
  privateFeedUrl,
  publicUrl,
} from './private-feeds.ts';
import { counted, Records } from './records.ts';

export type NewArticle = Pick<
  StoredArticle,
  'url' | 'title' | 'text' | 'publishedAt' | 'author' | 'images' | 'tags'
>;

export interface NewFeed {
  readonly url: string;
  /** Empty if it is not known yet. */
  readonly title: string;
  /** Empty for none. */
  readonly folder: string;
  /** True if the title is the user's own, which stays whatever the feed calls itself. */
  readonly isNamed?: boolean | undefined;
  readonly siteUrl?: string | undefined;
  /** The outline of the OPML that it came by. */
  readonly outline?: Outline | undefined;
  /** The header that opens it; with one the feed is the user's alone. */
  readonly credentials?: Credentials | undefined;
}

export interface ReaderFeed extends Omit<NewFeed, 'credentials'> {
  readonly id: string;
  readonly siteUrl: string | undefined;
  /** The time of the last fetch, whether it had changed or not; undefined if it never was. */
  readonly fetchedAt: number | undefined;
  readonly nextAt: number;
  /** The error of the last fetch; undefined if it did not fail. */
  readonly failure: string | undefined;
  /** The number of fetches that have failed since one did not. */
  readonly failures: number;
  readonly articles: number;
  /** The number of articles that the user has neither read nor rated. */
  readonly unread: number;
  /** True if the whole text of every entry is fetched. */
  readonly isFullText: boolean;
  /** True if it is opened by credentials. */
  readonly isPrivate: boolean;
}

export interface FeedEdit {
  /** Empty for the name that the feed has itself. */
  readonly title: string;
  readonly folder: string;
  readonly isFullText: boolean;
}

export interface DueFeed {
  readonly id: string;
  readonly url: string;
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
  readonly failures: number;
  readonly credentials: Credentials | undefined;
  /** The times of its newest articles, newest first, at most 20. */
  readonly publishedAt: readonly number[];
}

/** The outcome of a fetch. */
export type FeedFetched<A = NewArticle> = {
  readonly feedId: string;
  readonly fetchedAt: number;
  readonly nextAt: number;
} & (
  | { readonly outcome: 'same' }
  | { readonly outcome: 'failed'; readonly failure: string }
  | {
      readonly outcome: 'new';
      readonly title: string;
      readonly siteUrl: string | undefined;
      readonly etag: string | undefined;
      readonly lastModified: string | undefined;
      readonly articles: readonly A[];
      /** The address it came from: its own site's articles are its own. @default unknown */
      readonly feedUrl?: string | undefined;
      /** True if it was opened by credentials: its articles are the subscriber's alone. */
      readonly isPrivate?: boolean | undefined;
    }
);

/** No feed waits for longer, in milliseconds: a later turn was given by a clock that was ahead. */
const waitMsMax = 27 * 3_600_000;
/** The number of articles whose times give a feed's next turn. */
const timesMax = 20;

/** Feeds, their subscribers, and the articles that came by them. */
export class Feeds extends Records {
  /** The feeds that a user has subscribed to, by title. */
  async list(userId: string, signal?: AbortSignal): Promise<ReaderFeed[]> {
    const rows = await this.kysely
      .selectFrom('subscriptions')
      .innerJoin('feeds', 'feeds.id', 'subscriptions.feed_id')
      .selectAll('feeds')
      .select('subscriptions.folder')
      .select(({ selectFrom }) =>
        selectFrom('feed_articles')
          .select(counted)
          .whereRef('feed_articles.feed_id', '=', 'feeds.id')
          .as('articles'),
      )
      .select(['subscriptions.title as own_title', 'subscriptions.full_text', 'outline'])
      // Counts the read and rated articles, which are few: looking at each article takes long.
      .leftJoin(
        ({ selectFrom }) =>
          selectFrom('feed_articles')
            .select(['feed_id', counted])
            .where(
              'article_id',
              'in',
              sql<string>`(select article_id from reads
              where user_id = ${userId} union select article_id from ratings
              where user_id = ${userId})`,
            )
            .groupBy('feed_id')
            .as('done'),
        (join) => join.onRef('done.feed_id', '=', 'feeds.id'),
      )
      .select('done.count as done')
      .where('subscriptions.user_id', '=', userId)
      .orderBy('feeds.title')
      .orderBy('feeds.id')
      .execute({ signal });
    return rows.map((row) => ({
      id: row.id,
      url: publicUrl(row.url),
      folder: row.folder,
      title: row.own_title ?? row.title,
      isNamed: row.own_title !== null && row.own_title !== row.title,
      outline: row.outline === null ? undefined : (JSON.parse(row.outline) as Outline),
      isPrivate: isPrivateUrl(row.url),
      siteUrl: row.site_url ?? undefined,
      fetchedAt: row.fetched_at ?? undefined,
      nextAt: row.next_at,
      failure: row.failure ?? undefined,
      failures: row.failures,
      articles: row.articles ?? 0,
      unread: (row.articles ?? 0) - (row.done ?? 0),
      isFullText: row.full_text === 1,
    }));
  }

  /** Subscribes; a new feed is due at once. Subscriptions that exist stay as they are. */
  async subscribe(
    userId: string,
    feeds: readonly NewFeed[],
    at: number,
    signal?: AbortSignal,
  ): Promise<void> {
    if (feeds.length === 0) return;
    const { kysely } = this;
    const queries = feeds.flatMap((feed) => {
      const { title, folder, isNamed, outline, credentials } = feed;
      const url = credentials ? privateFeedUrl(feed.url, userId) : publicUrl(feed.url);
      const id = articleId(url);
      const subscription = {
        user_id: userId,
        feed_id: id,
        folder: clean(folder),
        added_at: at,
        full_text: 0,
        title: isNamed && title !== '' ? clean(title) : null,
        outline: outline === undefined ? null : JSON.stringify(outline),
      };
      return [
        // One user's name of a feed is nobody else's.
        feedInsert(kysely, { ...feed, url, title: isNamed ? '' : title }, at),
        kysely
          .insertInto('subscriptions')
          .values(subscription)
          .onConflict((conflict) => conflict.doNothing())
          .compile(),
        ...(credentials === undefined ? [] : [credentialsInsert(kysely, id, credentials)]),
      ];
    });
    await this.database.batch(queries, { signal });
  }

  /** Rejects with `RECORD_UNKNOWN` if there is no such subscription. Credentials go with it. */
  async unsubscribe(userId: string, id: string, signal?: AbortSignal): Promise<void> {
    const { kysely } = this;
    const own = kysely
      .selectFrom('subscriptions')
      .where('user_id', '=', userId)
      .where('feed_id', '=', id);
    const queries = [
      kysely.deleteFrom('feed_credentials').where('feed_id', 'in', own.select('feed_id')).compile(),
      kysely
        .deleteFrom('subscriptions')
        .where('user_id', '=', userId)
        .where('feed_id', '=', id)
        .compile(),
    ];
    const results = await this.database.batch(queries, { signal });
    if ((results.at(-1)?.numAffectedRows ?? 0n) === 0n) throw unknown(id);
  }

  /**
   * Opens a feed by credentials from now on, or by none: the subscription moves to a feed of its
   * own, or back to the one that all share. Rejects with `RECORD_UNKNOWN`.
   */
  async setCredentials(
    userId: string,
    id: string,
    credentials: Credentials | undefined,
    at: number,
    signal?: AbortSignal,
  ): Promise<void> {
    const feed = await this.#own(userId, id, signal);
    const move = { userId, feed, credentials, at };
    await this.database.batch(credentialQueries(this.kysely, move), { signal });
  }

  /** Changes a user's own name of a feed, its folder, and whether all its texts are fetched. */
  async edit(
    userId: string,
    id: string,
    { title, folder, isFullText }: FeedEdit,
    signal?: AbortSignal,
  ): Promise<void> {
    const { kysely } = this;
    const known = await this.#own(userId, id, signal);
    const own = { title: clean(title) || null, folder: clean(folder) };
    const edited = kysely
      .updateTable('subscriptions')
      .set({ ...own, full_text: Number(isFullText) })
      .where('user_id', '=', userId)
      .where('feed_id', '=', id)
      .compile();
    const isNew = isFullText && !known.isFullText && !known.isPrivate;
    await this.database.batch([edited, ...(isNew ? fetchAgain(kysely, id) : [])], { signal });
  }

  async #own(userId: string, id: string, signal?: AbortSignal): Promise<ReaderFeed> {
    const known = (await this.list(userId, signal)).find((feed) => feed.id === id);
    if (known === undefined) throw unknown(id);
    return known;
  }

  /** Makes a feed of the user due now; rejects with `RECORD_UNKNOWN`. */
  async hurry(userId: string, id: string, signal?: AbortSignal): Promise<void> {
    const { kysely } = this;
    const own = kysely.selectFrom('subscriptions').select('feed_id').where('user_id', '=', userId);
    const results = await kysely
      .updateTable('feeds')
      .set({ next_at: 0 })
      .where('id', '=', id)
      .where('id', 'in', own)
      .execute({ signal });
    if ((results[0]?.numUpdatedRows ?? 0n) === 0n) throw unknown(id);
  }

  /** Takes what is due and puts it off in the same statement, so that nobody else takes it. */
  async claim(
    { nowMs, untilMs, limit }: Readonly<Record<'nowMs' | 'untilMs' | 'limit', number>>,
    signal?: AbortSignal,
  ): Promise<DueFeed[]> {
    const { kysely } = this;
    const isDue = sql<SqlBool>`(next_at <= ${nowMs} or next_at > ${nowMs + waitMsMax})`;
    const due = kysely
      .selectFrom('feeds')
      .select('feeds.id')
      .where(isDue)
      .where(({ exists, selectFrom }) =>
        exists(
          selectFrom('subscriptions')
            .select('feed_id')
            .whereRef('subscriptions.feed_id', '=', 'feeds.id'),
        ),
      )
      .orderBy('next_at')
      .orderBy('feeds.id')
      .limit(limit);
    const rows = await kysely
      .updateTable('feeds')
      .set({ next_at: untilMs })
      .where('id', 'in', due)
      .where(isDue)
      .returning(['id', 'url', 'etag', 'last_modified', 'failures'])
      .execute({ signal });
    if (rows.length === 0) return [];
    const named = rows.map(({ id }) => id);
    const secrets = kysely.selectFrom('feed_credentials').selectAll();
    const opened = await secrets.where('feed_id', 'in', named).execute({ signal });
    const feeds: DueFeed[] = [];
    for (const { id, url, failures, ...row } of rows) {
      const publishedAt = await this.#times(id, signal);
      const credentials = opened.find((one) => one.feed_id === id);
      const etag = row.etag ?? undefined;
      const lastModified = row.last_modified ?? undefined;
      feeds.push({ id, url, failures, etag, lastModified, publishedAt, credentials });
    }
    return feeds;
  }

  /** True if a subscriber of this feed, or of one with this article, wants all whole texts. */
  async isFullText(
    of: { readonly feedId: string } | { readonly articleId: string },
    signal?: AbortSignal,
  ): Promise<boolean> {
    const { kysely } = this;
    const feeds = kysely.selectFrom('feed_articles').select('feed_id');
    const row = await kysely
      .selectFrom('subscriptions')
      .select('feed_id')
      .where('full_text', '=', 1)
      .where(({ eb }) =>
        'feedId' in of
          ? eb('feed_id', '=', of.feedId)
          : eb('feed_id', 'in', feeds.where('article_id', '=', of.articleId)),
      )
      .executeTakeFirst({ signal });
    return row !== undefined;
  }

  async #times(id: string, signal?: AbortSignal): Promise<number[]> {
    const rows = await this.kysely
      .selectFrom('feed_articles')
      .innerJoin('articles', 'articles.id', 'feed_articles.article_id')
      .select('articles.published_at')
      .where('feed_articles.feed_id', '=', id)
      .where('articles.published_at', 'is not', null)
      .orderBy('articles.published_at', 'desc')
      .limit(timesMax)
      .execute({ signal });
    return rows.map(({ published_at }) => published_at as number);
  }

  /** Stores the outcome of a fetch in one transaction. */
  async save(fetched: FeedFetched<StoredArticle>, signal?: AbortSignal): Promise<void> {
    const { kysely } = this;
    const { feedId: id, fetchedAt, nextAt } = fetched;
    const update = kysely.updateTable('feeds').where('id', '=', id);
    if (fetched.outcome === 'failed') {
      const failure = clean(fetched.failure);
      await update
        .set(({ eb }) => ({ next_at: nextAt, failure, failures: eb('failures', '+', 1) }))
        .execute({ signal });
      return;
    }
    const well = { next_at: nextAt, fetched_at: fetchedAt, failure: null, failures: 0 };
    if (fetched.outcome === 'same') {
      await update.set(well).execute({ signal });
      return;
    }
    const { title, siteUrl, etag, lastModified, articles } = fetched;
    const validators = { etag: etag ?? null, last_modified: lastModified ?? null };
    const links = articles.map((article) => {
      const link = { feed_id: id, article_id: article.id, found_at: fetchedAt };
      return kysely
        .insertInto('feed_articles')
        .values(link)
        .onConflict((conflict) => conflict.doNothing())
        .compile();
    });
    const queries = [
      ...articles.flatMap((article) => [
        ...articleUpdates(kysely, article, fetched),
        articleInsert(kysely, article),
      ]),
      ...links,
      update.set({ ...well, ...validators, title, site_url: siteUrl ?? null }).compile(),
    ];
    await this.database.batch(queries, { signal });
  }

  /** The ids of the users who read the feed. */
  async subscribers(id: string, signal?: AbortSignal): Promise<string[]> {
    const rows = await this.kysely
      .selectFrom('subscriptions')
      .select('user_id')
      .where('feed_id', '=', id)
      .execute({ signal });
    return rows.map(({ user_id }) => user_id);
  }
}

function unknown(id: string): Error {
  return rankerError('RECORD_UNKNOWN', `there is no subscription ${id}`);
}
