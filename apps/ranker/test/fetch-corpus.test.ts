import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { brotliDecompressSync } from 'node:zlib';
import { html, openFetcher, openSite } from './fetch-scene.ts';

/** Real pages of newspapers and weblogs with the beginning of their stories, or all of them. */
const pages = join(import.meta.dirname, 'pages', 'pages.json.br');
const checksum = 'cb8a2bbb2b70ca328ac0b26475c82b392c4abb1fe9cb32d030bccca9026c7f18';

interface StoredPage {
  readonly name: string;
  /** The beginning of its story, or all of it. */
  readonly text: string;
  /** The bytes of the page, one a character: some pages are in no character set at all. */
  readonly html: string;
}

interface Sample {
  readonly name: string;
  readonly page: Buffer;
  /** What its story says, in words. */
  readonly story: readonly string[];
  readonly isWhole: boolean;
}

/** A shorter text is the beginning of its story. */
const wholeMin = 1_000;

function samples(): Sample[] {
  const packed = readFileSync(pages);
  assert.equal(createHash('sha256').update(packed).digest('hex'), checksum);
  const stored: StoredPage[] = JSON.parse(brotliDecompressSync(packed).toString());
  return stored.map(({ name, text, html }) => ({
    name,
    page: Buffer.from(html, 'latin1'),
    story: wordsOf(text),
    isWhole: text.length >= wholeMin,
  }));
}

const wordsOf = (text: string): string[] =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? [];

/** How much two texts have in common, by runs of four words: 1 if they are the same. */
function likeness(one: readonly string[], other: readonly string[]): number {
  const runs = (words: readonly string[]) =>
    new Set(words.slice(3).map((_, at) => words.slice(at, at + 4).join(' ')));
  const own = runs(one);
  const wanted = runs(other);
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
