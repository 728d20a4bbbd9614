import { type SqlBool, sql } from 'kysely';
import type { DatabaseKind } from 'spillway-sql';
import { unspaced } from '../learn/words.ts';
import { articleInsert, feedOf, feedsWith, type StoredArticle, tagsOf } from './articles.ts';
import { searchVector } from './migrations.ts';
import { publicUrl } from './private-feeds.ts';
import type { MarkRow } from './ranker-schema.ts';
import { Records } from './records.ts';

/** An article as a user has it, without its text. */
export interface UserArticle {
  readonly id: string;
  readonly url: string;
  readonly title: string;
  readonly source: string;
  /** The feed that brought it; undefined for an article of the user's own. */
  readonly feedId: string | undefined;
  readonly author: string | undefined;
  /** The words by which its feed files it. */
  readonly tags: readonly string[];
  readonly publishedAt: number | undefined;
  readonly addedAt: number;
  /** The beginning of its text. */
  readonly lead: string;
  readonly vote: number | undefined;
  readonly isRead: boolean;
  readonly isStarred: boolean;
  readonly isLater: boolean;
  /** The number of characters of its text. */
  readonly length: number;
  readonly unavailable: string | undefined;
}

export interface UserArticleQuery {
  readonly userId: string;
  /**
   * Only those whose title or text has all of these, whatever their case; words of four letters and
   * more also by their beginning. @default all
   */
  readonly words?: readonly string[] | undefined;
  /** Only those of this feed. @default all */
  readonly feedId?: string | undefined;
  /** Only those with this mark. @default all */
  readonly mark?: Mark | undefined;
  /** Only these. @default all */
  readonly ids?: readonly string[] | undefined;
  /** Only those older than this time, in milliseconds since 1970. @default all */
  readonly before?: number | undefined;
  readonly limit: number;
}

/** A star, or a place on the list of what is read later. */
export type Mark = 'starred' | 'later';

/** Characters of a text that are shown in a list. */
const leadMax = 500;
const timeOf = sql<number>`coalesce(articles.published_at, articles.added_at)`;
const isAscii = /^[ -~]*$/;
/**
 * Words that the full-text index has: no signs, and not of a language without spaces. Which letters
 * Postgres knows depends on the locale of the database; those of ASCII it knows in all.
 */
const isIndexed: Readonly<Record<DatabaseKind, RegExp>> = {
  sqlite: new RegExp(`^(?:(?![${unspaced}])[\\p{L}\\p{N}])+$`, 'u'),
  postgres: /^[a-z0-9]+$/,
};
/** A word of at least this many letters is also found by its beginning. */
const beginningMin = 4;

/** The articles of each user: by their feeds, or of their own. */
export class UserArticles extends Records {
  /** Adds articles to those of a user; known ones stay as they are. */
  async add(
    userId: string,
    articles: readonly StoredArticle[],
    at: number,
    signal?: AbortSignal,
  ): Promise<void> {
    if (articles.length === 0) return;
    const { kysely } = this;
    const queries = articles.flatMap((article) => [
      articleInsert(kysely, article),
      kysely
        .insertInto('shelf')
        .values({ user_id: userId, article_id: article.id, added_at: at })
        .onConflict((conflict) => conflict.doNothing())
        .compile(),
    ]);
    await this.database.batch(queries, { signal });
  }

  /** The newest of a user's articles, newest first. */
  async list(query: UserArticleQuery, signal?: AbortSignal): Promise<UserArticle[]> {
    const { words = [], limit } = query;
    if (words.length === 0 || this.database.kind === 'postgres') {
      return await this.#list(query, undefined, signal);
    }
    // A frequent word is in too many articles to look at all: mostly the newest are enough.
    const newest = await this.#list(query, 4 * limit, signal);
    return newest.length < limit ? await this.#list(query, undefined, signal) : newest;
  }

