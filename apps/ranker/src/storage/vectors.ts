import { createHash } from 'node:crypto';
import type { CompiledQuery } from 'kysely';
import type { EmbeddedDocument, ModelName } from '../learn/document.ts';
import { type ArticleFacts, feedOf, namesMax } from './articles.ts';
import type { SentenceRow, VectorRow } from './ranker-schema.ts';
import { counted, Records } from './records.ts';

/** The vectors of a whole article, without those of its sentences. */
export type VectorSummary = Pick<EmbeddedDocument, 'length' | 'mean' | 'title' | 'words'>;

/** A rated article with all that a taste is made of. */
export interface RatedVectors extends ArticleFacts {
  readonly id: string;
  readonly score: number;
  readonly ratedAt: number;
  readonly document: VectorSummary;
}

/** The vectors of articles; each article has vectors of one model, which is stored with them. */
export class Vectors extends Records {
  /** Keeps what was made of an article, instead of what another model made. */
  async save(
    articleId: string,
    document: EmbeddedDocument,
    madeAt: number,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.database.batch(this.inserts(articleId, document, madeAt), { signal });
  }

  /** The queries of {@link save}. */
  inserts(articleId: string, document: EmbeddedDocument, madeAt: number): CompiledQuery[] {
    const { vector, sentence } = vectorRows(articleId, document, madeAt);
    return [
      this.kysely
        .insertInto('vectors')
        .values(vector)
        .onConflict((conflict) => conflict.column('article_id').doUpdateSet(vector))
        .compile(),
      this.kysely
        .insertInto('sentences')
        .values(sentence)
        .onConflict((conflict) => conflict.column('article_id').doUpdateSet(sentence))
        .compile(),
    ];
  }

  /** The vectors that the model made of an article, if there is anything usable. */
  async document(
    articleId: string,
    model: ModelName,
    signal?: AbortSignal,
  ): Promise<EmbeddedDocument | undefined> {
    const found = await this.#made(model)
      .where('vectors.article_id', '=', articleId)
      .innerJoin('sentences', 'sentences.article_id', 'vectors.article_id')
      .selectAll('vectors')
      .select('sentences.data as sentences')
      .executeTakeFirst({ signal });
    if (found === undefined) return undefined;
    const { sentences, ...row } = found;
    return documentOf(row, sentences);
  }

  /** The vectors of many articles, without those of sentences, which are most of the bytes. */
  async summaries(
    articleIds: readonly string[],
    model: ModelName,
    signal?: AbortSignal,
  ): Promise<Map<string, VectorSummary>> {
    const found = new Map<string, VectorSummary>();
    for (let at = 0; at < articleIds.length; at += namesMax) {
      const rows = await this.#made(model)
        .where('vectors.article_id', 'in', articleIds.slice(at, at + namesMax))
        .select(['article_id', 'dimension', 'words', 'data'])
        .execute({ signal });
      for (const row of rows) {
        const summary = summaryOf(row);
        if (summary !== undefined) found.set(row.article_id, summary);
      }
    }
    return found;
  }

  /** The newest ratings of a user whose articles have vectors of this model, oldest first. */
  async rated(userId: string, model: ModelName, countMax: number): Promise<RatedVectors[]> {
    const oldest = await this.kysely
      .selectFrom('ratings')
      .select('rated_at')
      .where('user_id', '=', userId)
      .orderBy('rated_at', 'desc')
      .offset(countMax - 1)
      .limit(1)
      .executeTakeFirst();
    const found: RatedVectors[] = [];
    let after = '';
    for (;;) {
      const rows = await this.#ratedPage(userId, model, after, oldest?.rated_at).execute();
      for (const { article_id: id, score, rated_at: ratedAt, ...row } of rows) {
        const document = summaryOf(row);
        if (document === undefined) continue;
        const source = row.feed_id ?? row.source;
        found.push({
          id,
          source,
          publishedAt: row.published_at ?? undefined,
          score,
          ratedAt,
          document,
        });
      }
      if (rows.length < namesMax) break;
      after = (rows.at(-1) as (typeof rows)[number]).article_id;
    }
    return found.sort(byRating).slice(-countMax);
  }

