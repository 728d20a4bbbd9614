import type { ReaderArticle } from './reader-store.ts';
import type { Slices } from './slices.ts';
import { type Bigrams, bigramsOf, diceOf, TitleIndex } from './titles.ts';

/** Two articles further apart in time are never the same story. */
export const duplicateMsMax: number = 3 * 86_400_000;

/** Titles this alike are enough where a vector is missing. */
const diceAlone = 0.88;
/** Pairs that are both this alike in title and in text are the same story, each pair alone. */
const alike: readonly { readonly dice: number; readonly cosine: number }[] = [
  { dice: 0.6, cosine: 0.75 },
  { dice: 0.35, cosine: 0.88 },
];

/** Which group each article is in, by its id: the id of the group's oldest article. */
export type Groups = ReadonlyMap<string, string>;

interface Head {
  readonly article: Compared;
  readonly title: Bigrams;
}

type Compared = Pick<ReaderArticle, 'id' | 'title' | 'publishedAt' | 'vector'>;

/** The cosine of two vectors of length 1. */
export function cosineOf(one: Float32Array, other: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < one.length; at += 1) sum += (one[at] as number) * (other[at] as number);
  return sum;
}

/** Whether two articles tell the same story: titles and texts alike, at most three days apart. */
export function isDuplicate(one: Compared, other: Compared): boolean {
  return isAlike(one, bigramsOf(one.title), other, bigramsOf(other.title));
}

function isAlike(one: Compared, title: Bigrams, other: Compared, otherTitle: Bigrams): boolean {
  if (Math.abs(one.publishedAt - other.publishedAt) > duplicateMsMax) return false;
  const dice = diceOf(title, otherTitle);
  const isComparable = one.vector !== undefined && one.vector.length === other.vector?.length;
  if (!isComparable) return dice >= diceAlone;
  // Most pairs differ in their titles already.
  if (!alike.some((least) => dice >= least.dice)) return false;
  const cosine = cosineOf(one.vector, other.vector as Float32Array);
  return alike.some((least) => dice >= least.dice && cosine >= least.cosine);
}

/**
 * Groups articles that tell the same story. Each is compared with the oldest of a group only, so
 * that a chain of small steps does not join what is not alike; the result does not depend on the
 * order of the list. Only titles that share a word which is not too frequent are compared.
 */
export function* groupDuplicates(articles: readonly Compared[]): Slices<Groups> {
  const groups = new Map<string, string>();
  const heads = new TitleIndex<Head>();
  const byAge = articles.toSorted(
    (one, other) => one.publishedAt - other.publishedAt || (one.id < other.id ? -1 : 1),
  );
  for (const article of byAge) {
    const title = bigramsOf(article.title);
    const near = heads.near(article.title);
    const head = near.find((one) => isAlike(one.article, one.title, article, title))?.article;
    groups.set(article.id, (head ?? article).id);
    if (head === undefined) heads.add(article.title, { article, title });
    yield;
  }
  return groups;
}
