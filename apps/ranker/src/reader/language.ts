/** Words that every English text is full of. */
const common: ReadonlySet<string> = new Set(
  (
    'the of and to a in is that for it was with on as are be at by this from or an have not his ' +
    'they their has were but which had will would been more who when can there how what you we'
  ).split(' '),
);
/** The share of such words from which on a text is English: German has up to 0.08, English 0.3. */
const shareMin = 0.15;
const wordsMin = 12;
const charsMax = 4_000;

/** True if a text is in English, or too short to tell and in Latin letters. */
export function isEnglish(text: string): boolean {
  const sample = text.slice(0, charsMax).toLowerCase();
  const letters = sample.match(/\p{L}/gu)?.length ?? 0;
  const latin = sample.match(/\p{Script=Latin}/gu)?.length ?? 0;
  if (latin < letters / 2) return false;
  const words = sample.match(/[\p{L}']+/gu) ?? [];
  if (words.length < wordsMin) return true;
  return words.filter((word) => common.has(word)).length >= shareMin * words.length;
}
