import assert from 'node:assert/strict';
import { readdir, stat } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { wallClock } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import type { FetcherOptions } from '../src/fetching/fetcher.ts';
import { Images } from '../src/reader/images.ts';
import { openFetcher, openSite, type Site } from './fetch-scene.ts';
import { NewsSite } from './fixtures/news-site.ts';
import { png } from './fixtures/pictures.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { temporaryFolder } from './fixtures/stored-ranker.ts';
import { until } from './fixtures/until.ts';
import { Visitor } from './fixtures/visitor.ts';

const send = (response: ServerResponse, body: string | Buffer, type = 'image/png') =>
  response.writeHead(200, { 'content-type': type }).end(body);

describe('pictures of articles', () => {
  const stack = new AsyncDisposableStack();
  let site: RankerSite;
  let news: NewsSite;
  let visitor: Visitor;
  before(async () => {
    news = stack.use(await NewsSite.open());
    site = stack.use(await RankerSite.open());
    visitor = new Visitor(site.url);
    await visitor.logIn(site.key);
  });
  after(() => stack.disposeAsync());

  it('are shown from our own server, which asks theirs once', async () => {
    const picture = png(40, 30);
    news.page('/ferry.png', (_request, response) => send(response, picture));
    const text =
      '&lt;p&gt;The ferry has come.&lt;/p&gt;&lt;img src="/ferry.png" alt="A &lt;b&gt;"&gt;';
    const address = news.page('/feed', (_request, response) => {
      const item = `<item><title>Ferry</title><link>${news.url}/ferry</link>
<description>${text}&lt;p&gt;It leaves at nine.&lt;/p&gt;</description></item>`;
      const feed = `<rss version="2.0"><channel><title>Port</title>${item}</channel></rss>`;
      send(response, feed, 'application/rss+xml');
    });
    await visitor.submit('/feeds', { url: address });
    let id: string | undefined;
    await until('the article is listed', async () => {
      id = /data-article="([^"]+)"/.exec(await visitor.page('/reader?list=all'))?.[1];
      return id !== undefined;
    });
    const answer = await visitor.get(`/reader?open=${id}`);
    assert.match(String(answer.headers.get('content-security-policy')), /default-src 'self'/);
    const page = await answer.text();
    const [, src = '', alt] =
      /<figure><img src="([^"]+)" alt="([^"]*)" loading="lazy"/.exec(page) ?? [];
    assert.match(src, /^\/reader\/images\//);
    assert.equal(alt, 'A &lt;b&gt;');
    assert.match(page, /come\.<\/p><figure>[\s\S]*<\/figure><p>It leaves/);
    for (let round = 0; round < 3; round += 1) {
      const image = await visitor.get(src.replaceAll('&amp;', '&'), 'image/*');
      assert.equal(image.status, 200);
      assert.equal(image.headers.get('content-type'), 'image/png');
      assert.match(String(image.headers.get('content-security-policy')), /'none'; sandbox/);
      assert.equal(image.headers.get('x-content-type-options'), 'nosniff');
      assert.deepEqual(Buffer.from(await image.arrayBuffer()), picture);
    }
    assert.equal(news.asked.get('/ferry.png'), 1);
  });

  it('are fetched for nobody else, and by no address that was not shown', async () => {
    const signed = /^(\/reader\/images\/)([^?]+)\?u=/;
    const images = await Images.open({
      fetcher: site.ranker.fetcher,
      key: 'another key',
      clock: wallClock,
    });
    const path = images.path(`${news.url}/other.png`, site.userId);
    const [, , signature] = signed.exec(path) ?? [];
    const key = await site.ranker.storage.secret('session_key');
    const { fetcher } = site.ranker;
    const own = await Images.open({ fetcher, key, clock: wallClock });
    for (const forged of [
      path,
      // Shown to another user.
      own.path(`${news.url}/other.png`, 'bob'),
      `/reader/images/${signature}x?u=${encodeURIComponent(news.url)}`,
      `/reader/images/?u=${encodeURIComponent(news.url)}`,
      `/reader/images/${signature}`,
    ]) {
      const status = (await visitor.get(forged, 'image/*')).status;
      assert.ok([404, 422].includes(status), `${forged}: ${status}`);
    }
    assert.equal((await new Visitor(site.url).get(path, 'image/*')).status, 401);
    assert.equal(news.asked.get('/other.png'), undefined);
  });
});

