import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import type { Fetcher } from '../src/fetching/fetcher.ts';
import { html, openFetcher, openSite, refusalOf, type Site, story } from './fetch-scene.ts';

const { text, markup } = story(6);
/** A page whose text comes in two steps, some time after everything has loaded. */
const scripted = `<!doctype html><html><title>App</title><link rel="canonical" href="/named">
  <div id="root"></div><noscript>Please enable JavaScript.</noscript><img src="/picture.png">
  <script>setTimeout(() => fetch('/data').then((answer) => answer.text()).then((words) => {
    document.getElementById('root').innerHTML = '<article><h1>App</h1>' + words + '</article>';
  }), 300)</script></html>`;

/** True if this machine lets a user make the namespaces that the sandbox is built of. */
const sandbox = spawnSync('unshare', ['--user', '--pid', '--fork', 'true']).status === 0;

/** The browsers that this very process has started and that still run. */
function browsersAlive(): number {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => {
    try {
      // "pid (name) state parent ..."; a name may have spaces.
      const [, parent] = /\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
      if (Number(parent) !== process.pid) return false;
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('remote-debugging-pipe');
    } catch {
      return false;
    }
  }).length;
}

describe('a page that needs scripts', async () => {
  let site: Site;
  let fetcher: Fetcher;

  before(async () => {
    site = await openSite();
    fetcher = await openFetcher({ browser: { sandbox } });
    assert.ok(fetcher.stats.browser, 'no browser was found');
    site.pages.set('/app', html(scripted));
    site.pages.set('/data', html(markup));
  });
  after(async () => {
    await fetcher.close();
    await site[Symbol.asyncDispose]();
    assert.equal(browsersAlive(), 0);
  });

  it('is read by a browser, once its text has come to rest', async () => {
    const answer = await fetcher.fetchArticle(`${site.url}/app`);
    assert.ok(answer.kind === 'article', JSON.stringify(answer));
    assert.equal(answer.article.how, 'browser');
    assert.equal(answer.article.text, text.join('\n\n'));
    assert.equal(answer.article.url, `${site.url}/named`);
    assert.ok(!site.asked.includes('/picture.png'), 'a picture was loaded');
    assert.equal(fetcher.stats.browser?.started, 1);
  });

  it('is given up when it never ends, and its place is free again', async () => {
    const clock = new VirtualClock();
    await using patient = await openFetcher({ browser: { sandbox }, clock });
    const loop = html('<title>Loop</title><script>for (;;);</script>');
    for (let round = 0; round < 3; round += 1) {
      const rendering = Promise.withResolvers<void>();
      let times = 0;
      site.pages.set('/loop', (response, request) => {
        loop(response, request);
        times += 1;
        if (times === 2) rendering.resolve();
      });
      const answer = refusalOf(patient.fetchArticle(`${site.url}/loop`));
      await rendering.promise;
      await clock.advance(45_000);
      const given = await answer;
      assert.equal(given.reason, 'timeout');
    }
    assert.equal((await patient.fetchArticle(`${site.url}/app`)).kind, 'article');
  });

  it('is too short if it stays empty, or if nobody can run its scripts', async () => {
    await using plain = await openFetcher();
    site.pages.set('/idle', html('<title>Idle</title><div id="app"></div>'));
    const answers = await Promise.all([
      refusalOf(fetcher.fetchArticle(`${site.url}/idle`)),
      refusalOf(plain.fetchArticle(`${site.url}/app`)),
    ]);
    const reasons = answers.map(({ reason }) => reason);
    assert.deepEqual(reasons, ['too_short', 'too_short']);
  });

  it('reaches nothing that is not public, by whatever way', async () => {
    await using inner = await openSite('127.0.0.2');
    const packets: Buffer[] = [];
    const datagrams = createSocket('udp4', (packet) => packets.push(packet));
    datagrams.bind(inner.port, '127.0.0.2');
    inner.pages.set('/', (response) => {
      response.writeHead(200, { 'access-control-allow-origin': '*' }).end('secret '.repeat(100));
    });
    site.pages.set('/hop', (response) => {
      response
        .writeHead(302, { location: `${inner.url}/`, 'access-control-allow-origin': '*' })
        .end();
    });
    site.pages.set(
      '/spy',
      html(`<title>Spy</title><div id="root"></div><script>
        const seen = [];
        const tell = (words) => {
          seen.push(words);
          document.getElementById('root').innerText = seen.join(' ') + '.';
        };
        const read = (answer) => answer.text().then((text) => tell(answer.status + text));
        const look = (url) => fetch(url).then(read, tell);
        look('${inner.url}/').then(() => look('/hop'))
          .then(() => look('http://localhost:${inner.port}/'))
          .then(() => look('http://127.0.0.1.nip.example:${inner.port}/'));
        const socket = new WebSocket('${inner.url.replace('http', 'ws')}/');
        socket.onopen = () => tell('socket open');
        socket.onerror = () => tell('socket refused '.repeat(20));
        const frame = document.createElement('iframe');
        frame.src = '${inner.url}/';
        document.body.append(frame);
        const script = document.createElement('script');
        script.src = '${inner.url}/';
        document.body.append(script);
        const peer = new RTCPeerConnection({
          iceServers: [{ urls: 'stun:127.0.0.2:${inner.port}' }],
        });
        peer.createDataChannel('x');
        peer.createOffer().then((offer) => peer.setLocalDescription(offer));
      </script>`),
    );
    const answer = await fetcher.fetchArticle(`${site.url}/spy`);
    assert.ok(answer.kind === 'article', JSON.stringify(answer));
    assert.doesNotMatch(answer.article.text, /secret|socket open/);
    assert.match(answer.article.text, /socket refused/);
    assert.deepEqual(inner.asked, []);
    datagrams.close();
    assert.deepEqual(packets, []);
  });

  it('is told apart from one with a text of its own, which costs no browser', {}, async () => {
    const before = fetcher.stats.browser?.pages;
    site.pages.set('/static', html(`<div id="root"><article>${markup}</article></div>`));
    const answer = await fetcher.fetchArticle(`${site.url}/static`);
    assert.equal(answer.kind === 'article' && answer.article.how, 'static');
    assert.equal(fetcher.stats.browser?.pages, before);
  });

  it('stops at once when its caller does', async () => {
    const asked = Promise.withResolvers<void>();
    site.pages.set('/slow', html('<div id="root"></div><script src="/never.js"></script>'));
    site.pages.set('/never.js', () => asked.resolve());
    const caller = new AbortController();
    const answer = fetcher.fetchArticle(`${site.url}/slow`, { signal: caller.signal });
    await asked.promise;
    caller.abort(new Error('no longer wanted'));
    await assert.rejects(answer, /no longer wanted/);
  });
});

