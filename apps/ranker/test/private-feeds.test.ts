import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { backup } from '../src/storage/backup.ts';
import { NewsSite } from './fixtures/news-site.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { temporaryFolder } from './fixtures/stored-ranker.ts';
import { until } from './fixtures/until.ts';
import { Visitor } from './fixtures/visitor.ts';

const secret = 'open-sesame-7491';
const basic = `Basic ${Buffer.from(`ada:${secret}`).toString('base64')}`;
const opmlType = 'text/x-opml';

describe('a feed with credentials', () => {
  const stack = new AsyncDisposableStack();
  let site: RankerSite;
  let news: NewsSite;
  let other: NewsSite;
  let visitor: Visitor;
  let database: string;
  /** Headers of the requests for each path of either site. */
  const seen = new Map<string, IncomingHttpHeaders[]>();
  const note = (path: string, headers: IncomingHttpHeaders) => {
    seen.set(path, [...(seen.get(path) ?? []), headers]);
  };

  before(async () => {
    database = `sqlite:${join(await temporaryFolder(stack), 'ranker.db')}`;
    news = stack.use(await NewsSite.open());
    other = stack.use(await NewsSite.open());
    site = stack.use(await RankerSite.open({ database, log: true }));
    visitor = new Visitor(site.url);
    await visitor.logIn(site.key);
  });
  after(() => stack.disposeAsync());

  const feedText = (name: string) => `<rss version="2.0"><channel><title>${name}</title><item>
<title>${name}: the secret story</title><link>${news.url}/story</link>
<description>Only members may read that ${name} has it.</description></item></channel></rss>`;

  /** A feed that is opened by one header alone. */
  const guarded = (path: string, header: string, value: string) =>
    news.page(path, ({ headers }, response) => {
      note(path, headers);
      if (headers[header] !== value) response.writeHead(401).end();
      else {
        response
          .writeHead(200, { 'content-type': 'application/rss+xml' })
          .end(feedText(path.slice(1)));
      }
    });

  const titles = async (who: Visitor) => {
    const page = await who.page('/reader?list=all&sort=newest');
    return [...page.matchAll(/<strong>([^<]+)<\/strong>\s*<span class="from">/g)].map(([, t]) => t);
  };
  const idOf = async (name: string, key = site.key) => {
    const { json } = await site.ask('/feeds', { key });
    return String(json.feeds.find(({ title }: { title: string }) => title === name)?.id);
  };

  it('is added with a name and a password, which its site alone is sent', async () => {
    const url = guarded('/members', 'authorization', basic);
    assert.match(await visitor.submit('/feeds', { url }), /blocked: answers 401/);
    const form = { url, name: 'ada', password: secret };
    assert.match(await visitor.submit('/feeds', form), /members: added/);
    await until('it is listed', async () => {
      return (await titles(visitor)).includes('members: the secret story');
    });
    assert.equal(seen.get('/members')?.at(-1)?.authorization, basic);
    await visitor.submit('/feeds', form);
    assert.equal((await site.ask('/feeds')).json.feeds.length, 1, 'added again it is the same one');
  });

  it('is shown nowhere: no page, list, export, backup or answer has the credentials', async () => {
    const lines: string[] = [];
    for await (const line of backup(database)) lines.push(line);
    const texts = [
      await visitor.page('/reader/feeds'),
      await visitor.page('/reader'),
      await (await visitor.get('/feeds/opml')).text(),
      ...(await Promise.all(
        ['/feeds', '/feeds/opml', '/export', '/rules'].map(async (path) => {
          const { status, text } = await site.ask(path);
          assert.equal(status, 200, path);
          return text;
        }),
      )),
      ...(await Promise.all(
        ['/-/stats', '/-/errors', '/-/config'].map(async (path) => {
          return JSON.stringify((await site.askOperator(path)).json);
        }),
      )),
      lines.join('\n'),
    ];
    for (const text of texts) {
      for (const word of [secret, basic.slice(6), '#private-']) {
        assert.ok(!text.includes(word) || (word === '#private-' && text === lines.join('\n')));
      }
    }
    assert.match(String(texts[0]), /with credentials/);
  });

  it('and its articles reach no other user who knows the addresses', async () => {
    const { key } = await site.ranker.storage.users.add('eve');
    const eve = new Visitor(site.url);
    await eve.logIn(key);
    const owned = await site.ranker.storage.database.kysely
      .selectFrom('feeds')
      .select('url')
      .where('title', '=', 'members')
      .execute();
    const url = String(owned.find((row) => row.url.includes('#private-'))?.url);
    const outline = `<outline xmlUrl="${url}"/><outline xmlUrl="${news.url}/members"/>`;
    const opml = `<opml><body>${outline}</body></opml>`;
    await site.ask('/feeds/opml', { key, body: opml, type: opmlType });
    const line = { type: 'feed', url, title: 'x', folder: '' };
    await site.ask('/import', {
      key,
      body: `${JSON.stringify(line)}\n`,
      type: 'application/x-ndjson',
    });
    const copy = other.page('/copy', (_request, response) => {
      const text = feedText('copy').replace('Only members may', 'Everybody may');
      response.writeHead(200, { 'content-type': 'application/rss+xml' }).end(text);
    });
    await eve.submit('/feeds', { url: copy });
    await until('eve has an article', async () => (await titles(eve)).length > 0);
    assert.deepEqual(await titles(eve), ['copy: the secret story']);
    assert.equal(await idOf('members', key), 'undefined');
    assert.deepEqual(await titles(visitor), ['members: the secret story'], 'nor changed by one');
    const page = await visitor.page('/reader?list=all');
    const [, id = ''] = /data-article="([^"]+)"/.exec(page) ?? [];
    const own = await visitor.page(`/reader?open=${id}`);
    assert.match(own, /Only members may read/);
    assert.match(own, new RegExp(`href="${news.url}/story"`));
  });

  it('is opened by none after a redirect to another site, nor where its page leads', async () => {
    other.page('/stolen', ({ headers }, response) => {
      note('/stolen', headers);
      response.writeHead(200, { 'content-type': 'application/rss+xml' }).end(feedText('stolen'));
    });
    const credentials = { header: 'X-Token', value: secret };
    const { fetcher } = site.ranker;
    const moved = news.page('/moved', ({ headers }, response) => {
      note('/moved', headers);
      response.writeHead(302, { location: `${other.url}/stolen` }).end();
    });
    const page = news.page('/page', ({ headers }, response) => {
      note('/page', headers);
      const link = `<link rel="alternate" type="application/rss+xml" href="${other.url}/stolen">`;
      response
        .writeHead(200, { 'content-type': 'text/html' })
        .end(`<!doctype html><html><head>${link}</head></html>`);
    });
    for (const url of [moved, page]) {
      assert.equal((await fetcher.fetchFeed(url, { credentials })).kind, 'feed');
    }
    assert.equal(seen.get('/moved')?.[0]?.['x-token'], secret);
    assert.equal(seen.get('/page')?.[0]?.['x-token'], secret);
    const stolen = seen.get('/stolen') ?? [];
    assert.equal(stolen.length, 2);
    for (const headers of stolen) assert.ok(!JSON.stringify(headers).includes(secret));
    const told = await visitor.submit('/feeds', {
      url: moved,
      header: `X-Token: ${secret}`,
    });
    assert.match(told, /stolen: added\. It is at another site, .*, which is not sent the cred/);
    await visitor.submit(`/feeds/${await idOf('stolen')}/remove`);
  });

  it('says that its credentials are missing, as after a restore, and is not asked', async () => {
    const { kysely } = site.ranker.storage.database;
    await kysely.deleteFrom('feed_credentials').execute();
    const count = seen.get('/members')?.length;
    await visitor.submit(`/feeds/${await idOf('members')}/refresh`);
    const page = () => visitor.page('/reader/feeds');
    await until('the page says so', async () => {
      return (await page()).includes('its credentials are missing');
    });
    assert.equal(seen.get('/members')?.length, count);
    assert.deepEqual(await titles(visitor), ['members: the secret story']);
  });

  it('has its credentials replaced by a header, and taken away, with the rules on it', async () => {
    guarded('/members', 'x-token', 'abc def');
    const mute = { kind: 'boost', field: 'feed', value: 'members', points: '2' };
    assert.match(await visitor.submit('/rules', mute), /Boost the feed members by 2/);
    const path = `/feeds/${await idOf('members')}/credentials`;
    const done = await visitor.submit(path, { header: 'X-Token: abc def' });
    assert.match(done, /kept, and shown nowhere/);
    await until('it is asked with the header', () => {
      return seen.get('/members')?.at(-1)?.['x-token'] === 'abc def';
    });
    assert.equal(seen.get('/members')?.at(-1)?.authorization, undefined);
    for (const header of [
      'Host: evil',
      'X: a\r\nY: b',
      'no colon',
      'X-Token:',
      'If-None-Match: a',
    ]) {
      assert.match(await visitor.submit(path, { header }), /header: a name, a colon/, header);
    }
    const count = seen.get('/members')?.length ?? 0;
    assert.match(await visitor.submit(path), /are gone/);
    await until('it is asked again', () => (seen.get('/members')?.length ?? 0) > count);
    assert.equal(seen.get('/members')?.at(-1)?.['x-token'], undefined);
    assert.match(await visitor.page('/reader/rules'), /Boost the feed http:[^ ]+\/members by 2/);
    const { kysely } = site.ranker.storage.database;
    assert.deepEqual(await kysely.selectFrom('feed_credentials').selectAll().execute(), []);
    // Articles that came by credentials are gone with them: lists follow within a moment.
    await until('they are gone', async () => (await titles(visitor)).length === 0);
  });
});
