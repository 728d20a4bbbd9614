import { nextTurn } from 'spillway/internal';
import { isSameModel, type ModelName, type RatedArticle } from './document.ts';
import { ageFeature, lengthFeature } from './features.ts';
import { foldCount, type RatedColumns, sharedFloats } from './rated-rows.ts';

/** Rated articles in shared memory, so that a thread can learn from them without a copy. */
export interface PackedArticles extends RatedColumns {
  readonly dimension: number;
  readonly means: Float32Array;
  readonly titles: Float32Array;
  readonly ratedAt: Float64Array;
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
  const packed = emptyPack(articles.length, dimension);
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
  }
  return packed;
}

function emptyPack(count: number, dimension: number): PackedArticles {
  return {
    dimension,
    means: sharedFloats(count * dimension),
    titles: sharedFloats(count * dimension),
    scores: sharedFloats(count),
    sources: new Uint32Array(new SharedArrayBuffer(4 * count)),
    folds: new Uint8Array(new SharedArrayBuffer(count)),
    lengths: sharedFloats(count),
    ages: sharedFloats(count),
    ratedAt: new Float64Array(new SharedArrayBuffer(8 * count)),
  };
}
