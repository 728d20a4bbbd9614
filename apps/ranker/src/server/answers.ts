import { rankerError } from '../errors.ts';
import type { Explained, Ranked } from '../ranking/article-ranking.ts';
import type { Item } from '../ranking/library.ts';
import type { ItemBody } from './request-schemas.ts';

/** The article that a request is about; throws if it names none or two. */
export function itemOf({ url, text, title }: ItemBody): Item {
  if (url !== undefined && text === undefined) return { url };
  if (text !== undefined && url === undefined) return { text, title };
  throw rankerError('INPUT_INVALID', 'body: either url or text is needed, and not both');
}

/** A score in the form that answers have. */
export function rankAnswer({ article, score, explained }: Ranked): object {
  return {
    url: article.url,
    rank: rounded(score.score),
    source: 'ok',
    id: article.id,
    title: article.title,
    version: score.version,
    support: rounded(score.support),
    ...(explained !== undefined && { explanation: explanationAnswer(explained) }),
  };
}

export function explanationAnswer(explained: Explained): object {
  const { source, nearest, sentences, words, contributions } = explained;
  return {
    nearest: nearest.map(({ similarity, weight, ...one }) => {
      return { ...one, similarity: rounded(similarity), weight: rounded(weight) };
    }),
    sentences: sentences.map(({ text, points }) => ({ text, points: rounded(points) })),
    words: words.map(({ word, points }) => ({ word, points: rounded(points) })),
    source: { ...source, score: rounded(source.score) },
    contributions: contributions.map(({ reason, points }) => {
      return { reason, points: rounded(points) };
    }),
  };
}

/** Rounds to four digits, more than a score is accurate to. */
export function rounded(value: number): number {
  return Math.round(value * 1e4) / 1e4;
}
