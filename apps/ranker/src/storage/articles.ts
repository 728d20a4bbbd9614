import { createHash } from 'node:crypto';
import {
  type CompiledQuery,
  type Kysely,
  type RawBuilder,
  type SelectQueryBuilder,
  type SqlBool,
  sql,
} from 'kysely';
import { isSameSite } from '../fetching/canonical-url.ts';
import type { PageImage } from '../fetching/page-images.ts';
import type { ArticleRow, RankerSchema } from './ranker-schema.ts';
import { Records } from './records.ts';

/** Something to read. */
export interface StoredArticle {
  /** Made of the canonical URL. */
  readonly id: string;
  /** Canonical; `text:<hash>` for a text that has none. */
  readonly url: string;
  readonly givenUrl: string;
  readonly title: string;
  /** Empty until it has been fetched. */
  readonly text: string;
  /** The host it comes from; empty for a bare text. */
  readonly source: string;
  readonly publishedAt: number | undefined;
  /** The time of the last fetch, whether its text had changed or not. */
  readonly fetchedAt: number | undefined;
  readonly etag?: string | undefined;
  readonly lastModified?: string | undefined;
  /** The reason why there is no text. */
  readonly unavailable?: string | undefined;
  readonly addedAt: number;
  readonly author?: string | undefined;
  /** True if title and text are as a feed has them: they change with it. */
  readonly isFromFeed?: boolean | undefined;
  readonly images?: readonly PageImage[] | undefined;
  readonly tags?: readonly string[] | undefined;
  /** Its text in the feed, if other entries share parts of it: shown, and not learned from. */
  readonly sharedText?: string | undefined;
}

/** Facts that scores need besides vectors; the source is the feed, or the host without one. */
export type ArticleFacts = Pick<StoredArticle, 'source' | 'publishedAt'>;

/** The number of names in one query. */
export const namesMax = 500;
/** Entries whose whole texts are fetched when a user switches a feed to whole texts. */
const textsMax = 50;

/** The id of the article at a canonical URL, or of the feed at one. */
export function articleId(url: string): string {
  return createHash('sha256').update(url).digest().subarray(0, 16).toString('base64url');
}

/**
 * The feeds of a user that brought the article of the query around it. SQLite takes the tables of a
 * cross join in their order: otherwise it looks at each feed of the user for each article.
 */
export function feedsWith(userId: string): RawBuilder<unknown> {
  return sql`from feed_articles cross join subscriptions
    where feed_articles.article_id = articles.id and subscriptions.user_id = ${userId}
      and subscriptions.feed_id = feed_articles.feed_id`;
}

/** The feed of this user that brought an article; other users may have it by other feeds. */
export function feedOf(userId: string): RawBuilder<string | null> {
  return sql<string | null>`(select min(feed_articles.feed_id) ${feedsWith(userId)})`;
}

/** The articles of all users. */
export class Articles extends Records {
  async find(id: string, signal?: AbortSignal): Promise<StoredArticle | undefined> {
    const row = await this.kysely
      .selectFrom('articles')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirst({ signal });
    return row === undefined ? undefined : articleOf(row);
  }

  /** Finds articles, in no particular order; those that are not stored are left out. */
  async list(ids: readonly string[], signal?: AbortSignal): Promise<StoredArticle[]> {
    const found: StoredArticle[] = [];
    for (let at = 0; at < ids.length; at += namesMax) {
      const rows = await this.kysely
        .selectFrom('articles')
        .selectAll()
        .where('id', 'in', ids.slice(at, at + namesMax))
        .execute({ signal });
      found.push(...rows.map(articleOf));
    }
    return found;
  }

  /** The ids that begin so; `_` stands for itself. */
  async byPrefix(prefixes: readonly string[], signal?: AbortSignal): Promise<string[]> {
    const found: string[] = [];
    for (const prefix of prefixes) {
      const pattern = `${prefix.replaceAll('_', '\\_')}%`;
      const rows = await this.kysely
        .selectFrom('articles')
        .select('id')
        .where(sql<SqlBool>`id like ${pattern} escape '\\'`)
        .execute({ signal });
      found.push(...rows.map(({ id }) => id).filter((id) => id.startsWith(prefix)));
    }
    return found;
  }