  /**
   * Some of a user's ratings, by article. A cross join keeps the order of its tables in SQLite: by
   * all vectors of the model it would take long for each page.
   */
  #ratedPage(userId: string, { id, precision, dimension }: ModelName, after: string, since = 0) {
    return this.kysely
      .selectFrom('ratings')
      .crossJoin('vectors')
      .crossJoin('articles')
      .whereRef('vectors.article_id', '=', 'ratings.article_id')
      .whereRef('articles.id', '=', 'ratings.article_id')
      .where('ratings.user_id', '=', userId)
      .where('ratings.article_id', '>', after)
      .where('ratings.rated_at', '>=', since)
      .where('vectors.model', '=', id)
      .where('vectors.precision', '=', precision)
      .where('vectors.dimension', '=', dimension)
      .select(['ratings.article_id', 'ratings.score', 'ratings.rated_at'])
      .select(['articles.source', 'articles.published_at', feedOf(userId).as('feed_id')])
      .select(['vectors.dimension', 'vectors.words', 'vectors.data'])
      .orderBy('ratings.article_id')
      .limit(namesMax);
  }

  /** Articles (of these, or of all) with words and without vectors of this model, oldest first. */
  async missing(
    model: ModelName,
    { limit, ids }: { readonly limit: number; readonly ids?: readonly string[] | undefined },
    signal?: AbortSignal,
  ): Promise<string[]> {
    const { kysely } = this;
    let all = kysely.selectFrom('articles').select('id');
    let made = this.#made(model).select('article_id as id');
    if (ids !== undefined) {
      all = all.where('id', 'in', ids);
      made = made.where('article_id', 'in', ids);
    }
    const rows = await kysely
      .selectFrom('articles')
      .select('id')
      // Two indexes, side by side: of the articles that have vectors no row is read.
      .where('id', 'in', all.except(made))
      .where(({ or, eb }) => or([eb('text', '!=', ''), eb('title', '!=', '')]))
      .orderBy('added_at')
      .orderBy('id')
      .limit(limit)
      .execute({ signal });
    return rows.map(({ id }) => id);
  }

  /** Of how many of a user's rated articles this model has made vectors. */
  async countRated(userId: string, model: ModelName): Promise<number> {
    const row = await this.#made(model)
      .innerJoin('ratings', 'ratings.article_id', 'vectors.article_id')
      .select(counted)
      .where('ratings.user_id', '=', userId)
      .executeTakeFirstOrThrow();
    return row.count;
  }

  /** The vectors that a model has made. */
  #made({ id, precision, dimension }: ModelName) {
    return this.kysely
      .selectFrom('vectors')
      .where('vectors.model', '=', id)
      .where('vectors.precision', '=', precision)
      .where('vectors.dimension', '=', dimension);
  }
}

function byRating(one: RatedVectors, other: RatedVectors): number {
  return one.ratedAt - other.ratedAt || (one.id < other.id ? -1 : 1);
}

function vectorRows(
  articleId: string,
  document: EmbeddedDocument,
  madeAt: number,
): { readonly vector: VectorRow; readonly sentence: SentenceRow } {
  const { model, length, sentences, mean, title, words } = document;
  const data = bytesOf(mean, title, words.keys, words.counts);
  const all = bytesOf(sentences);
  return {
    vector: {
      article_id: articleId,
      model: model.id,
      precision: model.precision,
      words: length,
      data,
      dimension: model.dimension,
      sentence_count: sentences.length / model.dimension,
      checksum: checksumOf(data, all),
      made_at: madeAt,
    },
    sentence: { article_id: articleId, chunks: '[]', data: all },
  };
}

/** Undefined if they are not as they were written: they can be made again from the text. */
function documentOf(row: VectorRow, data: Uint8Array): EmbeddedDocument | undefined {
  const { model: id, precision, dimension } = row;
  const summary = summaryOf(row);
  const isWhole = row.checksum === checksumOf(row.data, data);
  if (!isWhole || summary === undefined) return undefined;
  const sentences = new Float32Array(new Uint8Array(data).buffer);
  return { model: { id, precision, dimension }, sentences, ...summary };
}

/**
 * Mean and title, then two bytes for each n-gram's bucket, then one for how often it occurs;
 * undefined if they are not of this shape.
 */
function summaryOf(
  row: Pick<VectorRow, 'dimension' | 'words' | 'data'>,
): VectorSummary | undefined {
  const { dimension, words: length } = row;
  // A copy, since a database gives bytes that begin anywhere in a larger buffer.
  const { buffer } = new Uint8Array(row.data);
  const count = (buffer.byteLength - 8 * dimension) / 3;
  if (!Number.isInteger(count) || count < 0) return undefined;
  const vector = (at: number) => new Float32Array(buffer, 4 * at * dimension, dimension);
  const keys = new Uint16Array(buffer, 8 * dimension, count);
  const counts = new Uint8Array(buffer, 8 * dimension + 2 * count, count);
  return { length, mean: vector(0), title: vector(1), words: { keys, counts } };
}

/** One text for all that makes vectors comparable. */
export function modelText({ id, precision, dimension }: ModelName): string {
  return `${id} ${precision} ${dimension}`;
}

export function checksumOf(...parts: readonly Uint8Array[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
}

/** Little-endian, as every machine that Node runs on has it. */
function bytesOf(...parts: readonly ArrayBufferView[]): Uint8Array {
  return Buffer.concat(
    parts.map((one) => new Uint8Array(one.buffer, one.byteOffset, one.byteLength)),
  );
}
