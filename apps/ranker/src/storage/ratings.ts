import { sql } from 'kysely';
import { counted, Records } from './records.ts';

/** A user's judgement of an article. */
export interface Correction {
  readonly userId: string;
  readonly articleId: string;
  /** From 1 to 10. */
  readonly score: number;
  /** The score before the rating was known; undefined if there was none. */
  readonly predicted: number | undefined;
  readonly at: number;
}

/** A user's last judgement of an article. */
export interface Rating {
  readonly articleId: string;
  readonly score: number;
  readonly ratedAt: number;
}

/** The accuracy of predictions; delta is corrected minus predicted. */
export interface Accuracy {
  readonly count: number;
  /** The bias; undefined if nothing was predicted. */
  readonly meanDelta: number | undefined;
  /** The error. */
  readonly meanAbsoluteDelta: number | undefined;
}

export interface AccuracyFilter {
  readonly userId: string;
  /** Counts from this time on. @default ever */
  readonly since?: number | undefined;
  /** Leaves out articles that the user had rated before. @default true */
  readonly firstOnly?: boolean | undefined;
}

/** The users' judgements of articles: each as it was given, and the last one of each. */
export class Ratings extends Records {
  /** Stores the corrections whole or not at all; when it resolves, no crash can undo them. */
  async record(corrections: readonly Correction[], signal?: AbortSignal): Promise<void> {
    const { kysely } = this;
    const queries = corrections.flatMap(({ userId, articleId, score, predicted, at }) => {
      const correction = sql`insert into corrections
        (user_id, article_id, score, predicted, is_first, created_at)
        values (${userId}, ${articleId}, ${score}, ${predicted ?? null},
          case when exists (select 1 from ratings where user_id = ${userId}
            and article_id = ${articleId}) then 0 else 1 end, ${at})`;
      const rating = { user_id: userId, article_id: articleId, score, rated_at: at };
      const upsert = kysely
        .insertInto('ratings')
        .values(rating)
        .onConflict((conflict) => conflict.columns(['user_id', 'article_id']).doUpdateSet(rating));
      return [correction.compile(kysely), upsert.compile()];
    });
    await this.fenced.batch(queries, { signal });
  }

  /** Takes a rating back; its corrections stay. */
  async remove(userId: string, articleId: string, signal?: AbortSignal): Promise<boolean> {
    const query = this.kysely
      .deleteFrom('ratings')
      .where('user_id', '=', userId)
      .where('article_id', '=', articleId);
    const [deleted] = await this.fenced.batch([query.compile()], { signal });
    return (deleted?.numAffectedRows ?? 0n) > 0n;
  }

  /** A rating becomes that of another article, unless the user has rated that one too. */
  async move(userId: string, from: string, to: string, signal?: AbortSignal): Promise<void> {
    const { kysely } = this;
    const taken = kysely
      .selectFrom('ratings')
      .select('article_id')
      .where('user_id', '=', userId)
      .where('article_id', '=', to);
    const own = kysely
      .updateTable('ratings')
      .set({ article_id: to })
      .where('user_id', '=', userId)
      .where('article_id', '=', from)
      .where(({ not, exists }) => not(exists(taken)));
    const corrections = kysely
      .updateTable('corrections')
      .set({ article_id: to })
      .where('user_id', '=', userId)
      .where('article_id', '=', from);
    const rest = kysely
      .deleteFrom('ratings')
      .where('user_id', '=', userId)
      .where('article_id', '=', from);
    const queries = [own.compile(), corrections.compile(), rest.compile()];
    await this.fenced.batch(queries, { signal });
  }

  /** All ratings of a user, oldest first. */
  async list(userId: string, signal?: AbortSignal): Promise<Rating[]> {
    const rows = await this.kysely
      .selectFrom('ratings')
      .select(['article_id', 'score', 'rated_at'])
      .where('user_id', '=', userId)
      .orderBy('rated_at')
      .orderBy('article_id')
      .execute({ signal });
    return rows.map(({ article_id, score, rated_at }) => {
      return { articleId: article_id, score, ratedAt: rated_at };
    });
  }

  async find(userId: string, articleId: string, signal?: AbortSignal): Promise<Rating | undefined> {
    const row = await this.kysely
      .selectFrom('ratings')
      .select(['score', 'rated_at'])
      .where('user_id', '=', userId)
      .where('article_id', '=', articleId)
      .executeTakeFirst({ signal });
    return row && { articleId, score: row.score, ratedAt: row.rated_at };
  }

  /** All ratings of a user with the articles' addresses, oldest first. */
  async listUrls(
    userId: string,
    signal?: AbortSignal,
  ): Promise<{ readonly url: string; readonly score: number }[]> {
    return await this.kysely
      .selectFrom('ratings')
      .innerJoin('articles', 'articles.id', 'ratings.article_id')
      .select(['articles.url', 'ratings.score'])
      .where('ratings.user_id', '=', userId)
      .orderBy('ratings.rated_at')
      .orderBy('ratings.article_id')
      .execute({ signal });
  }

  /** Rated articles whose text was never fetched, oldest first. */
  async unfetched(userId: string, limit: number, signal?: AbortSignal): Promise<string[]> {
    const rows = await this.kysely
      .selectFrom('ratings')
      .innerJoin('articles', 'articles.id', 'ratings.article_id')
      .select('articles.id')
      .where('ratings.user_id', '=', userId)
      .where('articles.text', '=', '')
      .orderBy('ratings.rated_at')
      .orderBy('articles.id')
      .limit(limit)
      .execute({ signal });
    return rows.map(({ id }) => id);
  }

  async accuracy({ userId, since, firstOnly = true }: AccuracyFilter): Promise<Accuracy> {
    const delta = sql<number | null>`avg(score - predicted)`;
    const absolute = sql<number | null>`avg(abs(score - predicted))`;
    let query = this.kysely
      .selectFrom('corrections')
      .select([counted, delta.as('delta'), absolute.as('absolute')])
      .where('user_id', '=', userId)
      .where('predicted', 'is not', null);
    if (since !== undefined) query = query.where('created_at', '>=', since);
    if (firstOnly) query = query.where('is_first', '=', 1);
    const row = await query.executeTakeFirstOrThrow();
    const { count, delta: mean, absolute: error } = row;
    return { count, meanDelta: mean ?? undefined, meanAbsoluteDelta: error ?? undefined };
  }

  /** The ids of users who have rated any of these articles. */
  async ratersOf(articleIds: readonly string[], signal?: AbortSignal): Promise<string[]> {
    const rows = await this.kysely
      .selectFrom('ratings')
      .select('user_id')
      .distinct()
      .where('article_id', 'in', articleIds)
      .execute({ signal });
    return rows.map(({ user_id }) => user_id);
  }
}
