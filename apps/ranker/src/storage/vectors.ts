import { sql } from 'kysely';
import type { Database } from 'spillway-sql';
import type { EmbeddedDocument, ModelName } from '../learn/document.ts';
import {
  documentOf,
  summaryOf,
  type VectorSummary,
  VectorsCorruptError,
  vectorRows,
} from './article-vectors.ts';
import { namesMax } from './articles.ts';
import type { RankerSchema } from './ranker-schema.ts';

/** The vectors of articles: of one model each, which is told with them. */
export class Vectors {
  readonly #database: Database<RankerSchema>;

  constructor(database: Database<RankerSchema>) {
    this.#database = database;
  }

  /** Keeps what was made of an article, instead of what another model made. */
  async save(
    articleId: string,
    document: EmbeddedDocument,
    madeAt: number,
    signal?: AbortSignal,
  ): Promise<void> {
    const { kysely } = this.#database;
    const { vector, sentence } = vectorRows(articleId, document, madeAt);
    const queries = [
      kysely
        .insertInto('vectors')
        .values(vector)
        .onConflict((conflict) => conflict.column('article_id').doUpdateSet(vector))
        .compile(),
      kysely
        .insertInto('sentences')
        .values(sentence)
        .onConflict((conflict) => conflict.column('article_id').doUpdateSet(sentence))
        .compile(),
    ];
    await this.#database.batch(queries, { signal });
  }

  /** The vectors that the model made of an article, if there is anything usable. */
  async document(
    articleId: string,
    model: ModelName,
    signal?: AbortSignal,
  ): Promise<EmbeddedDocument | undefined> {
    const found = await this.#of([articleId], model)
      .innerJoin('sentences', 'sentences.article_id', 'vectors.article_id')
      .selectAll('vectors')
      .select('sentences.data as sentences')
      .executeTakeFirst({ signal });
    if (found === undefined) return undefined;
    const { sentences, ...row } = found;
    try {
      return documentOf(row, { data: sentences });
    } catch (error) {
      // They can be made again from the text.
      if (error instanceof VectorsCorruptError) return undefined;
      throw error;
    }
  }

  /** The vectors of many articles, without those of sentences, which are most of the bytes. */
  async summaries(
    articleIds: readonly string[],
    model: ModelName,
    signal?: AbortSignal,
  ): Promise<Map<string, VectorSummary>> {
    const found = new Map<string, VectorSummary>();
    for (let at = 0; at < articleIds.length; at += namesMax) {
      const rows = await this.#of(articleIds.slice(at, at + namesMax), model)
        .select(['article_id', 'dimension', 'words', 'data'])
        .execute({ signal });
      for (const row of rows) found.set(row.article_id, summaryOf(row));
    }
    return found;
  }

  /** Articles with a text or a title of which this model has made no vectors, oldest first. */
  async missing(model: ModelName, limit: number, signal?: AbortSignal): Promise<string[]> {
    const rows = await this.#database.kysely
      .selectFrom('articles')
      .leftJoin('vectors', (join) =>
        join
          .onRef('vectors.article_id', '=', 'articles.id')
          .on('vectors.model', '=', model.id)
          .on('vectors.precision', '=', model.precision)
          .on('vectors.dimension', '=', model.dimension),
      )
      .select('articles.id')
      .where(({ or, eb }) => or([eb('articles.text', '!=', ''), eb('articles.title', '!=', '')]))
      .where('vectors.article_id', 'is', null)
      .orderBy('articles.added_at')
      .orderBy('articles.id')
      .limit(limit)
      .execute({ signal });
    return rows.map(({ id }) => id);
  }

  /** Of how many of a user's rated articles this model has made vectors. */
  async countRated(userId: string, model: ModelName): Promise<number> {
    const row = await this.#database.kysely
      .selectFrom('ratings')
      .innerJoin('vectors', 'vectors.article_id', 'ratings.article_id')
      .select(sql<number>`cast(count(*) as integer)`.as('count'))
      .where('ratings.user_id', '=', userId)
      .where('vectors.model', '=', model.id)
      .where('vectors.precision', '=', model.precision)
      .where('vectors.dimension', '=', model.dimension)
      .executeTakeFirstOrThrow();
    return row.count;
  }

  #of(articleIds: readonly string[], { id, precision, dimension }: ModelName) {
    return this.#database.kysely
      .selectFrom('vectors')
      .where('vectors.article_id', 'in', articleIds)
      .where('vectors.model', '=', id)
      .where('vectors.precision', '=', precision)
      .where('vectors.dimension', '=', dimension);
  }
}
