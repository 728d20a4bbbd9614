import { existsSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { UsageError } from 'spillway-cli';

/** An address as it is, a file's text, or standard input if it is called `-`. */
export function itemOf(word: string): { readonly url: string } | { text: string; title: string } {
  if (/^(https?:\/\/|sample:|text:)/i.test(word)) return { url: word };
  const isInput = word === '-';
  if (!isInput && !existsSync(word)) {
    throw new UsageError(`${word}: is neither an address like https://example.org/a nor a file`);
  }
  const text = readFileSync(isInput ? 0 : word, 'utf8');
  if (text.trim() === '') throw new UsageError(`${word}: there is no text in it`);
  return { text, title: isInput ? '' : titleOf(text, word) };
}

/** A first line that stands alone is a title. */
function titleOf(text: string, path: string): string {
  const [, title] = /^\s*(\S[^\n]{0,200})\n\s*\n/.exec(text) ?? [];
  return title?.trim() ?? basename(path);
}

export function scoreOf(word: string): number {
  const score = Number(word);
  if (word.trim() === '' || !(score >= 1 && score <= 10)) {
    throw new UsageError(`score: must be a number from 1 to 10, got ${word}`);
  }
  return score;
}
