import { nextTurn } from 'spillway/internal';
import { isSameModel, type ModelName, type RatedArticle } from './document.ts';
import { ageFeature, lengthFeature } from './features.ts';
import type { NetworkInput } from './network.ts';
import { foldCount, type RatedColumns, sharedFloats } from './rated-rows.ts';

/** Rated articles in shared memory, so that a thread can learn from them without a copy. */
export interface PackedArticles extends RatedColumns {
  readonly dimension: number;
  readonly means: Float32Array;
  readonly titles: Float32Array;
  readonly ratedAt: Float64Array;
  /** All sentences of all articles, and where those of each article begin and the last end. */
  readonly sentences: Float32Array;
  readonly sentenceStarts: Uint32Array;
  readonly chunks: Uint32Array;
  readonly chunkStarts: Uint32Array;
}

/** Articles that are copied before the event loop has its turn: half a millisecond's worth. */
const turnSize = 32;

/** Which fold an article belongs to: always the same one. */
export function foldOf(id: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at += 1) {
    hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193);
  }
  return ((hash ^ (hash >>> 15)) >>> 0) % foldCount;
}

/** Copies rated articles into shared memory, in turns; those of another model are left out. */
export async function packArticles(
  rated: Iterable<RatedArticle> | AsyncIterable<RatedArticle>,
  model: ModelName,
): Promise<PackedArticles> {
  const { dimension } = model;
  const articles: RatedArticle[] = [];
  for await (const article of rated) {
    if (isSameModel(article.document.model, model)) articles.push(article);
  }
  const packed = emptyPack(articles, dimension);
  const sources = new Map<string, number>();
  for (const [row, article] of articles.entries()) {
    if (row % turnSize === turnSize - 1) await new Promise<void>((resolve) => nextTurn(resolve));
    const { id, source, document, publishedAt, ratedAt, score } = article;
    if (!sources.has(source)) sources.set(source, sources.size);
    packed.means.set(document.mean, row * dimension);
    packed.titles.set(document.title, row * dimension);
    packed.scores[row] = score;
    packed.sources[row] = sources.get(source) as number;
    packed.folds[row] = foldOf(id);
    packed.lengths[row] = lengthFeature(document.words);
    packed.ages[row] = ageFeature(publishedAt, ratedAt);
    packed.ratedAt[row] = ratedAt;
    packed.sentences.set(document.sentences, (packed.sentenceStarts[row] as number) * dimension);
    packed.chunks.set(document.chunks, packed.chunkStarts[row]);
  }
  return packed;
}

/** The sentences of one article. */
export function networkInput(packed: PackedArticles, row: number): NetworkInput {
  const { dimension, sentences, sentenceStarts, chunks, chunkStarts } = packed;
  const [from, to] = [sentenceStarts[row] as number, sentenceStarts[row + 1] as number];
  return {
    sentences: sentences.subarray(from * dimension, to * dimension),
    chunks: chunks.subarray(chunkStarts[row], chunkStarts[row + 1]),
  };
}

function emptyPack(articles: readonly RatedArticle[], dimension: number): PackedArticles {
  const count = articles.length;
  const integers = (length: number) => new Uint32Array(new SharedArrayBuffer(4 * length));
  const starts = (length: (article: RatedArticle) => number) => {
    const all = integers(count + 1);
    for (const [row, article] of articles.entries())
      all[row + 1] = (all[row] as number) + length(article);
    return all;
  };
  const sentenceStarts = starts(({ document }) => document.sentences.length / dimension);
  const chunkStarts = starts(({ document }) => document.chunks.length);
  return {
    dimension,
    means: sharedFloats(count * dimension),
    titles: sharedFloats(count * dimension),
    scores: sharedFloats(count),
    sources: integers(count),
    folds: new Uint8Array(new SharedArrayBuffer(count)),
    lengths: sharedFloats(count),
    ages: sharedFloats(count),
    ratedAt: new Float64Array(new SharedArrayBuffer(8 * count)),
    sentences: sharedFloats((sentenceStarts[count] as number) * dimension),
    sentenceStarts,
    chunks: integers(chunkStarts[count] as number),
    chunkStarts,
  };
}
