import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { NewsSite } from './fixtures/news-site.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { until } from './fixtures/until.ts';

const reading = 'user/-/state/com.google/reading-list';
const read = 'user/-/state/com.google/read';
const starred = 'user/-/state/com.google/starred';

/** The calls of a client, in the order in which it makes them at its first sync. */
describe('the Google Reader API', () => {
  let site: RankerSite;
  let news: NewsSite;
  before(async () => {
    site = await RankerSite.open();
    news = await NewsSite.open();
  });
  after(async () => {
    await site[Symbol.asyncDispose]();
    await news[Symbol.asyncDispose]();
  });

  const call = async (path: string, fields?: [string, string][], auth = site.key) => {
    const answer = await fetch(`${site.url}/greader/reader/api/0/${path}`, {
      headers: { authorization: `GoogleLogin auth=${auth}` },
      ...(fields && { method: 'POST', body: new URLSearchParams(fields) }),
    });
    const text = await answer.text();
    // biome-ignore lint/suspicious/noExplicitAny: an answer may be anything.
    const json: any = text.startsWith('{') ? JSON.parse(text) : undefined;
    return { status: answer.status, text, json };
  };

  it('logs in with the key, and refuses others', async () => {
    const login = async (Passwd: string) => {
      const body = new URLSearchParams({ Email: 'ada', Passwd });
      return await fetch(`${site.url}/greader/accounts/ClientLogin`, { method: 'POST', body });
    };
    assert.match(await (await login(site.key)).text(), new RegExp(`^Auth=${site.key}$`, 'm'));
    assert.equal((await login('wrong')).status, 401);
    assert.equal((await call('user-info', undefined, 'wrong')).status, 401);
    assert.equal((await call('user-info')).json.userName, 'ada');
  });

  it('takes a change of 1,000 articles, and refuses a form with too many fields', async () => {
    const status = async (field: string, count: number) => {
      const login = { method: 'POST', body: field.repeat(count) };
      const answer = await fetch(`${site.url}/greader/accounts/ClientLogin`, login);
      await answer.arrayBuffer();
      return answer.status;
    };
    assert.equal(await status('i=0123456789abcdef&', 1_000), 401);
    assert.equal(await status('a&', 500_000), 400);
  });

  it('syncs feeds, articles, what is read and what is starred, both ways', async () => {
    const stories = ['Swifts sleep on the wing', 'A reef grows again', 'Wolves in the valley'];
    const items = stories.map(
      (title, at) => `<item><title>${title}</title><link>${news.url}/g${at}</link>
<pubDate>${new Date(Date.now() - at * 3_600_000).toUTCString()}</pubDate></item>`,
    );
    const address = news.page('/nature', (_request, response) => {
      const head = '<rss version="2.0"><channel><title>Nature</title>';
      const text = `${head}${items.join('')}</channel></rss>`;
      response.writeHead(200, { 'content-type': 'application/rss+xml' }).end(text);
    });
    const added = await call('subscription/edit', [
      ['ac', 'subscribe'],
      ['s', `feed/${address}`],
      ['a', 'user/-/label/Outside'],
    ]);
    assert.equal(added.text, 'OK');
    const { json: list } = await call('subscription/list');
    assert.equal(list.subscriptions[0].categories[0].label, 'Outside');
    const feed = list.subscriptions[0].id;
    const ids = async (extra = '') =>
      (await call(`stream/items/ids?s=${reading}&n=50&xt=${read}${extra}`)).json.itemRefs as {
        id: string;
      }[];
    await until('three articles are listed', async () => (await ids()).length >= 3);
    const refs = await ids();
    assert.equal(refs.length, 3);
    const wanted = refs.map(({ id }): [string, string] => ['i', id]);
    const { json: listed } = await call('stream/items/contents', wanted);
    assert.deepEqual(
      listed.items.map(({ title }: { title: string }) => title),
      stories,
    );
    assert.equal(listed.items[0].origin.streamId, feed);
    const [first, second] = listed.items.map(({ id }: { id: string }) => id);
    await call('edit-tag', [
      ['i', first],
      ['a', read],
      ['a', starred],
    ]);
    assert.equal((await ids()).length, 2);
    const { json: stars } = await call(`stream/contents/${starred}`);
    assert.deepEqual([stars.items.length, stars.items[0].id], [1, first]);
    const contents = async (query: string) =>
      (await call(`stream/contents/${reading}?${query}`)).json.items.map(
        ({ id }: { id: string }) => id,
      );
    assert.deepEqual(await contents(`it=${starred}`), [first]);
    assert.equal((await contents(`xt=${starred}`)).length, 2);
    assert.deepEqual(await contents('nt=1000'), []);
    assert.equal((await contents('ot=1000')).length, 3);
    const bare = first.replace('tag:google.com,2005:reader/item/', '');
    // A number without a letter is decimal.
    if (/[a-f]/.test(bare)) {
      const { json: one } = await call('stream/items/contents', [['i', bare]]);
      assert.equal(one.items[0].id, first);
    }
    await call('edit-tag', [
      ['i', first],
      ['r', read],
    ]);
    assert.equal((await call('unread-count')).json.unreadcounts[0].count, 3);
    assert.equal((await call('mark-all-as-read', [['ts', '1']])).status, 422);
    await call('mark-all-as-read', [['s', 'user/-/state/com.google/unknown']]);
    assert.equal((await ids()).length, 3, 'a stream that is not known is not all of them');
    await call('edit-tag', [
      ['i', first],
      ['a', read],
    ]);
    assert.equal((await call(`stream/contents/${read}`)).json.items.length, 1);
    const folder = `user/-/label/${encodeURIComponent('100% wild')}`;
    assert.deepEqual((await call(`stream/contents/${folder}`)).json.items, []);
    await call('mark-all-as-read', [['s', feed]]);
    assert.equal((await ids()).length, 0);
    for (const item of ['abc', '12x', '1'.repeat(21), `${'a'.repeat(17)}`, 'tag:x/item/12']) {
      const fields: [string, string][] = [
        ['i', item],
        ['a', read],
      ];
      assert.equal((await call('edit-tag', fields)).status, 422, item);
    }
    const { json: page } = await call(`stream/contents/${feed}?n=1`);
    assert.equal(page.continuation, '1');
    const next = await call(`stream/contents/${feed}?n=1&c=1`);
    assert.equal(next.json.items[0].id, second);
    await call('subscription/edit', [
      ['ac', 'edit'],
      ['s', feed],
      ['t', 'Wild'],
    ]);
    assert.equal((await call('subscription/list')).json.subscriptions[0].title, 'Wild');
    assert.equal(
      (
        await call('edit-tag', [
          ['i', 'x/../y'],
          ['a', read],
        ])
      ).status,
      422,
    );
    await call('subscription/edit', [
      ['ac', 'unsubscribe'],
      ['s', feed],
    ]);
    assert.deepEqual((await call('subscription/list')).json.subscriptions, []);
  });
});
