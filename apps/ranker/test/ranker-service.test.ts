import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { SpillwayError, wallClock } from 'spillway';
import { NewsSite, storyOf } from './fixtures/news-site.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { storedArticle, temporaryFolder } from './fixtures/stored-ranker.ts';
import { until } from './fixtures/until.ts';
import { Visitor } from './fixtures/visitor.ts';
import { WordEmbedder } from './fixtures/word-embedder.ts';

const weekMs = 7 * 86_400_000;
const tech = storyOf('kernel', 'compiler', 'database');
const gossip = storyOf('star', 'singer', 'wedding');

/** Is too busy for as long as it is told so. */
class BusyEmbedder extends WordEmbedder {
  isBusy = false;

  override async embed(article: Parameters<WordEmbedder['embed']>[0]) {
    if (this.isBusy) throw new SpillwayError('LANE_FULL', 'busy', { retryAfterMs: 2_000 });
    return super.embed(article);
  }
}

describe('a ranker service', () => {
  const stack = new AsyncDisposableStack();
  let database = '';

  before(async () => {
    database = `sqlite:${join(await temporaryFolder(stack), 'ranker.db')}`;
  });

  after(() => stack.disposeAsync());

  it('goes on after a restart, and embeds all anew when its model is another', async () => {
    let [version, id] = [0, ''];
    {
      await using site = await RankerSite.open({ database });
      const body = { text: tech, title: 'Tech', score: 9 };
      id = (await site.ask('/correct_rank', { body })).json.id;
      const second = { text: gossip, title: 'Gossip', score: 2 };
      version = (await site.ask('/correct_rank', { body: second })).json.version;
    }
    {
      await using again = await RankerSite.open({ database });
      const { json } = await again.ask(`/articles/${id}/explanation`);
      assert.equal(json.rank, 9);
      assert.ok(json.version > version, 'a version has one meaning, also after a restart');
      version = json.version;
    }
    const embedder = new WordEmbedder('other words');
    await using other = await RankerSite.open({ database, embedder });
    const { storage, embedding } = other.ranker;
    await embedding.idle();
    assert.deepEqual(await storage.vectors.missing(embedder.model, { limit: 10 }), []);
    assert.equal(embedder.count, 2);
    const { json } = await other.ask(`/articles/${id}/explanation`);
    assert.deepEqual([json.rank, json.version > version], [9, true]);
    assert.equal(embedder.count, 2, 'what was embedded in the background serves');
  });

  it('fetches the texts of entries that have little, and learns from them', async () => {
    await using news = await NewsSite.open();
    const stories = { bread: storyOf('flour', 'oven', 'dough'), boats: storyOf('sail', 'mast') };
    const entries = Object.entries(stories).map(([name, text]) => {
      const url = news.article(`/${name}`, `About ${name}`, text);
      return `<item><title>About ${name}</title><link>${url}</link>
        <description>Comments</description></item>`;
    });
    const feed = news.page('/feed', (_request, response) => {
      const channel = `<channel><title>Links</title>${entries.join('')}</channel>`;
      response.writeHead(200, { 'content-type': 'application/rss+xml' });
      response.end(`<rss version="2.0">${channel}</rss>`);
    });
    await using site = await RankerSite.open({ hostPerSecond: 100 });
    const { storage, tastes } = site.ranker;
    await site.ask('/feeds', { body: { url: feed } });
    const listed = async () => await storage.userArticles.list({ userId: site.userId, limit: 9 });
    let articles = await listed();
    await until('both have the texts of their pages', async () => {
      articles = await listed();
      return articles.length === 2 && articles.every(({ length }) => length >= 300);
    });
    await site.ranker.embedding.idle();
    const titles = new Set(articles.map(({ title }) => title));
    assert.deepEqual(titles, new Set(['About boats', 'About bread']));
    // One vote moves the other article alone: they are not taken for the same any more.
    const [first, second] = articles as [(typeof articles)[0], (typeof articles)[0]];
    await site.ask('/votes', { body: { article: first.id, score: 9 } });
    const { json } = await site.ask('/articles');
    const rankOf = (id: string) => json.articles.find((one: { id: string }) => one.id === id).rank;
    assert.equal(rankOf(first.id), 9);
    assert.ok(rankOf(second.id) < 8, `${rankOf(second.id)}`);
    assert.ok(tastes.stats.articles >= 2);
  });

  it('keeps few tastes in memory, and never answers with half of one', async () => {
    await using site = await RankerSite.open({ tastesMax: 1 });
    const { users } = site.ranker.storage;
    const keys = [site.key, (await users.add('b')).key, (await users.add('c')).key];
    for (const [at, key] of keys.entries()) {
      const body = { text: tech, score: 1 + 4 * at };
      assert.equal((await site.ask('/correct_rank', { key, body })).json.rank, 1 + 4 * at);
    }
    const rounds = Array.from({ length: 30 }, (_, at) => at % 3);
    const answers = await Promise.all(
      rounds.map((at) => site.ask('/rank', { key: keys[at], body: { text: tech } })),
    );
    const said = answers.map(({ json }) => json.rank);
    assert.deepEqual(
      said,
      rounds.map((at) => 1 + 4 * at),
    );
    assert.ok(site.ranker.tastes.stats.tastes <= 3);
  });

  it('says at once when it is too busy, and shows the operator what it is made of', async () => {
    const embedder = new BusyEmbedder();
    await using site = await RankerSite.open({ embedder, operatorToken: 'a-secret-of-operators' });
    const body = { text: tech, score: 5 };
    assert.equal((await site.ask('/correct_rank', { body })).status, 200);
    embedder.isBusy = true;
    const busy = await site.ask('/rank', { body: { text: gossip } });
    assert.deepEqual([busy.status, busy.json.error.code], [503, 'LANE_FULL']);
    assert.equal(busy.headers.get('retry-after'), '2');
    const refused = await site.ask('/correct_rank', { body: { text: gossip, score: 3 } });
    assert.equal(refused.status, 503);
    assert.equal((await site.ask('/training_set')).json.count, 1, 'nothing was stored');
    const known = await site.ask('/correct_rank', { body: { ...body, score: 8 } });
    assert.deepEqual([known.status, known.json.rank], [200, 8], 'what is stored needs no model');
    const { json: shown } = await site.askOperator('/-/config');
    assert.deepEqual([shown.listMax, shown.operatorToken], [1_000, '(set)']);
    const { json: stats } = await site.askOperator('/-/stats');
    const parts = ['embedder', 'fetcher', 'tastes', 'training', 'embedding', 'refresh', 'database'];
    for (const part of parts) assert.ok(part in stats.parts, part);
    for (const pool of ['fetcher / pool', 'tastes / pool']) {
      assert.ok(stats.changeable.includes(pool), pool);
    }
    assert.equal((await site.ask('/-/stats')).status, 404, 'a user is no operator');
    const root = await fetch(site.url, { redirect: 'manual' });
    assert.deepEqual([root.status, root.headers.get('location')], [303, '/reader']);
  });

  it('makes the lists as it was told, and tells the operator when it cannot', async () => {
    await using site = await RankerSite.open({ listMax: 10 });
    const { storage, changes, server } = site.ranker;
    const articles = Array.from({ length: 12 }, (_, at) =>
      storedArticle(`https://example.org/${at}`, { publishedAt: at * weekMs }),
    );
    await storage.userArticles.add(site.userId, articles, 1);
    const visitor = new Visitor(site.url);
    await visitor.logIn(site.key);
    const newest = await visitor.page('/reader');
    assert.match(newest, />10, best first/);
    const older = /href="([^"]+)">Older articles/.exec(newest)?.[1]?.replaceAll('&amp;', '&');
    assert.match(await visitor.page(String(older)), />2, best first/);
    storage.userArticles.list = () => Promise.reject(new Error('no list today'));
    // A vote changes what is in memory: the list need not be read again.
    await visitor.page('/reader');
    const id = articles[11]?.id;
    assert.match(await visitor.submit(`/articles/${id}/vote`, { score: '9' }), />9, best first/);
    assert.match(await visitor.page('/reader?list=rated'), />1, best first/);
    changes.tell(site.userId, 'all');
    const told = () => server.app.recentErrors.list().map(({ route, message }) => [route, message]);
    await until('the failure is listed', () => told().length > 0);
    assert.deepEqual(told(), [['job lists', 'no list today']]);
  });

  it('lets go of the lists of a reader who has gone, and makes them again', async () => {
    let aheadMs = 0;
    const clock = {
      now: () => wallClock.now() + aheadMs,
      after: (ms: number, callback: () => void) => wallClock.after(ms, callback),
    };
    await using site = await RankerSite.open({ clock });
    const { storage, changes } = site.ranker;
    await storage.userArticles.add(site.userId, [storedArticle('https://example.org/a')], 1);
    const visitor = new Visitor(site.url);
    await visitor.logIn(site.key);
    await visitor.page('/reader');
    const kept = async () => (await site.askOperator('/-/stats')).json.parts.lists.stats.users;
    changes.tell(site.userId, 'all');
    assert.equal(await kept(), 1);
    aheadMs = 9 * 60_000;
    changes.tell(site.userId, 'all');
    assert.equal(await kept(), 1);
    // The server may hear of the end of a page a moment later than the visitor.
    for (; (await kept()) > 0; aheadMs += 11 * 60_000) changes.tell(site.userId, 'all');
    assert.match(await visitor.page('/reader'), />1, best first/);
    assert.equal(await kept(), 1);
  });
});
