import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, before, beforeEach, describe, it } from 'node:test';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { VirtualClock } from 'spillway/testing';
import type { Article as FetchedArticle } from '../src/fetching/article.ts';
import type { Fetcher } from '../src/fetching/fetcher.ts';
import type { FetchOptions } from '../src/fetching/web.ts';
import {
  html,
  openFetcher,
  openSite,
  type Reply,
  refusalOf,
  type Site,
  story,
} from './fetch-scene.ts';

const { text, markup } = story(6);
const page = `<!doctype html><html lang="en"><title>Harbour</title>
  <article>${markup}</article></html>`;

describe('fetching a page', () => {
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
  beforeEach(() => {
    site.asked.length = 0;
  });

  const article = async (path: string, options?: FetchOptions): Promise<FetchedArticle> => {
    const answer = await fetcher.fetchArticle(site.url + path, options);
    assert.ok(answer.kind === 'article', `${path}: ${JSON.stringify(answer)}`);
    return answer.article;
  };
  const reason = async (path: string): Promise<string> => {
    return (await refusalOf(fetcher.fetchArticle(site.url + path))).reason;
  };

  it('gives its text and what it says about itself', async () => {
    site.pages.set('/a', html(page));
    const found = await article('/a?utm_source=x&id=5&fbclid=y#part');
    assert.equal(found.text, text.join('\n\n'));
    const { title, url, source, how } = found;
    assert.deepEqual([title, source, how], ['Harbour', '127.0.0.1', 'static']);
    assert.equal(url, `${site.url}/a?id=5`);
  });

  it('asks again only whether anything has changed', async () => {
    const etag = '"v1"';
    const lastModified = 'Mon, 01 Jan 2024 00:00:00 GMT';
    site.pages.set('/v', (response, { headers }) => {
      const isSame =
        headers['if-none-match'] === etag && headers['if-modified-since'] === lastModified;
      response.writeHead(isSame ? 304 : 200, {
        ...{ 'content-type': 'text/html', etag, 'last-modified': lastModified },
      });
      response.end(isSame ? undefined : page);
    });
    const { validators } = await article('/v');
    assert.deepEqual(validators, { etag, lastModified });
    const answer = await fetcher.fetchArticle(`${site.url}/v`, { validators });
    assert.deepEqual(answer, { kind: 'unchanged', validators });
    site.pages.set('/304', (response) => response.writeHead(304).end());
    assert.equal(await reason('/304'), 'server_error');
  });

  it('follows five redirects and no sixth, and knows a circle', async () => {
    for (let n = 0; n < 7; n += 1) {
      const location = n % 2 === 0 ? `r${n + 1}` : `${site.url}/r${n + 1}`;
      site.pages.set(`/r${n}`, (response) =>
        response.writeHead(301 + (n % 2), { location }).end('x'),
      );
    }
    site.pages.set('/r7', html(page));
    assert.equal((await article('/r2')).url, `${site.url}/r7`);
    assert.equal(await reason('/r1'), 'redirect_loop');
    site.pages.set('/circle', (response) => response.writeHead(307, { location: '/back' }).end());
    site.pages.set('/back', (response) => response.writeHead(307, { location: '/circle' }).end());
    site.asked.length = 0;
    assert.equal(await reason('/circle'), 'redirect_loop');
    assert.deepEqual(site.asked, ['/circle', '/back']);
    site.pages.set('/%C3%BC', (response) => {
      const location = Buffer.from('/straße').toString('latin1');
      response.writeHead(302, { location }).end();
    });
    site.pages.set('/stra%C3%9Fe', html(page));
    assert.equal((await article('/\u00FC')).url, `${site.url}/stra%C3%9Fe`);
    site.pages.set('/nowhere', (response) => response.writeHead(302).end());
    assert.equal(await reason('/nowhere'), 'invalid_url');
  });

  it('undoes compression', async () => {
    const encodings = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync };
    for (const [name, compress] of Object.entries(encodings)) {
      site.pages.set(`/${name}`, (response) => {
        response.writeHead(200, { 'content-type': 'text/html', 'content-encoding': name });
        response.end(compress(page));
      });
      assert.equal((await article(`/${name}`)).text, text.join('\n\n'));
    }
    const encoded = (names: string, body: Uint8Array) => {
      const headers = { 'content-type': 'text/html', 'content-encoding': names };
      site.pages.set('/odd', (response) => response.writeHead(200, headers).end(body));
    };
    encoded('gzip, br', brotliCompressSync(gzipSync(page)));
    assert.equal((await article('/odd')).text, text.join('\n\n'));
    encoded('gzip', Buffer.from(page));
    assert.equal(await reason('/odd'), 'server_error');
    encoded('gzip', gzipSync(page).subarray(0, 200));
    assert.equal(await reason('/odd'), 'server_error');
    encoded('zip', Buffer.from(page));
    assert.equal(await reason('/odd'), 'server_error');
    encoded('gzip, gzip, gzip', gzipSync(gzipSync(gzipSync(page))));
    assert.equal(await reason('/odd'), 'server_error');
  });

  it('takes no more than its maximum, before or after decompression', async () => {
    let sent = 0;
    site.pages.set('/endless', (response) => {
      response.writeHead(200, { 'content-type': 'text/html' });
      const chunk = Buffer.alloc(65_536, 'x');
      const more = () => {
        while (sent < 100 * 1_048_576 && response.write(chunk)) sent += chunk.length;
      };
      response.on('drain', more);
      more();
    });
    assert.equal(await reason('/endless'), 'too_large');
    assert.ok(sent < 20 * 1_048_576, `${sent} bytes were sent`);
    site.pages.set('/announced', (response) => {
      response.writeHead(200, { 'content-type': 'text/html', 'content-length': 104_857_600 });
      response.write('x');
    });
    assert.equal(await reason('/announced'), 'too_large');
    const bomb = gzipSync(gzipSync(Buffer.alloc(50 * 1_048_576)));
    assert.ok(bomb.length < 1_000);
    site.pages.set('/bomb', (response) => {
      response.writeHead(200, { 'content-type': 'text/html', 'content-encoding': 'gzip, gzip' });
      response.end(bomb);
    });
    const before = process.memoryUsage().rss;
    assert.equal(await reason('/bomb'), 'too_large');
    assert.ok(process.memoryUsage().rss - before < 40 * 1_048_576);
  });

  it('gives up on a page that is slow to answer or to go on', async () => {
    const clock = new VirtualClock();
    await using patient = await openFetcher({ clock });
    const replies: Readonly<Record<string, Reply>> = {
      '/silent': () => {},
      '/stuck': (response) => {
        response.writeHead(200, { 'content-type': 'text/html' }).write('<p>and then');
      },
    };
    for (const [path, reply] of Object.entries(replies)) {
      const asked = Promise.withResolvers<void>();
      site.pages.set(path, (response, request) => {
        reply(response, request);
        asked.resolve();
      });
      const answer = refusalOf(patient.fetchArticle(site.url + path));
      await asked.promise;
      await clock.advance(15_000);
      const given = await answer;
      assert.equal(given.reason, 'timeout', path);
    }
    const { lane } = patient.stats.web;
    assert.deepEqual([lane.inside, lane.waiting], [0, 0]);
  });

  it('stops at once when its caller does', async () => {
    const asked = Promise.withResolvers<void>();
    const left = Promise.withResolvers<void>();
    site.pages.set('/left', (response) => {
      response.on('close', left.resolve);
      asked.resolve();
    });
    const caller = new AbortController();
    const answer = fetcher.fetchArticle(`${site.url}/left`, { signal: caller.signal });
    await asked.promise;
    caller.abort(new Error('no longer wanted'));
    await assert.rejects(answer, /no longer wanted/);
    await left.promise;
  });

  it('takes HTML only, by type and by content', async () => {
    const png = Buffer.from('89504e470d0a1a0a0000000d49484452000001000000010008020000', 'hex');
    const types = ['image/png', 'application/pdf', 'text/plain', 'application/octet-stream'];
    for (const type of types) {
      site.pages.set('/type', html(page, type));
      assert.equal(await reason('/type'), 'not_html', type);
    }
    site.pages.set('/png', html(Buffer.concat([png, Buffer.alloc(500)])));
    assert.equal(await reason('/png'), 'not_html');
    site.pages.set('/none', (response) => response.writeHead(200).end(page));
    assert.equal((await article('/none')).title, 'Harbour');
    site.pages.set('/xhtml', html(page, 'application/xhtml+xml'));
    assert.equal((await article('/xhtml')).title, 'Harbour');
  });

  it('says what a status means', async () => {
    const meanings = {
      ...{ 401: 'blocked', 402: 'paywall', 403: 'blocked', 404: 'not_found', 410: 'not_found' },
      ...{ 418: 'blocked', 451: 'blocked', 500: 'server_error', 501: 'server_error' },
    };
    for (const [status, meaning] of Object.entries(meanings)) {
      site.pages.set(`/${status}`, (response) => response.writeHead(Number(status)).end(page));
      assert.equal(await reason(`/${status}`), meaning, status);
    }
    assert.equal(site.asked.length, Object.keys(meanings).length);
  });

  it('tries once more where the server or the way there failed', async () => {
    let calls = 0;
    site.pages.set('/moody', (response) => {
      calls += 1;
      if (calls === 1) response.writeHead(503).end();
      else html(page)(response, response.req);
    });
    assert.equal((await article('/moody')).title, 'Harbour');
    site.pages.set('/broken', (response) => response.destroy());
    site.asked.length = 0;
    assert.equal(await reason('/broken'), 'server_error');
    assert.deepEqual(site.asked, ['/broken', '/broken']);
    const closed = createServer().listen(0, '127.0.0.1');
    await once(closed, 'listening');
    const { port } = closed.address() as { port: number };
    closed.close();
    await once(closed, 'close');
    const answer = await refusalOf(fetcher.fetchArticle(`http://127.0.0.1:${port}/`));
    assert.equal(answer.reason, 'server_error');
  });

  it('survives what is no HTTP', async () => {
    const server = createServer((socket) => socket.on('error', () => {}).end('SSH-2.0-hello\r\n'));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const answer = await refusalOf(fetcher.fetchArticle(`http://127.0.0.1:${port}/`));
    assert.equal(answer.reason, 'server_error');
    server.close();
  });
});

describe('closing a fetcher', () => {
  it('gives up what is under way', async () => {
    await using site = await openSite();
    const asked = Promise.withResolvers<void>();
    site.pages.set('/', () => asked.resolve());
    const fetcher = await openFetcher();
    const answer = assert.rejects(fetcher.fetchArticle(`${site.url}/`), { code: 'LANE_CLOSED' });
    await asked.promise;
    await fetcher.close();
    await answer;
    await fetcher.close();
  });

  it('names the option that is wrong', async () => {
    const wrong = [
      [{ workers: 0 }, /^Pool: workers: /],
      [{ fetchMsMax: 0 }, /^fetchMsMax: /],
      [{ browser: { path: 'chromium' }, pageMsMax: 0 }, /^pageMsMax: /],
      [{ bytesMax: 0.5 }, /^bytesMax: /],
      [{ textCharsMin: 0 }, /^textCharsMin: /],
      [{ politeness: { hostsMax: 0 } }, /^hostsMax: /],
    ] as const;
    for (const [options, message] of wrong) await assert.rejects(openFetcher(options), { message });
  });
});
