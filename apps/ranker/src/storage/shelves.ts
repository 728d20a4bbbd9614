import { type SqlBool, sql } from 'kysely';
import type { Database } from 'spillway-sql';
import { articleInsert, type StoredArticle } from './articles.ts';
import type { RankerSchema } from './ranker-schema.ts';

/** An article as a user has it, without its text. */
export interface ShelvedArticle {
  readonly id: string;
  readonly url: string;
  readonly title: string;
  readonly source: string;
  /** The feed that brought it; undefined for an article of the user's own. */
  readonly feedId: string | undefined;
  readonly author: string | undefined;
  readonly publishedAt: number | undefined;
  readonly addedAt: number;
  /** The beginning of its text. */
  readonly lead: string;
  readonly vote: number | undefined;
  readonly isRead: boolean;
  readonly unavailable: string | undefined;
}

export interface ShelfQuery {
  readonly userId: string;
  /** Only those whose title or text has all of these, whatever their case. @default all */
  readonly words?: readonly string[] | undefined;
  readonly limit: number;
}

/** How many characters of a text are shown in a list. */
const leadMax = 500;
const feedOf = sql<string | null>`(select min(feed_id) from feed_articles
  where feed_articles.article_id = articles.id)`;
const isAscii = /^[ -~]*$/;

/** Which articles each user has: by their feeds, or of their own. */
export class Shelves {
  readonly #database: Database<RankerSchema>;

  constructor(database: Database<RankerSchema>) {
    this.#database = database;
  }

  /** Adds articles to those of a user; known ones stay as they are. */
  async add(
    userId: string,
    articles: readonly StoredArticle[],
    at: number,
    signal?: AbortSignal,
  ): Promise<void> {
    if (articles.length === 0) return;
    const { kysely } = this.#database;
    const queries = articles.flatMap((article) => [
      articleInsert(kysely, article),
      kysely
        .insertInto('shelf')
        .values({ user_id: userId, article_id: article.id, added_at: at })
        .onConflict((conflict) => conflict.doNothing())
        .compile(),
    ]);
    await this.#database.batch(queries, { signal });
  }

  /** The newest of a user's articles, newest first. */
  async list(
    { userId, words = [], limit }: ShelfQuery,
    signal?: AbortSignal,
  ): Promise<ShelvedArticle[]> {
    const { kysely } = this.#database;
    const ids = kysely
      .selectFrom('shelf')
      .select('article_id')
      .where('user_id', '=', userId)
      .union(kysely.selectFrom('ratings').select('article_id').where('user_id', '=', userId))
      .union(
        kysely
          .selectFrom('feed_articles')
          .innerJoin('subscriptions', 'subscriptions.feed_id', 'feed_articles.feed_id')
          .select('feed_articles.article_id')
          .where('subscriptions.user_id', '=', userId),
      );
    let query = kysely
      .selectFrom('articles')
      .leftJoin('ratings', (join) =>
        join.onRef('ratings.article_id', '=', 'articles.id').on('ratings.user_id', '=', userId),
      )
      .leftJoin('reads', (join) =>
        join.onRef('reads.article_id', '=', 'articles.id').on('reads.user_id', '=', userId),
      )
      .select(['articles.id', 'articles.url', 'articles.title', 'articles.source'])
      .select([
        'articles.published_at',
        'articles.added_at',
        'articles.unavailable',
        'articles.author',
      ])
      .select(feedOf.as('feed_id'))
      .select(sql<string>`substr(articles.text, 1, ${sql.lit(leadMax)})`.as('lead'))
      .select(['ratings.score', 'reads.read_at'])
      .where('articles.id', 'in', ids);
    for (const word of words) query = query.where(hasWord(word));
    const rows = await query
      .orderBy(sql`coalesce(articles.published_at, articles.added_at)`, 'desc')
      .orderBy('articles.id')
      .limit(limit)
      .execute({ signal });
    return rows.map((row) => ({
      ...{ id: row.id, url: row.url, title: row.title, source: row.source, lead: row.lead },
      feedId: row.feed_id ?? undefined,
      author: row.author ?? undefined,
      publishedAt: row.published_at ?? undefined,
      addedAt: row.added_at,
      vote: row.score ?? undefined,
      isRead: row.read_at !== null,
      unavailable: row.unavailable ?? undefined,
    }));
  }

  /** Keeps that a user is done with an article. */
  async markRead(
    userId: string,
    articleId: string,
    at: number,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#database.kysely
      .insertInto('reads')
      .values({ user_id: userId, article_id: articleId, read_at: at })
      .onConflict((conflict) => conflict.doNothing())
      .execute({ signal });
  }
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