  async #list(
    { userId, words = [], limit, feedId, mark, ids: only, before }: UserArticleQuery,
    foundMax: number | undefined,
    signal?: AbortSignal,
  ): Promise<UserArticle[]> {
    const { kysely, kind } = this.database;
    // Ids first: what is shown of an article is dear, and most that are found are not shown.
    let ids = kysely
      .selectFrom('articles')
      .select('articles.id')
      // Row by row, in the order of time: a union of all would be made before the first row.
      .where(sql<SqlBool>`(exists (select 1 ${feedsWith(userId)})
        or exists (select 1 from ratings
          where ratings.article_id = articles.id and ratings.user_id = ${userId})
        or exists (select 1 from shelf
          where shelf.article_id = articles.id and shelf.user_id = ${userId})
        or exists (select 1 from marks
          where marks.article_id = articles.id and marks.user_id = ${userId}))`);
    if (only !== undefined) ids = ids.where('articles.id', 'in', only);
    if (before !== undefined) ids = ids.where(sql<SqlBool>`${timeOf} < ${before}`);
    if (mark !== undefined) {
      ids = ids.where('articles.id', 'in', (from) =>
        from
          .selectFrom('marks')
          .select('article_id')
          .where('user_id', '=', userId)
          .where('kind', '=', mark),
      );
    }
    if (feedId !== undefined) {
      ids = ids.where('articles.id', 'in', (from) =>
        from.selectFrom('feed_articles').select('article_id').where('feed_id', '=', feedId),
      );
    }
    const { indexed = [], others = [] } = Object.groupBy(words, (word) =>
      isIndexed[kind].test(word) ? 'indexed' : 'others',
    );
    if (indexed.length > 0) ids = ids.where(hasWords(kind, indexed, foundMax));
    for (const word of others) ids = ids.where(hasWord(word));
    const newest = ids.orderBy(timeOf, 'desc').orderBy('articles.id').limit(limit);
    const rows = await kysely
      .selectFrom('articles')
      .leftJoin('ratings', (join) =>
        join.onRef('ratings.article_id', '=', 'articles.id').on('ratings.user_id', '=', userId),
      )
      .leftJoin('reads', (join) =>
        join.onRef('reads.article_id', '=', 'articles.id').on('reads.user_id', '=', userId),
      )
      .select(['articles.id', 'articles.url', 'articles.title', 'articles.source'])
      .select(['articles.published_at', 'articles.added_at', 'articles.unavailable'])
      .select(['articles.author', 'articles.tags'])
      .select(feedOf(userId).as('feed_id'))
      .select(sql<string>`substr(articles.text, 1, ${sql.lit(leadMax)})`.as('lead'))
      .select(['ratings.score', 'reads.read_at'])
      .select(markOf('starred', userId).as('starred'))
      .select(markOf('later', userId).as('later'))
      .select(sql<number>`length(articles.text)`.as('length'))
      .where('articles.id', 'in', newest)
      .orderBy(timeOf, 'desc')
      .orderBy('articles.id')
      .execute({ signal });
    return rows.map((row) => ({
      id: row.id,
      title: row.title,
      source: row.source,
      lead: row.lead,
      url: publicUrl(row.url),
      feedId: row.feed_id ?? undefined,
      author: row.author ?? undefined,
      tags: row.tags === null ? [] : tagsOf(row.tags),
      publishedAt: row.published_at ?? undefined,
      addedAt: row.added_at,
      vote: row.score ?? undefined,
      isRead: row.read_at !== null,
      isStarred: row.starred === 1,
      isLater: row.later === 1,
      length: row.length,
      unavailable: row.unavailable ?? undefined,
    }));
  }

  /** Marks articles as read; articles that were read before keep their time. */
  async markRead(
    userId: string,
    ids: readonly string[],
    at: number,
    signal?: AbortSignal,
  ): Promise<void> {
    const queries = ids.map((id) =>
      this.kysely
        .insertInto('reads')
        .values({ user_id: userId, article_id: id, read_at: at })
        .onConflict((conflict) => conflict.doNothing())
        .compile(),
    );
    if (queries.length > 0) await this.database.batch(queries, { signal });
  }

  /** Keeps that a user has read all that is not rated, or all of one feed; gives how many. */
  async markAllRead(
    userId: string,
    feedId: string | undefined,
    at: number,
    signal?: AbortSignal,
  ): Promise<number> {
    const isAll = feedId === undefined;
    const others = sql`union select article_id from shelf where user_id = ${userId}`;
    const query = sql`insert into reads (user_id, article_id, read_at)
      select cast(${userId} as text), article_id, cast(${at} as double precision) from (
        select article_id from feed_articles where feed_id in (select feed_id from subscriptions
          where user_id = ${userId} ${isAll ? sql`` : sql`and feed_id = ${feedId}`})
        ${isAll ? others : sql``}) as own
      where article_id not in (select article_id from ratings where user_id = ${userId})
      on conflict do nothing`;
    const [result] = await this.database.batch([query.compile(this.kysely)], { signal });
    return Number(result?.numAffectedRows ?? 0n);
  }

  /** Forgets that a user has read an article, or all that were read at one time. */
  async markUnread(
    userId: string,
    which: { readonly id: string } | { readonly at: number },
    signal?: AbortSignal,
  ): Promise<void> {
    const query = this.kysely.deleteFrom('reads').where('user_id', '=', userId);
    const only =
      'id' in which
        ? query.where('article_id', '=', which.id)
        : query.where('read_at', '=', which.at);
    await only.execute({ signal });
  }

  /** Sets a mark, or takes it away. */
  async mark(row: MarkRow, isSet: boolean, signal?: AbortSignal): Promise<void> {
    const { kysely } = this;
    const own = kysely
      .deleteFrom('marks')
      .where('user_id', '=', row.user_id)
      .where('article_id', '=', row.article_id)
      .where('kind', '=', row.kind);
    const set = kysely.insertInto('marks').values(row);
    const query = isSet ? set.onConflict((conflict) => conflict.doNothing()) : own;
    await query.execute({ signal });
  }
}