describe('a picture that is fetched', () => {
  const stack = new AsyncDisposableStack();
  let host: Site;
  before(async () => {
    host = stack.use(await openSite());
  });
  after(() => stack.disposeAsync());

  const opened = async (bytesMax?: number, options: FetcherOptions = {}) => {
    const fetcher = stack.use(await openFetcher(options));
    const folder = await temporaryFolder(stack);
    const images = await Images.open({ fetcher, folder, bytesMax, key: 'k', clock: wallClock });
    const read = (path: string, user = 'ada') =>
      images.read(`${host.url}${path}`, user, AbortSignal.timeout(60_000));
    return { images, folder, fetcher, read };
  };

  it('is a picture of a bearable size, from the public internet, or it is refused', async () => {
    const { images, read } = await opened();
    let written = 0;
    const endless = (response: ServerResponse, chunk: Buffer) => {
      response.on('error', () => {});
      const more = () => {
        while (!response.destroyed && response.write(chunk)) written += chunk.length;
      };
      response.writeHead(200, { 'content-type': 'image/png' });
      response.on('drain', more);
      more();
    };
    const svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>';
    const script = '<!doctype html><script>alert(1)</script>'.padEnd(100);
    const hostile: Record<string, [(response: ServerResponse) => unknown, RegExp]> = {
      '/private': [
        (response) => response.writeHead(302, { location: 'http://10.0.0.1/x.png' }).end(),
        /private_address/,
      ],
      '/metadata': [
        (response) => response.writeHead(302, { location: 'http://169.254.169.254/' }).end(),
        /private_address/,
      ],
      '/loop': [
        (response) => response.writeHead(302, { location: '/loop' }).end(),
        /redirect_loop/,
      ],
      '/file': [
        (response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end(),
        /invalid_url/,
      ],
      '/endless': [(response) => endless(response, Buffer.alloc(65_536, 7)), /too_large/],
      '/page': [(response) => send(response, script), /not_image/],
      '/svg': [(response) => send(response, svg, 'image/svg+xml'), /not_image/],
      '/short': [(response) => send(response, '\x89PNG'), /not_image/],
      '/huge': [(response) => send(response, png(100_000, 100_000, 1)), /too_large.*pixels/],
      '/long': [
        (response) => response.writeHead(200, { 'content-length': 9e9 }).write('x'),
        /too_large/,
      ],
      '/hidden': [
        // Libraries skip what is between two segments, and find a frame of 65,535 x 65,535 pixels.
        (response) => send(response, Buffer.from(`ffd8ffe00004010200${'00'.repeat(40)}`, 'hex')),
        /not_image/,
      ],
      '/gone': [(response) => response.writeHead(404).end(), /not_found/],
    };
    for (const [path, [reply, message]] of Object.entries(hostile)) {
      host.pages.set(path, reply);
      await assert.rejects(read(path), { code: 'ARTICLE_UNAVAILABLE', message }, path);
    }
    assert.ok(written < 64 * 1_048_576, `${written} bytes were taken`);
    assert.deepEqual(images.stats, { kind: 'images', files: 0, bytes: 0 });
    const asked = host.asked.length;
    await assert.rejects(read('/gone'), /not_found/);
    assert.equal(host.asked.length, asked, 'what has failed is left alone for a while');
  });

  it('is given up when it takes too long', async () => {
    const { read } = await opened(undefined, { fetchMsMax: 300 });
    host.pages.set('/slow', (response) => response.writeHead(200).write('\x89PNG'));
    await assert.rejects(read('/slow'), { code: 'ARTICLE_UNAVAILABLE', message: /timeout/ });
    host.pages.set('/other', (response) => send(response, png(20, 20)));
    await assert.rejects(read('/other'), /timeout/, 'nor is its host asked for another at once');
    assert.ok(!host.asked.includes('/other'));
  });

  it('is kept on disk within a bound, and there after a restart', async () => {
    const picture = png(60, 60);
    const bytesMax = 3 * picture.length;
    const { images, folder, fetcher, read } = await opened(bytesMax);
    for (const name of ['a', 'b', 'c', 'd']) {
      host.pages.set(`/${name}.png`, (response) => send(response, picture));
    }
    for (const name of ['a', 'b', 'c', 'a', 'd', 'a']) await read(`/${name}.png`);
    const asked = () => host.asked.filter((path) => path === '/a.png').length;
    assert.equal(asked(), 1, 'the one in use stays');
    assert.deepEqual(images.stats, { kind: 'images', files: 3, bytes: bytesMax });
    const files = await readdir(folder);
    const sizes = await Promise.all(files.map(async (one) => (await stat(join(folder, one))).size));
    assert.equal(
      sizes.reduce((sum, one) => sum + one, 0),
      bytesMax,
    );
    const again = await Images.open({ fetcher, folder, bytesMax, key: 'k', clock: wallClock });
    const found = await again.read(`${host.url}/a.png`, 'ada', AbortSignal.timeout(60_000));
    assert.deepEqual(Buffer.from(found), picture);
    assert.equal(asked(), 1);
    const smaller = { fetcher, folder, bytesMax: picture.length, key: 'k', clock: wallClock };
    await Images.open(smaller);
    assert.equal((await readdir(folder)).length, 1, 'a smaller bound is kept at the next start');
  });

  it('is fetched once for all who ask at a time', async () => {
    const { read } = await opened();
    host.pages.set('/once.png', (response) => send(response, png(20, 20)));
    await Promise.all(Array.from({ length: 20 }, () => read('/once.png')));
    assert.equal(host.asked.filter((path) => path === '/once.png').length, 1);
  });

  it('has a place beside all that another user waits for', async () => {
    const { images } = await opened(undefined, { clock: new VirtualClock() });
    const held: ServerResponse[] = [];
    for (let at = 0; at < 40; at += 1) {
      host.pages.set(`/held${at}`, (response) => void held.push(response));
    }
    const left = new AbortController();
    const askHeld = (at: number) => images.read(`${host.url}/held${at}`, 'eve', left.signal);
    const ended = Promise.allSettled(Array.from({ length: 40 }, (_, at) => askHeld(at)));
    await assert.rejects(askHeld(0), { code: 'GATE_FULL' });
    const other = stack.use(await openSite());
    other.pages.set('/quick.png', (response) => send(response, png(20, 20)));
    await images.read(`${other.url}/quick.png`, 'bob', AbortSignal.timeout(60_000));
    assert.ok(held.length <= 8, `${held.length} were asked for`);
    left.abort();
    await ended;
  });

  it('has its turn before what another user asked for earlier', async () => {
    const { fetcher } = await opened(undefined, { clock: new VirtualClock() });
    const held: ServerResponse[] = [];
    const left = new AbortController();
    const ended: Promise<unknown>[] = [];
    for (let at = 0; at < 60; at += 1) {
      host.pages.set(`/place${at}`, (response) => void held.push(response));
      const asked = { key: 'eve', signal: left.signal };
      ended.push(fetcher.fetchImage(`${host.url}/place${at}`, asked).catch(() => {}));
    }
    // Two are answered: the key that waits longest has one turn before a new one.
    while (held.length < 2) await new Promise((resolve) => setImmediate(resolve));
    const { inside, waiting } = fetcher.stats.images.lane;
    assert.deepEqual([inside, waiting], [32, 28]);
    const other = stack.use(await openSite());
    other.pages.set('/quick.png', (response) => send(response, png(20, 20)));
    const quick = fetcher.fetchImage(`${other.url}/quick.png`, { key: 'bob' });
    for (const response of held.splice(0, 2)) response.writeHead(404).end();
    assert.ok((await quick).length > 0);
    assert.ok(fetcher.stats.images.lane.waiting >= 26, 'the others wait still');
    left.abort();
    await Promise.all(ended);
  });
});
