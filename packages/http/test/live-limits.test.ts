import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import type { LivePageOptions } from 'spillway-http';
import { type Board, load, type Site, setTitle, site, until } from './fixtures/board.ts';
import { EventReader } from './fixtures/event-reader.ts';

describe('live pages together', () => {
  it('refuse more listeners than they may have', async () => {
    const key: LivePageOptions['key'] = (request) => String(request.headers['last-event-id']);
    const { app, url } = await site({ listenersMax: 3 }, { key });
    await using _app = app;
    const open = (name: string) => EventReader.open(`${url}/_live`, name);
    const refused = async (name: string) => {
      const answer = await fetch(`${url}/_live`, { headers: { 'last-event-id': name } });
      assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '5']);
      assert.equal(((await answer.json()) as { code: string }).code, 'LIVE_FULL');
    };
    await using _first = await open('a');
    const second = await open('a');
    await using _third = await open('b');
    await refused('c');
    assert.equal(app.liveStats().listeners, 3);
    await second[Symbol.asyncDispose]();
    await until(() => app.liveStats().listeners === 2);
    await using _fourth = await open('a');
  });

  it('remember few views and little text, but always what is listened to', async () => {
    const key: LivePageOptions['key'] = (request) => String(request.headers['x-key']);
    const { app, url, state } = await site({ viewsMax: 3, lengthMax: 20_000 }, { key });
    await using _app = app;
    const get = (name: string) => fetch(url, { headers: { 'x-key': name } }).then((r) => r.text());
    const watch = (name: string) => fetch(`${url}/_live`, { headers: { 'x-key': name } });
    const length = (await get('a')).length;
    for (const name of 'bcdefgh') await get(name);
    const stats = app.liveStats();
    assert.ok(length > 5_000 && stats.length <= 20_000 && stats.views <= 3, `${length}`);
    const watched = [await watch('a'), await watch('b'), await watch('c')];
    for (let n = 0; n < 20; n += 1) {
      state.update(setTitle(`${n}`));
      await get(`other ${n}`);
    }
    assert.equal(app.liveStats().views, 3);
    assert.ok(app.liveStats().length < 3 * length, `${app.liveStats().length}`);
    assert.equal((await watch('d')).status, 503);
    assert.equal((await fetch(url)).status, 200);
    for (const { body } of watched) await body?.cancel();
    await until(() => app.liveStats().listeners === 0);
    assert.equal((await watch('d')).status, 200);
  });

  it('end their streams when the server closes', async () => {
    const { app, url } = await site();
    const { version } = await load(url);
    await using reader = await EventReader.open(`${url}/_live`, version);
    const end = reader.next();
    await app.close();
    assert.equal(await end, undefined);
    assert.equal(app.liveStats().listeners, 0);
  });

  it('give out their scripts with an ETag', async () => {
    const { app, url } = await site();
    await using _app = app;
    for (const name of ['live-client.js', 'live-dom.js']) {
      const script = await fetch(`${url}/_live/${name}`);
      const etag = script.headers.get('etag') ?? '';
      assert.equal(script.headers.get('content-type'), 'text/javascript; charset=utf-8');
      assert.match(etag, /^"[\w-]{16}"$/);
      const headers = { 'if-none-match': etag };
      assert.equal((await fetch(script.url, { headers })).status, 304);
    }
  });
});

describe('a browser that does not read', () => {
  async function stuckSocket({ app, url }: Site): Promise<[Socket, Socket]> {
    const accepted = once(app.server, 'connection');
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.pause();
    socket.write('GET /_live HTTP/1.1\r\nHost: a\r\n\r\n');
    const [server] = await accepted;
    await until(() => app.liveStats().listeners === 1);
    return [socket, server as Socket];
  }

  const fill =
    (n: number) =>
    (draft: Board): undefined => {
      draft.rows = Array.from({ length: 2_000 }, (_, row) => `row ${row} of ${n}`);
    };

  it('takes bounded memory, and skips to the newest version when it reads again', async () => {
    const made = await site();
    await using _app = made.app;
    const [socket, server] = await stuckSocket(made);
    let most = 0;
    for (let n = 0; n < 200; n += 1) {
      made.state.update(fill(n));
      await until(() => made.renders.length >= n + 2);
      most = Math.max(most, server.writableLength);
    }
    assert.ok(most < 300_000, `${most} bytes wait`);
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    socket.resume();
    await until(() => text.includes('row 1999 of 199'));
    const versions = text.match(/^id: /gm) ?? [];
    assert.ok(versions.length < 100, `${versions.length} versions came`);
    socket.destroy();
    await until(() => made.app.liveStats().listeners === 0);
  });

  it('is cut off when it takes nothing from one heartbeat to the next', async () => {
    const clock = new VirtualClock();
    const made = await site({ clock, keepAliveMs: 1_000 });
    await using _app = made.app;
    const { version } = await load(made.url);
    await using reader = await EventReader.open(`${made.url}/_live`, version);
    const [socket, server] = await stuckSocket(made).catch(() => assert.fail('no socket'));
    let n = 0;
    while (!server.writableNeedDrain) {
      made.state.update(fill(n++));
      await reader.next();
    }
    assert.equal(made.app.liveStats().listeners, 2);
    await clock.advance(1_000);
    await clock.advance(1_000);
    await until(() => made.app.liveStats().listeners === 1);
    await once(socket.resume(), 'close');
    made.state.update(setTitle('on'));
    assert.deepEqual((await reader.next())?.content, [['t', [0], 'on']]);
  });
});
