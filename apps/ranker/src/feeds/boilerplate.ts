import { sentencesOf } from '../learn/sentences.ts';

/** A sentence is boilerplate if at least this many entries have it, and this share of them. */
const entriesMin = 3;
const shareMin = 0.2;
/** Sentences of an entry that are looked at. */
const sentencesMax = 40;

/** The texts of a feed's entries without sentences that many of them have. */
export function withoutBoilerplate(texts: readonly string[]): string[] {
  const seen = new Map<string, number>();
  const split = texts.map((text) => sentencesOf(text, sentencesMax));
  for (const sentences of split) {
    for (const key of new Set(sentences.map(keyOf))) seen.set(key, (seen.get(key) ?? 0) + 1);
  }
  const least = Math.max(entriesMin, shareMin * texts.length);
  return texts.map((text, at) => {
    const sentences = split[at] as string[];
    const own = sentences.filter((sentence) => (seen.get(keyOf(sentence)) ?? 0) < least);
    if (own.length === sentences.length) return text;
    const isWhole = sentences.length < sentencesMax;
    return isWhole ? own.join(' ') : text;
  });
}

/** Replaces the parts of a sentence that differ from entry to entry: addresses and numbers. */
function keyOf(sentence: string): string {
  return sentence
    .toLowerCase()
    .replaceAll(/https?:\S+/g, 'u')
    .replaceAll(/[\d.,]+/g, '0')
    .trim();
}