describe('a browser', () => {
  it('that does not start leaves pages without scripts readable', async () => {
    await using site = await openSite();
    site.pages.set('/app', html(scripted));
    site.pages.set('/plain', html(`<article>${markup}</article>`));
    await using fetcher = await openFetcher({ browser: { path: '/bin/false' } });
    const empty = await refusalOf(fetcher.fetchArticle(`${site.url}/app`));
    assert.equal(empty.reason, 'too_short');
    assert.match(empty.detail, /does not start/);
    assert.equal((await fetcher.fetchArticle(`${site.url}/plain`)).kind, 'article');
    // It is not tried again for each page.
    await refusalOf(fetcher.fetchArticle(`${site.url}/app`));
    assert.equal(fetcher.stats.browser?.started, 1);
  });

  it('is replaced after some pages, and closed when nobody needs it', async () => {
    await using site = await openSite();
    site.pages.set('/app', html(scripted));
    site.pages.set('/data', html(markup));
    const clock = new VirtualClock();
    const fetcher = await openFetcher({
      browser: { pagesMax: 1, idleMsMax: 5_000, sandbox },
      clock,
    });
    try {
      for (let page = 1; page <= 2; page += 1) {
        const { kind } = await fetcher.fetchArticle(`${site.url}/app`);
        assert.deepEqual([kind, fetcher.stats.browser?.started], ['article', page]);
      }
      assert.equal(fetcher.stats.browser?.isRunning, true);
      await clock.advance(5_000);
      assert.equal(fetcher.stats.browser?.isRunning, false);
    } finally {
      await fetcher.close();
    }
    assert.equal(browsersAlive(), 0);
  });
});
