import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseFeed } from '../src/feeds/parse-feed.ts';
import { NewsSite } from './fixtures/news-site.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { storageKinds } from './fixtures/stored-ranker.ts';
import { until } from './fixtures/until.ts';
import { Visitor } from './fixtures/visitor.ts';

/** A NUL, which Postgres takes in no text, and half a character. */
const odd = '\0\ud800';
const version = 'https://jsonfeed.org/version/1.1';
const dates = ['9999-12-31T23:59:59Z', '-0001-01-01T00:00:00Z', '0001-01-01T00:00:00Z', '2024-05'];

for (const [kind, urlOf] of Object.entries(storageKinds)) {
  describe(`a feed that is made to hurt, on ${kind}`, () => {
    it('is read, listed, searched and muted as any other', async () => {
      await using stack = new AsyncDisposableStack();
      const news = stack.use(await NewsSite.open());
      const site = stack.use(await RankerSite.open({ database: await urlOf(stack) }));
      const items = Array.from({ length: 2_000 }, (_, at) => ({
        id: 'the same',
        url: `${news.url}/${odd}${at}`,
        title: `Dam${odd} holds ${at}`,
        content_text: `The dam${odd} holds, says number ${at}. `.repeat(3),
        date_published: dates[at] ?? dates[3],
        authors: [{ name: `Ann${odd}` }],
        tags: [`wa${odd}ter`, odd, '\0'],
        image: `${news.url}/${odd}.png`,
      }));
      const url = news.page('/feed', (_request, response) => {
        const feed = JSON.stringify({ version, title: `Port${odd}`, items });
        response.writeHead(200, { 'content-type': 'application/feed+json' }).end(feed);
      });
      const begun = Date.now();
      assert.equal((await site.ask('/feeds', { body: { url } })).status, 201);
      const listed = async (search = '') =>
        (await site.ask(`/articles?limit=1000&search=${search}`)).json.articles;
      await until('articles are listed', async () => (await listed()).length > 0);
      const articles = await listed();
      assert.equal(articles.length, 100);
      for (const { title, published } of articles) {
        assert.match(title, /^Dam\ufffd holds \d+$/u);
        const at = Date.parse(published);
        const isKnown = at === Date.UTC(2024, 4) || (at >= begun && at <= Date.now());
        assert.ok(isKnown, `${title} is of ${published}`);
      }
      assert.equal((await listed('holds%00')).length, 100);
      assert.equal((await listed('%ED%A0%80')).length <= 100, true);
      const visitor = new Visitor(site.url);
      await visitor.logIn(site.key);
      assert.match(await visitor.page(`/reader?open=${articles[0].id}`), /Ann\ufffd/u);
      assert.match(await visitor.page('/reader?q=holds%00%ED%A0%80'), /class="list/);
      const rule = { kind: 'mute', field: 'tag', value: `wa${odd}ter` };
      assert.equal((await site.ask('/rules', { body: rule })).status, 201);
      assert.doesNotMatch(await visitor.page('/reader?list=all'), /data-article/);
      const [feed] = (await site.ask('/feeds')).json.feeds;
      assert.deepEqual([feed.title, feed.failure ?? null], ['Port\ufffd', null]);
      const deep = '<outline text="x">'.repeat(2_000) + '</outline>'.repeat(2_000);
      const sent = { body: `<opml><body>${deep}</body></opml>`, type: 'text/xml' };
      assert.equal((await site.ask('/feeds/opml', sent)).status, 400);
    });
  });
}

describe('the entries of a feed', () => {
  it('are all there though they share one id, unless they lead to one page', () => {
    const urls = ['https://a.example/1', 'https://a.example/2', 'https://a.example/1'];
    const items = urls.map((url, at) => ({ id: '1', url, title: `Entry ${at}` }));
    const feed = parseFeed(JSON.stringify({ version, title: 'A', items }), 'https://a.example/');
    assert.deepEqual(
      feed.items.map(({ title }) => title),
      ['Entry 0', 'Entry 1'],
    );
  });
});

describe('an import', () => {
  it('has no times of the future: one rating would count for more than all others', async () => {
    await using site = await RankerSite.open();
    const future = { rated: Date.UTC(4_999, 0), published: Date.UTC(4_999, 0) };
    const line = { type: 'rating', url: 'https://a.test/1', title: 'A', text: 'Dams.', score: 5 };
    const sent = { body: JSON.stringify({ ...line, ...future }), type: 'application/x-ndjson' };
    assert.equal((await site.ask('/import', sent)).status, 200);
    const [rating] = await site.ranker.storage.ratings.list(site.userId);
    const article = await site.ranker.storage.articles.find(String(rating?.articleId));
    assert.ok(Number(rating?.ratedAt) <= Date.now());
    assert.ok(Number(article?.publishedAt) <= Date.now());
  });

  it('has none either where the clock was ahead when an article was rated', async () => {
    await using site = await RankerSite.open();
    const { storage, tastes } = site.ranker;
    const { json } = await site.ask('/correct_rank', { body: { text: 'A dam.', score: 9 } });
    const at = Date.UTC(4_999, 0);
    const { userId } = site;
    const rating = { userId, articleId: json.id, score: 9, predicted: undefined, at };
    await storage.ratings.record([rating]);
    tastes.forget(userId);
    const { state } = await tastes.current(userId);
    assert.equal(state?.rows.count, 1);
    assert.ok(Number(state?.rows.ratedAt[0]) <= Date.now());
  });
});
