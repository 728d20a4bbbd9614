import { createHash } from 'node:crypto';
import type { EmbeddedDocument, ModelName } from '../learn/document.ts';
import type { SentenceRow, VectorRow } from './ranker-schema.ts';

/** The vectors of a whole article, without those of its sentences. */
export type VectorSummary = Pick<EmbeddedDocument, 'words' | 'mean' | 'title' | 'lead'>;

/** What is stored is not what was written, or is of another shape than it says. */
export class VectorsCorruptError extends Error {
  override readonly name = 'VectorsCorruptError';
}

export function vectorRows(
  articleId: string,
  document: EmbeddedDocument,
  madeAt: number,
): { readonly vector: VectorRow; readonly sentence: SentenceRow } {
  const { model, words, sentences, mean, title, lead } = document;
  const [data, all] = [bytesOf(mean, title, lead), bytesOf(sentences)];
  return {
    vector: {
      ...{ article_id: articleId, model: model.id, precision: model.precision, words, data },
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
  const sentences = floatsOf(sentence.data);
  if (sentences.length !== row.sentence_count * dimension) throw corrupt(id);
  return { model: { id: model, precision, dimension }, sentences, ...summaryOf(row) };
}

export function summaryOf(
  row: Pick<VectorRow, 'article_id' | 'dimension' | 'words' | 'data'>,
): VectorSummary {
  const { dimension, words } = row;
  const floats = floatsOf(row.data);
  if (floats.length !== 3 * dimension) throw corrupt(row.article_id);
  const part = (at: number) => floats.subarray(at * dimension, (at + 1) * dimension);
  return { words, mean: part(0), title: part(1), lead: part(2) };
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
function bytesOf(...vectors: readonly Float32Array[]): Uint8Array {
  const parts = vectors.map((one) => new Uint8Array(one.buffer, one.byteOffset, one.byteLength));
  return Buffer.concat(parts);
}

function floatsOf(bytes: Uint8Array): Float32Array {
  const { buffer, byteOffset, byteLength } = bytes;
  if (byteLength % 4 !== 0) return new Float32Array(0);
  if (byteOffset % 4 === 0) return new Float32Array(buffer, byteOffset, byteLength / 4);
  return new Float32Array(Uint8Array.from(bytes).buffer);
}

function corrupt(articleId: string): VectorsCorruptError {
  return new VectorsCorruptError(`the vectors of article ${articleId} are damaged`);
}
