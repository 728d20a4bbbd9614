// Slow: parses very large pages.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Article as FetchedArticle } from '../src/fetching/article.ts';
import type { Fetcher } from '../src/fetching/fetcher.ts';
import { UnavailableError } from '../src/fetching/unavailable.ts';
import { html, openFetcher, openSite, type Site, sentence, story } from './fetch-scene.ts';
import { sitePages } from './site-pages.ts';

/** All runs of four words within a paragraph. */
function runs(paragraphs: readonly string[]): Set<string> {
  const words = paragraphs.map((one) => one.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
  const fours = words.map((all) => all.slice(3).map((_, at) => all.slice(at, at + 4).join(' ')));
  return new Set(fours.flat());
}

describe('the text of a page', () => {
  let site: Site;
  let fetcher: Fetcher;
  before(async () => {
    site = await openSite();
    fetcher = await openFetcher();
  });
  after(async () => {
    await fetcher.close();
    await site[Symbol.asyncDispose]();
  });

  const fetched = async (body: string, path = '/2024/story'): Promise<FetchedArticle | string> => {
    site.pages.set(path, html(body));
    const answer = await fetcher.fetchArticle(site.url + path).catch((error) => {
      if (error instanceof UnavailableError) return error.reason;
      throw error;
    });
    return typeof answer === 'object' && answer.kind === 'article' ? answer.article : `${answer}`;
  };
  const article = async (body: string, path?: string): Promise<FetchedArticle> => {
    const found = await fetched(body, path);
    assert.ok(typeof found === 'object', `${found}`);
    return found;
  };

  for (const [name, make] of Object.entries(sitePages)) {
    it(`is told from all around it on ${name}`, async () => {
      const { page, paragraphs, title } = make();
      const found = await article(page);
      const [said, wanted] = [runs(found.text.split('\n\n')), runs(paragraphs)];
      const both = said.intersection(wanted).size;
      const [recall, precision] = [both / wanted.size, both / said.size];
      assert.ok(recall >= 0.97, `recall ${recall}: ${found.text}`);
      assert.ok(precision >= 0.95, `precision ${precision}: ${found.text}`);
      assert.equal(found.title, title);
    });
  }

  it('comes from structured data where the page shows less of it', async () => {
    const { text } = story(8);
    const data = JSON.stringify({
      '@context': 'https://schema.org',
      '@graph': [
        { '@type': 'WebSite', name: 'Site' },
        {
          '@type': ['NewsArticle', 'Thing'],
          headline: 'From data',
          articleBody: text.join('\n\n'),
          datePublished: '2024-03-04T05:06:07+01:00',
          author: [{ '@type': 'Person', name: 'Ann Author' }, { name: 'Bob Writer' }],
          inLanguage: 'en-GB',
        },
      ],
    });
    const found = await article(
      `<html><head><script type="application/ld+json">${data}</script></head>
       <body><p>${text[0]}</p><button>Read on</button></body></html>`,
    );
    assert.equal(found.how, 'structured');
    assert.equal(found.text, text.join('\n\n'));
    assert.equal(found.author, 'Ann Author, Bob Writer');
    assert.equal(found.published, Date.UTC(2024, 2, 4, 4, 6, 7));
  });

  it('is found by its length and its few links where nothing else helps', async () => {
    const { text } = story(4);
    // Deeper than any real page, which would take the parser by the square of it.
    const deep = 3_000;
    const found = await article(
      `<nav>${'<a href="/">Section of the site, which is long. </a>'.repeat(20)}</nav>
       ${'<div>'.repeat(deep)}${text.map((one) => `<span></span>${one}<br>`).join('')}
       ${'</div>'.repeat(deep)}<footer>${sentence(99)}</footer>`,
    );
    assert.equal(found.text, text.join('\n\n'));
  });

  it('is missing from a page that is short, a challenge or for subscribers', async () => {
    const { text } = story(1);
    const paid = '{"@type":"NewsArticle","headline":"x","isAccessibleForFree":"False"}';
    const pages = {
      '': 'too_short',
      '<html></html>': 'too_short',
      '<p>Hello, world.</p>': 'too_short',
      '<title>Just a moment...</title><p>Checking your browser before you continue.</p>': 'blocked',
      [`<script type="application/ld+json">${paid}</script><p>${text[0]}</p>`]: 'paywall',
      [`<script>${'var words = "never text";'.repeat(50)}</script><style>p{}</style>`]: 'too_short',
    };
    for (const [page, reason] of Object.entries(pages))
      assert.equal(await fetched(page), reason, page);
  });

  it('has the address that the page claims, if the claim is to be believed', async () => {
    const { markup } = story(4);
    const claim = async (href: string, path?: string) =>
      (await article(`<head><link rel="canonical" href="${href}"></head>${markup}`, path)).url;
    const own = `${site.url}/2024/story`;
    assert.equal(await claim('/real?utm_medium=x&amp;b=2'), `${site.url}/real?b=2`);
    assert.equal(await claim('https://elsewhere.example/stolen'), own);
    assert.equal(await claim('/'), own);
    assert.equal(await claim('javascript:alert(1)'), own);
    assert.equal(await claim('http://[broken'), own);
    assert.equal(await claim('', '/2024/story/amp/'), own);
  });

  it('comes with a date in whatever way the page tells it', async () => {
    const { markup } = story(4);
    const published = async (head: string) =>
      (await article(`<head>${head}</head>${markup}`)).published;
    const day = Date.UTC(2024, 4, 6, 7, 8, 9);
    const meta = (name: string, value: string) => `<meta ${name} content="${value}">`;
    const ways = [
      meta('property="article:published_time"', '2024-05-06T09:08:09+02:00'),
      meta("name='date'", '2024-05-06 07:08:09'),
      meta('name="pubdate"', 'Mon, 06 May 2024 03:08:09 EDT'),
      meta('itemprop=datePublished', '20240506T070809Z'),
      '<time class=x datetime="2024-05-06T07:08:09.123Z">May 6</time>',
    ];
    for (const way of ways) assert.equal(await published(way), day, way);
    assert.equal(await published(meta('name="date"', 'last Tuesday')), undefined);
  });

  it('survives pages that are made to hurt', async () => {
    const nasty = [
      '<'.repeat(20_000),
      '<a '.repeat(10_000),
      '<!--'.repeat(10_000),
      `<p>${'&amp;'.repeat(10_000)}`,
      `${'<b>'.repeat(100_000)}${sentence(1).repeat(20)}`,
      `<table>${'<tr><td>'.repeat(3_000)}${sentence(1).repeat(20)}`,
      `<div title="${'x'.repeat(1_000_000)}">${story(4).markup}`,
      `<script type="application/ld+json">${'['.repeat(100_000)}</script>${story(4).markup}`,
      '<script type="application/ld+json">{"@type":"Article","articleBody":5,"author":[]}</script>',
      // More elements than any article has: 4.6 MB of them took 22 s.
      '<p>a few short words here</p>'.repeat(140_000),
      `<div>${'<span class="share">of the</span><b>story</b>'.repeat(14_000)}</div>`,
      `<title>\uD800</title><p>${'\uDC00 lone halves of characters. '.repeat(50)}</p>`,
    ];
    for (const page of nasty) {
      assert.ok(await fetched(page), page.slice(0, 50));
      // The thread that read it is as good as before.
      const good = await article(`<article>${story(4).markup}</article>`, '/good');
      assert.equal(good.text, story(4).text.join('\n\n'));
    }
    assert.equal(fetcher.stats.pool.lost, 0);
  });

  it('is refused at once where there is too much around it', async () => {
    const words = `<p>${'a few words, '.repeat(6)}</p>`;
    const many = (count: number, of: (at: number) => string) =>
      Array.from({ length: count }, (_, at) => of(at)).join('');
    const huge = [
      many(140_000, () => '<p>a few short words</p>'),
      many(200_000, () => '<div>'),
      `<p${many(200_000, (at) => ` a${at}="x"`)}>${words}`,
      `<p${many(200_000, (at) => ` a${at}`)}>${words}`,
      `<p ${many(500_000, () => '=" ')}>${words}`,
    ];
    for (const page of huge) assert.equal(await fetched(page), 'too_large', page.slice(0, 50));
    // Neither long values nor many elements in all are too much.
    const long = `<div title="${'of the story '.repeat(20_000)}">${story(4).markup}</div>`;
    assert.equal((await article(long)).text, story(4).text.join('\n\n'));
  });

  it('is read by a new thread once a large page has made an old one hold much memory', async () => {
    await using own = await openFetcher();
    const read = async (paragraphs: number) => {
      site.pages.set('/large', html(`<article>${story(paragraphs).markup}</article>`));
      assert.equal((await own.fetchArticle(`${site.url}/large`)).kind, 'article');
    };
    await read(13_000);
    // A thread looks at its memory once a second, between its pages.
    while (own.stats.pool.recycled === 0) await read(4);
    assert.equal(own.stats.pool.recycled, 1);
  });
});