  /** The facts of these articles that a user's scores need besides their vectors. */
  async facts(
    userId: string,
    ids: readonly string[],
    signal?: AbortSignal,
  ): Promise<Map<string, ArticleFacts>> {
    const found = new Map<string, ArticleFacts>();
    for (let at = 0; at < ids.length; at += namesMax) {
      const rows = await this.kysely
        .selectFrom('articles')
        .select(['id', 'published_at', 'source', feedOf(userId).as('feed_id')])
        .where('id', 'in', ids.slice(at, at + namesMax))
        .execute({ signal });
      for (const { id, source, feed_id, published_at } of rows) {
        found.set(id, { source: feed_id ?? source, publishedAt: published_at ?? undefined });
      }
    }
    return found;
  }

  /** The article that an address leads to, by the id that one of that address would have. */
  async resolve(id: string, signal?: AbortSignal): Promise<StoredArticle | undefined> {
    const found = await this.find(id, signal);
    if (found !== undefined) return found;
    const row = await this.kysely
      .selectFrom('aliases')
      .innerJoin('articles', 'articles.id', 'aliases.article_id')
      .selectAll('articles')
      .where('aliases.id', '=', id)
      .executeTakeFirst({ signal });
    return row === undefined ? undefined : articleOf(row);
  }

  /** Stores an article whole; vectors of an older text go. The alias leads to it from now on. */
  async save(
    article: StoredArticle,
    alias: string = article.id,
    signal?: AbortSignal,
  ): Promise<void> {
    const { kysely } = this;
    const row = rowOf(article);
    const { id, ...rest } = row;
    const upsert = kysely
      .insertInto('articles')
      .values(row)
      .onConflict((conflict) => conflict.column('id').doUpdateSet(rest));
    const link = { id: alias, article_id: id };
    const other = kysely
      .insertInto('aliases')
      .values(link)
      .onConflict((conflict) => conflict.column('id').doUpdateSet(link))
      .compile();
    const aliases = alias === id ? [] : [other];
    await this.database.batch([upsert.compile(), ...vectorDeletes(kysely, [id]), ...aliases], {
      signal,
    });
  }

  /** Keeps that the text is still what it was. */
  async touch(id: string, fetchedAt: number, signal?: AbortSignal): Promise<void> {
    await this.kysely
      .updateTable('articles')
      .set({ fetched_at: fetchedAt })
      .where('id', '=', id)
      .execute({ signal });
  }

  /** Keeps why an article has no text. */
  async note(id: string, unavailable: string, signal?: AbortSignal): Promise<void> {
    await this.kysely
      .updateTable('articles')
      .set({ unavailable })
      .where('id', '=', id)
      .where('text', '=', '')
      .execute({ signal });
  }

  /** Deletes articles older than a time that nobody has rated; gives how many. */
  async prune(before: number, signal?: AbortSignal): Promise<number> {
    const { kysely } = this;
    const old = kysely
      .selectFrom('articles')
      .select('id')
      .where('added_at', '<', before)
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('ratings')
              .select('article_id')
              .whereRef('ratings.article_id', '=', 'articles.id')
              .union(
                selectFrom('marks')
                  .select('article_id')
                  .whereRef('marks.article_id', '=', 'articles.id'),
              ),
          ),
        ),
      );
    // What was read stays read: a slow feed still has the entry, and brings it again.
    const tables = ['vectors', 'sentences', 'aliases', 'feed_articles', 'shelf'] as const;
    const rest = tables.map((table) =>
      kysely
        .deleteFrom(table as 'shelf')
        .where('article_id', 'in', old)
        .compile(),
    );
    const articles = kysely.deleteFrom('articles').where('id', 'in', old).compile();
    const results = await this.database.batch([...rest, articles], { signal });
    return Number(results.at(-1)?.numAffectedRows ?? 0n);
  }
}

export function articleOf(row: ArticleRow): StoredArticle {
  return {
    id: row.id,
    url: row.url,
    givenUrl: row.given_url,
    title: row.title,
    text: row.text,
    source: row.source,
    publishedAt: row.published_at ?? undefined,
    fetchedAt: row.fetched_at ?? undefined,
    etag: row.etag ?? undefined,
    lastModified: row.last_modified ?? undefined,
    unavailable: row.unavailable ?? undefined,
    addedAt: row.added_at,
    ...(row.author !== null && { author: row.author }),
    ...(row.from_feed === 1 && { isFromFeed: true }),
    ...(row.images !== null && { images: JSON.parse(row.images) }),
    ...(row.tags !== null && { tags: tagsOf(row.tags) }),
    ...(row.shared_text !== null && { sharedText: row.shared_text }),
  };
}