function markOf(mark: Mark, userId: string) {
  return sql<number>`(select count(*) from marks where marks.article_id = articles.id
    and marks.user_id = ${userId} and marks.kind = ${mark})`;
}

/** Tells whether an article has all these words, by the full-text index. */
function hasWords(kind: DatabaseKind, words: readonly string[], foundMax = -1) {
  if (kind === 'postgres') {
    const asked = words.map((word) => (word.length < beginningMin ? word : `${word}:*`));
    return sql<SqlBool>`${sql.raw(searchVector)} @@ to_tsquery('simple', ${asked.join(' & ')})`;
  }
  const asked = words.map((word) => (word.length < beginningMin ? `"${word}"` : `"${word}"*`));
  return sql<SqlBool>`articles.id in (select article_id from article_numbers where number in
    (select rowid from article_words where article_words match ${asked.join(' ')}
      order by rowid desc limit ${sql.lit(foundMax)}))`;
}

/**
 * The words come in small letters. Databases make only those of ASCII small, or not all of them, so
 * other words are looked for in the ways they are written: small, with a capital, or all capitals.
 */
function hasWord(word: string) {
  const [first = ''] = word;
  const capital = first.toUpperCase() + word.slice(first.length);
  const ways = new Set(isAscii.test(word) ? [word] : [word, capital, word.toUpperCase()]);
  const found = [...ways].map((way) => {
    const pattern = `%${way.replaceAll(/[\\%_]/g, '\\$&')}%`;
    return sql`lower(articles.title) like ${pattern} escape '\\'
      or lower(articles.text) like ${pattern} escape '\\'`;
  });
  return sql<SqlBool>`(${sql.join(found, sql` or `)})`;
}
