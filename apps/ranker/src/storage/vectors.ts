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
    await this.#database.batch(queries, signal);
  }

  /** What the model made of these articles; those of which there is nothing usable are left out. */
  async documents(
    articleIds: readonly string[],
    model: ModelName,
    signal?: AbortSignal,
  ): Promise<Map<string, EmbeddedDocument>> {
    const found = new Map<string, EmbeddedDocument>();
    for (let at = 0; at < articleIds.length; at += documentsMax) {
      const rows = await this.#of(articleIds.slice(at, at + documentsMax), model)
        .innerJoin('sentences', 'sentences.article_id', 'vectors.article_id')
        .selectAll('vectors')
        .select(['sentences.chunks', 'sentences.data as sentences'])
        .execute({ signal });
      for (const { chunks, sentences, ...row } of rows) {
        try {
          const sentence = { article_id: row.article_id, chunks, data: sentences };
          found.set(row.article_id, documentOf(row, sentence));
        } catch (error) {
          // They can be made again from the text.
          if (!(error instanceof VectorsCorruptError)) throw error;
        }
      }
    }
    return found;
  }

  async document(
    articleId: string,
    model: ModelName,
    signal?: AbortSignal,
  ): Promise<EmbeddedDocument | undefined> {
    return (await this.documents([articleId], model, signal)).get(articleId);
  }

  /** As {@link documents}, without the sentences, which are most of it. */
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

/** Rows of one query: their checksums are reckoned on the event loop, some 0.1 ms each. */
const documentsMax = 10;