/** The tags of an article as they are stored. */
export function tagsOf(text: string): string[] {
  return text.split('\n').filter(Boolean);
}

/** A text as both databases take it: Postgres takes neither a NUL nor half a character. */
export function clean(text: string): string {
  return text.replaceAll('\0', '').toWellFormed();
}

function listText<T>(list: readonly T[] = [], text: (list: readonly T[]) => string): string | null {
  return list.length === 0 ? null : text(list);
}

function rowOf(article: StoredArticle): ArticleRow {
  return {
    id: article.id,
    url: article.url,
    given_url: clean(article.givenUrl),
    title: clean(article.title),
    text: clean(article.text),
    source: article.source,
    published_at: article.publishedAt ?? null,
    fetched_at: article.fetchedAt ?? null,
    etag: article.etag ?? null,
    last_modified: article.lastModified ?? null,
    unavailable: article.unavailable ?? null,
    added_at: article.addedAt,
    author: article.author === undefined ? null : clean(article.author),
    from_feed: Number(article.isFromFeed ?? false),
    images: listText(article.images, JSON.stringify),
    tags: listText(article.tags, (tags) => clean(`\n${tags.join('\n')}\n`)),
    shared_text: article.sharedText === undefined ? null : clean(article.sharedText),
  };
}

/** Stores an article that nobody knew; one that is there stays as it is. */
export function articleInsert(kysely: Kysely<RankerSchema>, article: StoredArticle): CompiledQuery {
  return kysely
    .insertInto('articles')
    .values(rowOf(article))
    .onConflict((conflict) => conflict.doNothing())
    .compile();
}

/**
 * Updates an article that its feed has changed, and deletes its vectors. Only a feed of
 * the article's own site, or one that alone has it, may do so: anybody can list the articles of
 * others, and two feeds would change it back and forth for ever.
 */
export function articleUpdates(
  kysely: Kysely<RankerSchema>,
  article: StoredArticle,
  { feedId, feedUrl }: { readonly feedId: string; readonly feedUrl?: string | undefined },
): CompiledQuery[] {
  const isOwn = feedUrl !== undefined && isSameHost(article.url, feedUrl);
  const { id, title, text, author, images, tags, shared_text } = rowOf(article);
  const may = isOwn ? sql<SqlBool>`1 = 1` : isAlone(feedId, id);
  const changed = kysely
    .selectFrom('articles')
    .select('id')
    .where('id', '=', id)
    .where('from_feed', '=', 1)
    .where(may)
    .where(({ or, eb }) => or([eb('title', '!=', title), eb('text', '!=', text)]));
  return [
    ...vectorDeletes(kysely, changed),
    kysely
      .updateTable('articles')
      .set({ title, text, author, images, tags, shared_text })
      .where('id', '=', id)
      .where('from_feed', '=', 1)
      .where(may)
      .compile(),
  ];
}

function vectorDeletes(
  kysely: Kysely<RankerSchema>,
  ids: SelectQueryBuilder<RankerSchema, 'articles', { id: string }> | readonly string[],
): CompiledQuery[] {
  const tables = ['vectors', 'sentences'] as const;
  return tables.map((table) => kysely.deleteFrom(table).where('article_id', 'in', ids).compile());
}

function isSameHost(one: string, other: string): boolean {
  return isSameSite(new URL(one).hostname, new URL(other).hostname);
}

/** True if no other feed has the article. */
function isAlone(feedId: string, articleId: string): RawBuilder<SqlBool> {
  return sql<SqlBool>`not exists (select 1 from feed_articles as other
    where other.article_id = ${articleId} and other.feed_id != ${feedId})`;
}

/** Deletes the vectors of a feed's newest entries; making them again fetches the whole texts. */
export function fetchAgain(kysely: Kysely<RankerSchema>, feedId: string): CompiledQuery[] {
  const newest = kysely
    .selectFrom('feed_articles')
    .select('article_id')
    .where('feed_id', '=', feedId)
    .orderBy('found_at', 'desc')
    .orderBy('article_id')
    .limit(textsMax);
  const entries = kysely
    .selectFrom('articles')
    .select('id')
    .where('id', 'in', newest)
    .where('from_feed', '=', 1);
  return [
    ...vectorDeletes(kysely, entries),
    kysely.updateTable('articles').set({ fetched_at: null }).where('id', 'in', entries).compile(),
  ];
}
