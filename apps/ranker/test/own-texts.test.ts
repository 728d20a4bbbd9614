import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { NewsSite } from './fixtures/news-site.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { temporaryFolder } from './fixtures/stored-ranker.ts';

/** Postgres takes no text with a NUL in it. */
const nul = '\0';

for (const kind of ['SQLite', 'Postgres'] as const) {
  describe(`a NUL in a reader's own texts, on ${kind}`, () => {
    it('is left out of names, folders and rules, and finds nothing elsewhere', async () => {
      await using stack = new AsyncDisposableStack();
      const news = stack.use(await NewsSite.open());
      const database =
        kind === 'Postgres'
          ? await postgresUrl(stack)
          : `sqlite:${join(await temporaryFolder(stack), 'ranker.db')}`;
      const site = stack.use(await RankerSite.open({ database }));
      const url = news.page('/feed', (_request, response) => {
        const feed = '<rss version="2.0"><channel><title>Port</title></channel></rss>';
        response.writeHead(200, { 'content-type': 'application/rss+xml' }).end(feed);
      });
      const added = { url, title: `My${nul} port`, folder: `Sea${nul}side` };
      assert.equal((await site.ask('/feeds', { body: added })).status, 201);
      const [feed] = (await site.ask('/feeds')).json.feeds;
      assert.deepEqual([feed.title, feed.folder], ['My port', 'Seaside']);
      const edit = { title: `Port${nul}s`, folder: `${nul}` };
      assert.equal((await site.ask(`/feeds/${feed.id}/edit`, { body: edit })).status, 200);
      const [edited] = (await site.ask('/feeds')).json.feeds;
      assert.deepEqual([edited.title, edited.folder], ['Ports', '']);
      const rule = { kind: 'mute', field: 'tag', value: `fer${nul}ry` };
      const { json } = await site.ask('/rules', { body: rule });
      assert.equal(json.rules[0].value, 'ferry');
      assert.equal((await site.ask('/articles?search=fer%00ry')).status, 200);
      const vote = { article: `x${nul}`, score: 5 };
      assert.equal((await site.ask('/votes', { body: vote })).status, 422);
      const readAll = { feed: `x${nul}` };
      assert.equal((await site.ask('/articles/read-all', { body: readAll })).status, 422);
      const lines = [
        { type: 'feed', url: `${url}?${nul}`, title: `a${nul}`, folder: nul },
        { type: 'rating', url: 'https://a.test/1', title: nul, text: nul, score: 5, rated: 1 },
      ].map((line) => JSON.stringify(line));
      const sent = { body: lines.join('\n'), type: 'application/x-ndjson' };
      assert.equal((await site.ask('/import', sent)).status, 200);
      const bad = { type: 'rating', url: `text:${nul}`, score: 5, rated: 1 };
      const refused = await site.ask('/import', { ...sent, body: JSON.stringify(bad) });
      assert.equal(refused.status, 422);
      const headers = { authorization: `GoogleLogin auth=${site.key}` };
      const ask = async (path: string, fields?: Record<string, string>) => {
        const body = fields && new URLSearchParams(fields);
        const sentForm = body && { method: 'POST', body };
        const address = `${site.url}/greader/reader/api/0/${path}`;
        return (await fetch(address, { headers, ...sentForm })).status;
      };
      const named = { ac: 'edit', s: `feed/${feed.id}`, t: `Har${nul}bour` };
      assert.equal(await ask('subscription/edit', named), 200);
      assert.equal(await ask('stream/contents/feed%2Fa%00b'), 200);
      assert.equal(await ask('subscription/edit', { ac: 'unsubscribe', s: `feed/a${nul}` }), 404);
      const key = await site.askOperator('/-/users/a%00b/key', { body: {} });
      assert.equal(key.status, 404);
    });
  });
}
