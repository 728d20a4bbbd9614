import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatOpml, type OpmlFeed, parseOpml } from '../src/feeds/opml.ts';
import { openFetcher } from './fetch-scene.ts';

const list = `<?xml version="1.0"?><opml version="2.0"><head><title>Mine</title></head><body>
  <outline text="News &amp; more" title="News &amp; more">
    <outline type="rss" text="Harbour"
      xmlUrl="https://harbour.example/feed?a=1&amp;b=2" htmlUrl="https://harbour.example/"/>
    <outline text="Deep">
      <outline title="Old" text="x" xmlUrl="feed:https://old.example/rss"/></outline>
  </outline>
  <outline xmlUrl="https://plain.example/feed"/>
  <outline text="Again" xmlUrl="https://plain.example/feed"/>
  <outline text="Wrong" xmlUrl="javascript:alert(1)"/><outline text="Nothing"/></body></opml>`;

const feeds: OpmlFeed[] = [
  {
    ...{ url: 'https://harbour.example/feed?a=1&b=2', title: 'Harbour' },
    ...{ siteUrl: 'https://harbour.example/', folders: ['News & more'] },
  },
  {
    ...{ url: 'https://old.example/rss', title: 'Old', siteUrl: undefined },
    folders: ['News & more', 'Deep'],
  },
  {
    ...{ url: 'https://plain.example/feed', title: 'https://plain.example/feed' },
    ...{ siteUrl: undefined, folders: [] },
  },
];

/** The feeds of a list without what other readers wrote beside them. */
const feedsIn = (text: string): OpmlFeed[] =>
  parseOpml(text).feeds.map(({ outline: _outline, ...feed }) => feed);

describe('a list of feeds', () => {
  it('is read with its folders, each feed once, and says what was left out', () => {
    assert.deepEqual(feedsIn(list), feeds);
    assert.equal(parseOpml(list).leftOut, 2);
  });

  it('is written so that it reads the same', () => {
    const nasty = { ...feeds[0], title: 'a "b" <c> & \'d\' \uD800\0\n', folders: ['x "y"', '<z>'] };
    const all = [...feeds, { ...nasty, url: 'https://nasty.example/' } as OpmlFeed];
    const text = formatOpml('My & "feeds"', all);
    assert.match(text, /<title>My &amp; &quot;feeds&quot;<\/title>/);
    const byUrl = (a: OpmlFeed, b: OpmlFeed) => a.url.localeCompare(b.url);
    const read = feedsIn(text).sort(byUrl);
    const clean = { ...nasty, url: 'https://nasty.example/', title: 'a "b" <c> & \'d\' \uFFFD' };
    assert.deepEqual(read, [...feeds, clean as OpmlFeed].sort(byUrl));
    assert.deepEqual(parseOpml(formatOpml('', [])), { feeds: [], leftOut: 0 });
  });

  it('is refused by name when it is broken, on a thread too', async () => {
    await using fetcher = await openFetcher();
    const outline = (n: number) => `<outline xmlUrl="https://a.example/${n}"/>`;
    const many = Array.from({ length: 1_001 }, (_, n) => outline(n)).join('');
    const broken = [
      ...['', 'hello', '<opml>', '<opml/>', '<opml><head/></opml>', list.slice(0, 300)],
      ...['<rss><channel/></rss>', '{"a":1}', `<opml><body>${many}</body></opml>`],
      `<opml><body>${'<outline text="x">'.repeat(500)}${'</outline>'.repeat(500)}</body></opml>`,
      ' '.repeat(3_000_000),
    ];
    for (const text of broken) {
      const code = { code: 'OPML_BROKEN', status: 400, retryable: false };
      assert.throws(() => parseOpml(text), code, text.slice(0, 50));
      await assert.rejects(fetcher.parseOpml(text), code);
    }
    const tooMany = { message: 'a list may have 1000 feeds, not 1001' };
    await assert.rejects(fetcher.parseOpml(`<opml><body>${many}</body></opml>`), tooMany);
    await assert.rejects(fetcher.parseOpml('hello'), {
      message: /^not a list of feeds: (?!not a)/,
    });
    assert.deepEqual(await fetcher.parseOpml(list), parseOpml(list));
  });
});

it('takes addresses that begin with feed://', () => {
  const [feed] = feedsIn('<opml><body><outline xmlUrl="feed://example.org/rss"/></body></opml>');
  assert.equal(feed?.url, 'http://example.org/rss');
});
