/** Most sentences of one article. */
export const sentencesMax = 400;
/** Characters from the start in which sentences are looked for: 400 long sentences. */
const charactersMax = 200_000;
/** Sentences of fewer words say little by themselves and are read with the next one. */
const wordsMin = 3;

const segmenter = new Intl.Segmenter('en', { granularity: 'sentence' });
const cjk = '\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}';
const word = new RegExp(`[${cjk}]|[^\\s${cjk}]+`, 'gu');
/** The segmenter ends a sentence after these; a single capital is an initial. */
const titles = 'Mrs?|Ms|Drs?|Prof|Gen|Sen|Rep|Gov|Capt|Lt|Sgt|St|Jr|Sr|vs|No|Inc|Ltd|Corp|Co';
const initials = '\\p{Lu}|(?:\\p{L}\\.)+\\p{L}';
const abbreviation = new RegExp(`(?:^|[\\s("'])(?:${initials}|${titles})\\.$`, 'u');

/** Counts words; in scripts without spaces each character counts. */
export function countWords(text: string): number {
  let count = 0;
  word.lastIndex = 0;
  while (word.test(text)) count += 1;
  return count;
}

/** Words that make up at least an eighth of an English text, and are rare in other languages. */
const frequent = /\b(?:the|of|and|to|is|that|for|with|was|are|this|from|have|it)\b/gi;
/** The fewest words from which a language can be recognised. */
const languageWordsMin = 12;

/** Tells whether a text may be English, the language that the sentence model knows. */
export function isEnglish(text: string): boolean {
  const start = text.slice(0, 4_000);
  const words = countWords(start);
  const count = start.match(frequent)?.length ?? 0;
  return words < languageWordsMin ? !/[^\P{L}\p{Script=Latin}]/u.test(start) : count > words / 25;
}

/** The sentences of a text, at most `max`: what explanations mean by a sentence's number. */
export function sentencesOf(text: string, max: number = sentencesMax): string[] {
  const found: string[] = [];
  let open = '';
  for (const { segment } of segmenter.segment(text.slice(0, charactersMax))) {
    if (found.length >= max) return found;
    const piece = `${open}${open && ' '}${segment.trim().replace(/\s+/g, ' ')}`;
    const isBreak = /[\n\r\u2029]\s*$/.test(segment);
    const isShort = countWords(piece) < wordsMin || abbreviation.test(piece);
    open = isShort && !isBreak ? piece : '';
    if (open === '' && piece !== '') found.push(piece);
  }
  if (open !== '' && found.length < max) found.push(open);
  return found;
}

/** Sentences and characters that are embedded at once: some 25 ms, whatever their language. */
const groupMax = 4;
const groupCharactersMax = 800;

/** The end of the group of sentences that begins at `from`: at least one of them. */
export function groupEnd(sentences: readonly string[], from: number): number {
  let characters = 0;
  let to = from;
  while (to < sentences.length && to < from + groupMax) {
    characters += (sentences[to] as string).length;
    if (to > from && characters > groupCharactersMax) break;
    to += 1;
  }
  return to;
}
