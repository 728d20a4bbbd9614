import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { NewsSite, storyOf } from './fixtures/news-site.ts';
import { type AskOptions, RankerSite } from './fixtures/ranker-site.ts';

type Case = readonly [path: string, options: AskOptions, status: number, words: RegExp];

describe('what a ranker refuses', () => {
  const stack = new AsyncDisposableStack();
  let news: NewsSite;
  let site: RankerSite;

  before(async () => {
    news = stack.use(await NewsSite.open());
    site = stack.use(await RankerSite.open({ pageBytes: 1_000_000 }));
  });

  after(() => stack.disposeAsync());

  /** Rows that a refused request must not add to. */
  const rows = async (): Promise<number> => {
    const { kysely } = site.ranker.storage.database;
    let sum = 0;
    for (const table of ['articles', 'ratings', 'corrections', 'feeds', 'rules'] as const) {
      sum += (await kysely.selectFrom(table).selectAll().execute()).length;
    }
    return sum;
  };

  const assertRefused = async (cases: readonly Case[]): Promise<void> => {
    const before = await rows();
    for (const [path, options, status, words] of cases) {
      const answer = await site.ask(path, options);
      const told = `${path} ${JSON.stringify(options.body)?.slice(0, 80)}: ${answer.text}`;
      assert.equal(answer.status, status, told);
      assert.match(`${answer.json.error.code} ${answer.json.error.message}`, words, told);
    }
    assert.equal(await rows(), before, 'nothing was stored');
  };

  it('names the field that is wrong, and stores nothing', async () => {
    const url = 'https://example.org/a';
    const correct = (body: unknown): AskOptions => ({ body });
    await assertRefused([
      ['/rank', {}, 422, /INPUT_INVALID querystring\.url: is missing/],
      ['/rank?url=', {}, 422, /querystring\.url/],
      ['/rank?url=nonsense', {}, 422, /INPUT_INVALID url: must be an address.*"nonsense"/],
      ['/rank?url=ftp%3A%2F%2Fexample.org', {}, 422, /INPUT_INVALID url/],
      ['/rank?url=http%3A%2F%2Fu%3Ap%40example.org%2F', {}, 422, /INPUT_INVALID url/],
      [`/rank?url=${'x'.repeat(5_000)}`, {}, 422, /querystring\.url/],
      ['/rank', { body: {} }, 422, /either url or text/],
      ['/rank', { body: { url, text: 'both' } }, 422, /either url or text/],
      ['/rank', { body: { text: '' } }, 422, /body\.text/],
      ['/rank', { body: { items: [] } }, 422, /body\.items/],
      ['/rank', { body: { items: [{ url }, { link: url }] } }, 422, /body\.items\.1\.link/],
      ['/rank', { body: '{"items":', type: 'application/json' }, 400, /BODY_INVALID/],
      ['/rank', { body: '{}\nnot json', type: 'application/x-ndjson' }, 422, /line 2 is not JSON/],
      ['/rank', { body: 'x', type: 'image/png' }, 415, /BODY_TYPE/],
      ['/rank', { body: { text: 'x'.repeat(5_000_000) } }, 413, /BODY_TOO_LARGE/],
      ['/correct_rank', correct({ url, score: 50 }), 422, /body\.score: must be <= 10/],
      ['/correct_rank', correct({ url, score: 0 }), 422, /body\.score: must be >= 1/],
      ['/correct_rank', correct({ url, score: '9' }), 422, /body\.score: must be number/],
      ['/correct_rank', correct({ url }), 422, /body\.score: is missing/],
      ['/correct_rank', correct({ url: 'nonsense', score: 5 }), 422, /url: must be an address/],
      [
        '/train_bulk',
        correct({
          items: [
            { url, score: 5 },
            { url, score: 11 },
          ],
        }),
        422,
        /1\.score/,
      ],
      ['/train_bulk', correct({ items: [{ url: 'x', score: 5 }] }), 422, /body\.items\.0\.url/],
      ['/votes', correct({ article: 'x', score: 50 }), 422, /body\.score/],
      ['/retrain', { method: 'POST' }, 409, /NOTHING_RATED/],
      ['/retrain', correct({ kind: 'endless' }), 422, /body/],
      ['/feeds', correct({ url: 'file:///etc/passwd' }), 422, /INPUT_INVALID url/],
      ['/feeds/opml', { body: '<opml><body>', type: 'text/xml' }, 400, /OPML_BROKEN/],
      ['/feeds/none', { method: 'DELETE' }, 404, /RECORD_UNKNOWN/],
      ['/rules', correct({ kind: 'mute', field: 'pattern', value: '(a+)+$' }), 422, /pattern/],
      ['/rules', correct({ kind: 'hide', field: 'words', value: 'x' }), 422, /body\.kind/],
      ['/import', { body: '{"type":"x"}', type: 'application/x-ndjson' }, 422, /line 1: type/],
      ['/articles?limit=0', {}, 422, /querystring\.limit/],
      ['/nothing', {}, 404, /NOT_FOUND/],
      ['/rank', { method: 'PUT' }, 405, /METHOD_REFUSED/],
    ]);
  });

  it('says why a page cannot be had, with the right status, and stores nothing', async () => {
    const page = (path: string, type: string, body: string | Buffer, more: object = {}) =>
      news.page(path, (_request, response) => {
        response.writeHead(200, { 'content-type': type, ...more }).end(body);
      });
    const loop = news.page('/loop', (_request, response) => {
      response.writeHead(302, { location: '/loop' }).end();
    });
    const inward = news.page('/inward', (_request, response) => {
      response.writeHead(302, { location: 'http://169.254.169.254/latest' }).end();
    });
    const bomb = gzipSync(Buffer.alloc(50_000_000, 'a'));
    const urls: readonly (readonly [url: string, status: number, words: RegExp])[] = [
      ['http://10.1.2.3/', 422, /private_address/],
      ['http://[::1]:80/', 422, /private_address/],
      ['http://localhost:1/', 502, /ARTICLE_UNAVAILABLE/],
      [inward, 422, /private_address/],
      [loop, 502, /redirect_loop/],
      [page('/huge', 'text/html', Buffer.alloc(3_000_000, 'a')), 502, /too_large/],
      [page('/bomb', 'text/html', bomb, { 'content-encoding': 'gzip' }), 502, /too_large/],
      [page('/picture', 'image/png', Buffer.from([0x89, 0x50])), 502, /not_html/],
      [page('/binary', 'text/html', Buffer.alloc(5_000, 0)), 502, /not_html|too_short/],
      [page('/empty', 'text/html', ''), 502, /too_short/],
      [`${news.url}/missing`, 502, /not_found/],
      ['http://name.invalid/', 502, /dns/],
    ];
    const paths = urls.map(([url, status, words]): Case => {
      return [`/rank?url=${encodeURIComponent(url)}`, {}, status, words];
    });
    await assertRefused(paths);
    const feeds: typeof urls = [
      ['http://10.1.2.3/feed', 422, /private_address/],
      [`${news.url}/bomb`, 502, /too_large/],
      [`${news.url}/picture`, 502, /not_feed/],
      [news.article('/page', 'A page', 'That names no feed.'), 502, /not_feed/],
      [page('/broken', 'text/xml', '<rss><channel><item>'), 502, /broken_feed/],
      [page('/other', 'text/xml', '<svg></svg>'), 502, /not_feed/],
    ];
    const subscriptions = feeds.map(([url, status, words]): Case => {
      return ['/feeds', { body: { url } }, status, words];
    });
    await assertRefused(subscriptions);
    const [inside] = urls;
    const body = { url: inside?.[0], score: 5 };
    await assertRefused([['/correct_rank', { body }, 422, /private_address/]]);
  });

  it('reads a page whose charset is told wrongly or not at all', async () => {
    const text = `Ärger über Öl. ${storyOf('motor', 'pumpe')}`;
    const html = `<html><head><meta charset="windows-1252"><title>Öl</title></head><body><article>
      <p>${text}</p></article></body></html>`;
    const url = news.page('/latin', (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end(Buffer.from(html, 'latin1'));
    });
    const answer = await site.ask(`/rank?url=${encodeURIComponent(url)}`);
    assert.deepEqual([answer.status, answer.json.title], [200, 'Öl']);
    const stored = await site.ranker.storage.articles.find(answer.json.id);
    assert.match(stored?.text ?? '', /Ärger über Öl/);
  });
});
