/** The words of a title: letters and digits, in small letters. */
export function wordsOf(text: string): string[] {
  return (
    text
      .normalize('NFKC')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}

/** How much of a title is looked at. */
const titleLengthMax = 300;

/** All pairs of neighbouring characters of a title as numbers, sorted. */
export type Bigrams = Uint32Array;

/** The bigrams of a title's words; none if it has no letter. */
export function bigramsOf(title: string): Bigrams {
  const words = wordsOf(title.slice(0, titleLengthMax));
  if (words.length === 0) return new Uint32Array();
  const text = ` ${words.join(' ')} `;
  const pair = (_: unknown, at: number) => text.charCodeAt(at) * 65_536 + text.charCodeAt(at + 1);
  return Uint32Array.from({ length: text.length - 1 }, pair).sort();
}

/** How alike two titles are, from 0 to 1: the share of bigrams that both have. */
export function diceOf(one: Bigrams, other: Bigrams): number {
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

/** Finds what has a title that shares a word with another. */
export class TitleIndex<T> {
  readonly #byWord = new Map<string, T[]>();

  add(title: string, item: T): void {
    for (const word of keysOf(title)) {
      const items = this.#byWord.get(word) ?? [];
      items.push(item);
      if (items.length > titlesPerWordMax) items.shift();
      this.#byWord.set(word, items);
    }
  }

  /** Those that share most words come first, then those added first. */
  near(title: string): T[] {
    const shared = new Map<T, number>();
    for (const word of keysOf(title)) {
      for (const item of this.#byWord.get(word) ?? []) {
        shared.set(item, (shared.get(item) ?? 0) + 1);
      }
    }
    return [...shared].sort(([, one], [, other]) => other - one).map(([item]) => item);
  }
}

/** What a title is found by; languages without spaces are found by pairs of characters. */
function keysOf(title: string): Set<string> {
  const keys = new Set<string>();
  for (const word of wordsOf(title.slice(0, titleLengthMax))) {
    if (/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u.test(word)) {
      for (let at = 0; at + 2 <= word.length; at += 1) keys.add(word.slice(at, at + 2));
    } else if (word.length >= wordLengthMin) keys.add(word);
  }
  return keys;
}
