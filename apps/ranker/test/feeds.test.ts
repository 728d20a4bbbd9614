import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { Feed, FeedAnswer } from '../src/feeds/feed.ts';
import { parseFeed } from '../src/feeds/parse-feed.ts';
import type { Fetcher } from '../src/fetching/fetcher.ts';
import { UnavailableError } from '../src/fetching/unavailable.ts';
import { html, openFetcher, openSite, refusalOf, type Site } from './fetch-scene.ts';

const may = Date.UTC(2024, 4, 6, 7, 8, 9);

/** The processor time that this thread needs, whatever else the machine has to do. */
function cpuMsOf(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

const rss2 = `<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:content="c" xmlns:dc="d" xmlns:atom="a" xmlns:media="m"><channel>
  <title>Harbour &amp;amp; Sea</title><link>https://harbour.example/</link>
  <atom:link rel="self" href="https://harbour.example/feed"/><language>en_GB</language>
  <item><title><![CDATA[<b>Cranes</b> &amp; ferries: 1 < 2]]></title>
    <link>/2024/cranes?a=1&amp;b=2</link><guid isPermaLink="false">tag-1</guid>
    <pubDate>Mon, 06 May 2024 09:08:09 +0200</pubDate><dc:creator>Ann</dc:creator>
    <media:content url="x"><media:title>Not this</media:title></media:content>
    <description>Short</description>
    <content:encoded><![CDATA[
      <p>First &ldquo;words&rdquo;.</p><script>no()</script><p>Second</p>]]></content:encoded>
  </item>
  <item><guid>https://harbour.example/by-guid</guid>
    <description>&lt;p&gt;Only &amp;amp; text&lt;/p&gt;</description></item>
  <item><title>Twice</title><link>https://harbour.example/twice</link></item>
  <item><title>Twice again</title><link>https://harbour.example/twice</link></item>
  <item><title>Bad link</title><link>javascript:alert(1)</link></item>
  <item></item>
</channel></rss>`;

const rss1 = `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
  xmlns="http://purl.org/rss/1.0/" xmlns:dc="d"><channel rdf:about="https://old.example/">
  <title>Old</title><link>https://old.example/</link></channel>
  <item rdf:about="https://old.example/1"><title>One</title><link>https://old.example/1</link>
  <dc:date>2024-05-06T07:08:09Z</dc:date></item></rdf:RDF>`;

const atom = `<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="de"
  xml:base="https://atom.example/blog/">
  <title type="html">A &amp;lt;b&amp;gt; &lt;i&gt;title&lt;/i&gt;</title>
  <link rel="self" href="feed"/><link href="."/>
  <author><name>Everyone</name></author>
  <entry><id>urn:1</id><title>Plain &lt;b&gt; stays</title><link rel="enclosure" href="x.mp3"/>
    <link rel="alternate" type="text/html" href="one"/><updated>2024-05-06T07:08:09Z</updated>
    <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">
    <p>In <em>order</em> here.</p><p>Two</p></div></content></entry>
  <entry><id>urn:2</id><title type="xhtml"><div>Marked <b>up</b> title</div></title>
    <link href="https://other.example/two"/><published>2024-05-06T03:08:09-04:00</published>
    <author><name>Bob</name></author><summary>Short</summary></entry></feed>`;

const json = {
  version: 'https://jsonfeed.org/version/1.1',
  ...{ title: 'JSON', home_page_url: 'https://json.example/', language: 'fr' },
  authors: [{ name: 'Jason' }],
  items: [
    { id: 7, url: 'https://json.example/7', title: 'A & <b>', content_html: '<p>x</p><p>y</p>' },
    {
      id: 'b',
      external_url: 'https://else.example/',
      content_text: 'Words only',
      date_published: '2024-05-06T07:08:09Z',
    },
    null,
  ],
};

describe('a feed', () => {
  let site: Site;
  let fetcher: Fetcher;
  before(async () => {
    site = await openSite();
    fetcher = await openFetcher({ bytesMax: 1_048_576 });
  });
  after(async () => {
    await fetcher.close();
    await site[Symbol.asyncDispose]();
  });

  const answer = (body: string | Uint8Array, type = 'application/xml'): Promise<FeedAnswer> => {
    site.pages.set('/feed', html(body, type));
    return fetcher.fetchFeed(`${site.url}/feed`);
  };
  const feed = async (body: string | Uint8Array, type?: string): Promise<Feed> => {
    const found = await answer(body, type);
    assert.ok(found.kind === 'feed', JSON.stringify(found));
    return found.feed;
  };
  const reason = async (body: string | Uint8Array, type?: string) => {
    const found = await answer(body, type).catch((error) => error as UnavailableError);
    return found instanceof UnavailableError ? found.reason : found.kind;
  };

  it('may be RSS 2.0', async () => {
    const { items, ...about } = await feed(rss2);
    assert.deepEqual(about, {
      url: `${site.url}/feed`,
      ...{ title: 'Harbour & Sea', siteUrl: 'https://harbour.example/' },
    });
    assert.deepEqual(items[0], {
      id: 'tag-1',
      url: 'https://harbour.example/2024/cranes?a=1&b=2',
      ...{ title: 'Cranes & ferries: 1 < 2', text: 'First “words”.\n\nSecond' },
      ...{ author: 'Ann', published: may },
    });
    assert.deepEqual(
      items.slice(1).map(({ url, title }) => [url, title]),
      [
        ['https://harbour.example/by-guid', 'Only & text'],
        ['https://harbour.example/twice', 'Twice'],
        [undefined, 'Bad link'],
      ],
    );
  });

  it('may be RSS 1.0, whose entries are beside the channel', async () => {
    const { title, items } = await feed(rss1, 'application/rdf+xml');
    assert.equal(title, 'Old');
    const url = 'https://old.example/1';
    const rest = { text: '', author: undefined, published: may };
    assert.deepEqual(items, [{ id: url, url, title: 'One', ...rest }]);
  });

  it('may be Atom, with text, markup and quoted markup', async () => {
    const { items, ...about } = await feed(atom, 'application/atom+xml');
    assert.deepEqual([about.title, about.siteUrl], ['A <b> title', 'https://atom.example/blog/']);
    assert.deepEqual(items, [
      {
        ...{ id: 'urn:1', url: 'https://atom.example/blog/one', title: 'Plain <b> stays' },
        ...{ text: 'In order here.\n\nTwo', author: 'Everyone', published: may },
      },
      {
        ...{ id: 'urn:2', url: 'https://other.example/two', title: 'Marked up title' },
        ...{ text: 'Short', author: 'Bob', published: may },
      },
    ]);
  });

  it('may be JSON', async () => {
    const { items, ...about } = await feed(JSON.stringify(json), 'application/feed+json');
    assert.deepEqual([about.title, about.siteUrl], ['JSON', 'https://json.example/']);
    assert.deepEqual(items, [
      {
        ...{ id: '7', url: 'https://json.example/7', title: 'A & <b>', text: 'x\n\ny' },
        ...{ author: 'Jason', published: undefined },
      },
      {
        ...{ id: 'b', url: 'https://else.example/', title: 'Words only', text: 'Words only' },
        ...{ author: 'Jason', published: may },
      },
    ]);
  });

  it('may be in any encoding, wrongly labelled, with blanks before its first line', async () => {
    const xml = (label: string) =>
      `<?xml version="1.0" encoding="${label}"?>
       <rss><channel><title>Caf\u00E9</title></channel></rss>`;
    assert.equal((await feed(Buffer.from(xml('iso-8859-1'), 'latin1'))).title, 'Café');
    assert.equal((await feed(Buffer.from(xml('iso-8859-1')))).title, 'Café');
    assert.equal((await feed(Buffer.from(`\uFEFF${xml('utf-16')}`, 'utf16le'))).title, 'Café');
    assert.equal((await feed(`\n  ${xml('utf-8')}`, 'text/plain')).title, 'Café');
    assert.equal((await feed(`\uFEFF${xml('utf-8')}`, '')).title, 'Café');
  });

  it('has dates of all usual forms', async () => {
    const day = Date.UTC(2024, 4, 6);
    const dates: Readonly<Record<string, number | undefined>> = {
      'Mon, 06 May 2024 07:08:09 GMT': may,
      'Mon, 6 May 2024 07:08:09 Z': may,
      '06 May 24 07:08:09 UT': may,
      'Monday, 06-May-24 07:08:09 UTC': may,
      'Mon, 06 May 2024 03:08:09 EDT': may,
      'Mon, 06 May 2024 00:08:09 PDT': may,
      'Mon, 06 May 2024 12:38:09 +0530': may,
      'Mon May 06 2024 07:08:09': may,
      'May 6, 2024 07:08:09': may,
      '2024-05-06T07:08:09Z': may,
      '2024-05-06T07:08:09.999+00:00': may,
      '2024-05-06T09:08:09+02': may,
      '2024-05-06 07:08:09': may,
      '2024-05-06T07:08:09-0000': may,
      '20240506T070809Z': may,
      '2024-05-06T07:08Z': may - 9_000,
      '6 May 2024': day,
      '2024-05-06': day,
      '2024-05': Date.UTC(2024, 4),
      yesterday: undefined,
      '2024-13-40': undefined,
      '99 Foo 2024': undefined,
      '': undefined,
    };
    const items = Object.keys(dates).map((date, n) => {
      return `<item><guid>${n}</guid><title>t</title><pubDate>${date}</pubDate></item>`;
    });
    const { items: found } = await feed(`<rss><channel>${items.join('')}</channel></rss>`);
    const read = Object.keys(dates).map((date, n) => [date, found[n]?.published]);
    assert.deepEqual(Object.fromEntries(read), dates);
  });

  it('grows by nothing that it declares for itself', async () => {
    const names = 'abcdefghij'.split('');
    const entities = names.map((name, n) => {
      const inner = n === 0 ? 'lol' : `&${names[n - 1]};`.repeat(10);
      return `<!ENTITY ${name} "${inner}">`;
    });
    const bomb = (declared: string, title: string) =>
      `<?xml version="1.0"?><!DOCTYPE rss [${declared}]>
       <rss><channel><title>${title}</title></channel></rss>`;
    assert.equal((await feed(bomb(entities.join(''), '&j; &amp;'))).title, '&j; &');
    const file = '<!ENTITY file SYSTEM "file:///etc/passwd">';
    assert.equal(await reason(bomb(file, '&file;')), 'broken_feed');
  });

  it('is refused with a reason when it is broken, something else, or too large', async () => {
    const page = '<!doctype html><html><head><title>x</title></head><body><p>Hi</body></html>';
    assert.equal(await reason(rss2.slice(0, 900)), 'broken_feed');
    assert.equal(await reason('<rss><channel><title>a</channel></rss>'), 'broken_feed');
    assert.equal(
      await reason(`<rss>${'<a>'.repeat(5_000)}${'</a>'.repeat(5_000)}</rss>`),
      'broken_feed',
    );
    assert.equal(await reason('<feed><__proto__><x/></__proto__></feed>'), 'broken_feed');
    assert.equal(
      await reason('{"version":"https://jsonfeed.org/version/1","items":[{]}'),
      'broken_feed',
    );
    assert.equal(await reason('{"version":"https://jsonfeed.org/version/1"}'), 'broken_feed');
    assert.equal(await reason('{"hello":1}'), 'not_feed');
    assert.equal(await reason('<svg xmlns="s"><path/></svg>'), 'not_feed');
    assert.equal(await reason(page, 'text/html'), 'not_feed');
    assert.equal(await reason(''), 'not_feed');
    assert.equal(await reason(gzipSync(rss2)), 'not_feed');
    assert.equal(await reason('x', 'image/png'), 'not_feed');
    assert.equal(await reason('<rss>'.padEnd(2_000_000)), 'too_large');
    site.pages.set('/bomb', (response) => {
      response.writeHead(200, { 'content-type': 'application/xml', 'content-encoding': 'gzip' });
      response.end(gzipSync(Buffer.alloc(20 * 1_048_576, '<item>')));
    });
    const bomb = await refusalOf(fetcher.fetchFeed(`${site.url}/bomb`));
    assert.equal(bomb.reason, 'too_large');
    assert.equal(await reason(rss2), 'feed');
  });

  it('is read at once when it has a hundred thousand blanks in a row', () => {
    const text = `<rss><channel><title>wide</title>${' '.repeat(100_000)}</channel></rss>`;
    const ms = cpuMsOf(() => {
      assert.equal(parseFeed(text, 'https://example.org/feed').title, 'wide');
    });
    assert.ok(ms < 2_000, `took ${ms} ms`);
  });

  it('is refused at once when an element has a hundred thousand attributes', () => {
    const attributes = Array.from({ length: 200_000 }, (_, n) => ` a${n}="${n}"`).join('');
    const text = `<rss><channel${attributes}/></rss>`;
    const ms = cpuMsOf(() => {
      assert.throws(() => parseFeed(text, 'https://a.example/'), { reason: 'broken_feed' });
    });
    assert.ok(ms < 5_000, `${ms} ms, where the parser takes 15 s`);
  });

  it('has no more than a thousand entries', async () => {
    const items = Array.from({ length: 1_200 }, (_, n) => `<item><title>${n}</title></item>`);
    const found = await feed(`<rss><channel>${items.join('')}</channel></rss>`);
    assert.equal(found.items.length, 1_000);
  });

  it('has its newest entries, also when it begins with the oldest', async () => {
    const items = Array.from({ length: 1_200 }, (_, n) => {
      const date = new Date(Date.UTC(2020, 0, 1 + n)).toUTCString();
      return `<item><title>${n}</title><pubDate>${date}</pubDate></item>`;
    });
    const found = await feed(`<rss><channel>${items.join('')}</channel></rss>`);
    assert.deepEqual([found.items.at(0)?.title, found.items.at(-1)?.title], ['1199', '200']);
  });

  it('puts up with a bare ampersand, as everybody does', async () => {
    const { title } = await feed('<rss><channel><title>Salt & pepper</title></channel></rss>');
    assert.equal(title, 'Salt & pepper');
  });

  it('has no title that a database cannot hold', () => {
    const version = 'https://jsonfeed.org/version/1.1';
    const items = [{ id: '1', title: '\0Dam\0s', content_text: 'a' }];
    const feed = parseFeed(JSON.stringify({ version, title: 'a\0b', items }), 'https://a.example/');
    assert.equal(feed.title, 'ab');
    assert.equal(feed.items[0]?.title, 'Dams');
  });

  it('may name any character that HTML has a name for', async () => {
    const named = 'F&ucirc;r &lambda; &le; 5 &check; &nope;';
    const { title } = await feed(`<rss><channel><title>${named}</title></channel></rss>`);
    assert.equal(title, 'Fûr λ ≤ 5 ✓ &nope;');
  });

  it('is found by the page that names it, and keeps its own validators', async () => {
    const etag = 'W/"7"';
    site.pages.set(
      '/home',
      html(
        `<html><head><link rel="alternate" type="application/rss+xml"
          href="/real?x=1&amp;y=2"></head></html>`,
      ),
    );
    site.pages.set('/real', (response, { headers }) => {
      const isSame = headers['if-none-match'] === etag;
      response.writeHead(isSame ? 304 : 200, { 'content-type': 'text/xml', etag });
      response.end(isSame ? undefined : rss2);
    });
    const found = await fetcher.fetchFeed(`${site.url}/home`);
    assert.ok(found.kind === 'feed');
    assert.equal(found.feed.url, `${site.url}/real?x=1&y=2`);
    const { validators } = found;
    assert.deepEqual(validators, { etag });
    const again = await fetcher.fetchFeed(found.feed.url, { validators });
    assert.deepEqual(again, { kind: 'unchanged', validators });
    site.pages.set(
      '/feed',
      html('<html><link rel=alternate type=application/atom+xml href=/home>', 'text/html'),
    );
    const circle = await refusalOf(fetcher.fetchFeed(`${site.url}/feed`));
    assert.equal(circle.reason, 'not_feed');
  });
});
