/** Words as hashed n-grams: a language needs no dictionary, and a vector has a fixed size. */
export interface Words {
  /** The buckets that the text's n-grams fall into, each once. */
  readonly keys: Uint16Array;
  /** The occurrences of each, from 1 to 255; those in the title and labels count three times. */
  readonly counts: Uint8Array;
}

/** The number of buckets. */
export const bucketCount = 16_384;
/** The most n-grams that are kept of a text; frequent and early ones are kept first. */
export const wordsKept = 128;

/** Characters of a text that are looked at. */
const charactersMax = 20_000;
const titleFactor = 3;
const tagsMax = 16;
/** A word longer than this also counts by its beginning, which most inflections leave alone. */
const stemLength = 5;

/** The scripts that are written without spaces, for a class of characters. */
export const unspaced: string =
  '\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}';
const token = new RegExp(`[${unspaced}]+|[^\\P{L}${unspaced}]+(?:['’][^\\P{L}]+)?|\\p{N}+`, 'gu');
const isUnspaced = new RegExp(`^[${unspaced}]`, 'u');

/** The n-grams of a text: words, beginnings of words, pairs of words in titles. */
export function* ngramsOf(text: string, isTitle: boolean): Generator<string> {
  let before = '';
  for (const [word] of text
    .slice(0, charactersMax)
    .normalize('NFKC')
    .toLowerCase()
    .matchAll(token)) {
    if (isUnspaced.test(word)) {
      for (let at = 0; at + 1 < word.length; at += 1) yield word.slice(at, at + 2);
      before = '';
      continue;
    }
    if (word.length < 2) continue;
    yield word;
    if (word.length > stemLength) yield `${word.slice(0, stemLength)}*`;
    if (isTitle && before !== '') yield `${before} ${word}`;
    before = word;
  }
}

/** The bucket of an n-gram. */
export function bucketOf(ngram: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < ngram.length; at += 1) {
    hash = Math.imul(hash ^ ngram.charCodeAt(at), 0x01000193);
  }
  return (hash ^ (hash >>> 15)) & (bucketCount - 1);
}

/** The labels of an article as n-grams that no text has. */
export function* labelsOf({ author = '', tags = [] }: Labels): Generator<string> {
  if (author.trim() !== '') yield `by ${author.trim().toLowerCase()}`;
  for (const tag of tags.slice(0, tagsMax)) yield `#${tag.trim().toLowerCase()}`;
}

/** The author and the tags of an article, where they are known. */
export interface Labels {
  readonly author?: string | undefined;
  readonly tags?: readonly string[] | undefined;
}

/** Counts the n-grams of an article. */
export function wordsOf(
  article: Labels & { readonly title: string; readonly text: string },
): Words {
  const { title, text } = article;
  const counts = new Map<number, number>();
  const add = (ngrams: Iterable<string>, by: number) => {
    for (const ngram of ngrams) {
      const bucket = bucketOf(ngram);
      counts.set(bucket, (counts.get(bucket) ?? 0) + by);
    }
  };
  add(ngramsOf(title, true), titleFactor);
  add(labelsOf(article), titleFactor);
  add(ngramsOf(text, false), 1);
  // The sort is stable: of equally frequent ones the earlier ones stay.
  const kept = [...counts].sort(([, one], [, other]) => other - one).slice(0, wordsKept);
  return {
    keys: Uint16Array.from(kept, ([bucket]) => bucket),
    counts: Uint8Array.from(kept, ([, count]) => Math.min(255, count)),
  };
}

export const noWords: Words = { keys: new Uint16Array(0), counts: new Uint8Array(0) };
