import { dot } from '../learn/document.ts';
import type { ReaderArticle } from '../ranking/reader.ts';
import type { Slices } from './slices.ts';

/** Two articles further apart in time are never the same story. */
export const duplicateMsMax: number = 3 * 86_400_000;

/** Titles this alike are enough where a vector is missing. */
const diceAlone = 0.88;
/** Pairs that are both this alike in title and in text are the same story, each pair alone. */
const alike: readonly { readonly dice: number; readonly cosine: number }[] = [
  { dice: 0.6, cosine: 0.75 },
  { dice: 0.35, cosine: 0.88 },
];

/** The group of each article, by its id: the id of the group's oldest article. */
export type Groups = ReadonlyMap<string, string>;

type Compared = Pick<ReaderArticle, 'id' | 'title' | 'publishedAt' | 'vector'>;

/** An article with the words of its title, and with their bigrams once they are needed. */
class Titled {
  readonly article: Compared;
  readonly words: readonly string[];
  #bigrams: Bigrams | undefined;

  constructor(article: Compared) {
    this.article = article;
    this.words = wordsOf(article.title.slice(0, titleLengthMax));
  }

  get bigrams(): Bigrams {
    this.#bigrams ??= bigramsOf(this.words);
    return this.#bigrams;
  }
}

/** True if two articles tell the same story: titles and texts alike, at most three days apart. */
function isAlike(one: Titled, other: Titled): boolean {
  const { publishedAt, vector } = one.article;
  if (Math.abs(publishedAt - other.article.publishedAt) > duplicateMsMax) return false;
  const dice = diceOf(one.bigrams, other.bigrams);
  const isComparable = vector !== undefined && vector.length === other.article.vector?.length;
  if (!isComparable) return dice >= diceAlone;
  // Most pairs differ in their titles already.
  if (!alike.some((least) => dice >= least.dice)) return false;
  const cosine = dot(vector, other.article.vector as Float32Array);
  return alike.some((least) => dice >= least.dice && cosine >= least.cosine);
}

/**
 * Groups articles that tell the same story. Each is compared with the oldest of a group only, so
 * that a chain of small steps does not join what is not alike; the result does not depend on the
 * order of the list. Only titles that share a word which is not too frequent are compared.
 */
export function* groupDuplicates(articles: readonly Compared[]): Slices<Groups> {
  const groups = new Map<string, string>();
  const heads = new TitleIndex();
  const byAge = articles.toSorted(
    (one, other) => one.publishedAt - other.publishedAt || (one.id < other.id ? -1 : 1),
  );
  for (const article of byAge) {
    const titled = new Titled(article);
    const keys = keysOf(titled.words);
    const head = heads.near(keys).find((one) => isAlike(one, titled))?.article;
    groups.set(article.id, (head ?? article).id);
    if (head === undefined) heads.add(titled, keys);
    yield;
  }
  return groups;
}

/** The words of a title: letters and digits, in small letters. */
export function wordsOf(text: string): string[] {
  return (
    text
      .normalize('NFKC')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}

/** Characters of a title that are looked at. */
const titleLengthMax = 300;

/** All pairs of neighbouring characters of a title as numbers, sorted. */
type Bigrams = Uint32Array;

/** The bigrams of a title's words; none if it has no letter. */
function bigramsOf(words: readonly string[]): Bigrams {
  if (words.length === 0) return new Uint32Array();
  const text = ` ${words.join(' ')} `;
  const bigrams = new Uint32Array(text.length - 1);
  for (let at = 0; at < bigrams.length; at += 1) {
    bigrams[at] = text.charCodeAt(at) * 65_536 + text.charCodeAt(at + 1);
  }
  return bigrams.sort();
}

/** The likeness of two titles, from 0 to 1: the share of bigrams that both have. */
function diceOf(one: Bigrams, other: Bigrams): number {
  let common = 0;
  for (let left = 0, right = 0; left < one.length && right < other.length; ) {
    const difference = (one[left] as number) - (other[right] as number);
    if (difference === 0) common += 1;
    if (difference <= 0) left += 1;
    if (difference >= 0) right += 1;
  }
  return common === 0 ? 0 : (2 * common) / (one.length + other.length);
}

/** Words of fewer letters are in too many titles to say anything. */
const wordLengthMin = 3;
/** A word that more titles have is too frequent to find one by; only the newest are kept. */
const titlesPerWordMax = 24;

/** Finds articles whose title shares a word with another. */
class TitleIndex {
  readonly #byWord = new Map<string, Titled[]>();

  /** Articles by shared words: most words first, then those added first. */
  near(keys: ReadonlySet<string>): Titled[] {
    const shared = new Map<Titled, number>();
    for (const key of keys) {
      for (const one of this.#byWord.get(key) ?? []) shared.set(one, (shared.get(one) ?? 0) + 1);
    }
    return [...shared].sort(([, one], [, other]) => other - one).map(([titled]) => titled);
  }

  add(titled: Titled, keys: ReadonlySet<string>): void {
    for (const key of keys) {
      const known = this.#byWord.get(key) ?? [];
      known.push(titled);
      if (known.length > titlesPerWordMax) known.shift();
      this.#byWord.set(key, known);
    }
  }
}

/** The index keys of a title; pairs of characters in languages without spaces. */
function keysOf(words: readonly string[]): Set<string> {
  const keys = new Set<string>();
  for (const word of words) {
    if (/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u.test(word)) {
      for (let at = 0; at + 2 <= word.length; at += 1) keys.add(word.slice(at, at + 2));
    } else if (word.length >= wordLengthMin) keys.add(word);
  }
  return keys;
}
