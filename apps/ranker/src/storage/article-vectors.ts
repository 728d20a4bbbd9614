import { createHash } from 'node:crypto';
import type { EmbeddedDocument, ModelName } from '../learn/document.ts';
import type { SentenceRow, VectorRow } from './ranker-schema.ts';

/** The vectors of a whole article, without those of its sentences. */
export type VectorSummary = Pick<EmbeddedDocument, 'length' | 'mean' | 'title' | 'words'>;

/** Stored vectors that are not as they were written, or not of the shape they say. */
export class VectorsCorruptError extends Error {
  override readonly name = 'VectorsCorruptError';
}

export function vectorRows(
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

export function documentOf(row: VectorRow, sentence: Pick<SentenceRow, 'data'>): EmbeddedDocument {
  const { article_id: id, model, precision, dimension } = row;
  if (row.checksum !== checksumOf(row.data, sentence.data)) throw corrupt(id);
  const sentences = new Float32Array(Uint8Array.from(sentence.data).buffer);
  if (sentences.length !== row.sentence_count * dimension) throw corrupt(id);
  return { model: { id: model, precision, dimension }, sentences, ...summaryOf(row) };
}

/** Mean and title, then two bytes for each n-gram's bucket, then one for how often it occurs. */
export function summaryOf(
  row: Pick<VectorRow, 'article_id' | 'dimension' | 'words' | 'data'>,
): VectorSummary {
  const { dimension, words: length } = row;
  // A copy, since a database gives bytes that begin anywhere in a larger buffer.
  const { buffer } = Uint8Array.from(row.data);
  const count = (buffer.byteLength - 8 * dimension) / 3;
  if (!Number.isInteger(count) || count < 0) throw corrupt(row.article_id);
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

function corrupt(articleId: string): VectorsCorruptError {
  return new VectorsCorruptError(`the vectors of article ${articleId} are damaged`);
}
