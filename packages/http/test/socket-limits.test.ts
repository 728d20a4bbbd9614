import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { createServer, WebSocketHub } from 'spillway-http';
import { closeCode, nextText, Scene, settled, until } from './socket-scene.ts';

/** Returns once a socket was closed for its rate: its timer then runs beside that of the hub. */
async function untilCut(clock: VirtualClock): Promise<void> {
  await until(() => clock.pending === 2);
}

describe('the limits of a WebSocketHub', () => {
  it('closes a socket that sends too many messages with 1008, and no other', async () => {
    let handled = 0;
    const clock = new VirtualClock();
    await using scene = await Scene.open(
      { messagesPerSecond: 10, messageBurst: 5, clock },
      {
        message: (socket) => {
          handled += 1;
          socket.send('ok');
        },
      },
    );
    const [flooder, calm] = [await scene.connect(), await scene.connect()];
    const code = closeCode(flooder);
    for (let n = 0; n < 500; n += 1) flooder.send('flood');
    await untilCut(clock);
    await settled(() => handled);
    await clock.advance(1_000);
    assert.equal(await code, 1008);
    assert.equal(handled, 5);
    const answer = nextText(calm);
    calm.send('hello');
    assert.equal(await answer, 'ok');
    await until(() => scene.hub.stats.open === 1);
    assert.deepEqual(scene.hub.stats.closed, { rate: 1 });
  });

  for (const kind of ['ping', 'pong'] as const) {
    it(`counts a ${kind} as a message`, async () => {
      const clock = new VirtualClock();
      await using scene = await Scene.open({ messageBurst: 5, clock }, {});
      const client = await scene.connect();
      let answers = 0;
      client.on('pong', () => {
        answers += 1;
      });
      const code = closeCode(client);
      for (let n = 0; n < 500; n += 1) client[kind]('content');
      await untilCut(clock);
      await clock.advance(1_000);
      assert.equal(await code, 1008);
      assert.equal(answers, kind === 'ping' ? 5 : 0);
      await until(() => scene.hub.stats.open === 0);
      assert.deepEqual(scene.hub.stats.closed, { rate: 1 });
    });
  }

  it('reads nothing more from a peer that sent too much', async () => {
    const clock = new VirtualClock();
    await using scene = await Scene.open({ messageBurst: 5, clock }, {});
    const client = await scene.connect();
    const code = closeCode(client);
    for (let n = 0; n < 10; n += 1) client.send('flood');
    await untilCut(clock);
    // More than the system's buffers hold, so that some of it waits if nobody reads.
    for (let n = 0; n < 100; n += 1) client.send(Buffer.alloc(200_000));
    await settled(() => client.bufferedAmount);
    assert.ok(client.bufferedAmount > 1_000_000, 'it went on reading');
    await clock.advance(1_000);
    assert.equal(await code, 1008);
  });

  it('ends a message that comes in too many frames', async () => {
    await using scene = await Scene.open({}, {});
    const client = await scene.connect();
    const code = closeCode(client);
    for (let n = 0; n < 2_000; n += 1) client.send('', { fin: false });
    assert.equal(await code, 1008);
    await until(() => scene.hub.stats.open === 0);
    assert.deepEqual(scene.hub.stats.closed, { protocol: 1 });
  });

  for (const size of [1_001, 20_000_000]) {
    it(`closes with 1009 at a message of ${size} bytes, before it has come`, async () => {
      await using scene = await Scene.open({ messageBytesMax: 1_000 }, {});
      const client = await scene.connect();
      const code = closeCode(client);
      client.send('x'.repeat(size));
      assert.equal(await code, 1009);
      await until(() => scene.hub.stats.open === 0);
      assert.deepEqual(scene.hub.stats.closed, { size: 1 });
      assert.equal(scene.hub.stats.messagesIn, 0);
    });
  }

  it('closes with 1009 at a frame that announces more bytes than a number can hold', async () => {
    await using scene = await Scene.open({}, {});
    const client = await scene.connect();
    const code = closeCode(client);
    const { _socket: socket } = client as unknown as { readonly _socket: Socket };
    socket.write(Buffer.from([0x82, ...new Array<number>(9).fill(0xff), 0, 0, 0, 0]));
    assert.equal(await code, 1009);
    await until(() => scene.hub.stats.open === 0);
    assert.deepEqual(scene.hub.stats.closed, { size: 1 });
  });

  it('takes sockets from the same host, or from the origins it was given', async () => {
    await using same = await Scene.open({}, {});
    const own = `http://127.0.0.1:${same.port}`;
    await same.connect({ origin: own });
    await same.connect();
    for (const origin of ['http://evil.example', 'null', `${own}.evil.example`, '127.0.0.1']) {
      assert.deepEqual(await same.refusal({ origin }), [403, 'SOCKET_ORIGIN'], origin);
    }
    assert.equal(same.hub.stats.refused.origin, 4);
    await using listed = await Scene.open({ origins: ['https://a.example'] }, {});
    await listed.connect({ origin: 'https://a.example' });
    const other = { origin: `http://127.0.0.1:${listed.port}` };
    assert.deepEqual(await listed.refusal(other), [403, 'SOCKET_ORIGIN']);
  });

  it('refuse before the upgrade, in all or for one address, and free places', async () => {
    await using scene = await Scene.open({ socketsMax: 3, socketsPerAddressMax: 2 }, {});
    const first = await scene.connect();
    await scene.connect();
    assert.deepEqual(await scene.refusal(), [503, 'SOCKETS_FULL']);
    first.close();
    await until(() => scene.hub.stats.open === 1);
    await scene.connect();
    await using small = await Scene.open({ socketsMax: 1 }, {});
    await small.connect();
    assert.deepEqual(await small.refusal(), [503, 'SOCKETS_FULL']);
    assert.equal(small.hub.stats.refused.full, 1);
  });

  it('cannot be more than the connections of its server', async () => {
    const small = { connectionsMax: 100 };
    await assert.rejects(
      createServer({ ...small, hub: new WebSocketHub({ socketsMax: 101 }) }),
      /socketsMax: must be at most connectionsMax of the server, 100, got 101/,
    );
    await using _ = await createServer({ ...small, hub: new WebSocketHub({ socketsMax: 100 }) });
    await using _defaults = await createServer({ hub: new WebSocketHub() });
  });

  it('upgrades nothing but its own routes', async () => {
    await using scene = await Scene.open({}, {});
    assert.deepEqual(await scene.refusal({}, '/page'), [404, 'NOT_FOUND']);
    const plain = await fetch(`http://127.0.0.1:${scene.port}/live`);
    assert.equal(plain.status, 404);
    const page = await fetch(`http://127.0.0.1:${scene.port}/page`);
    assert.equal(await page.text(), 'page');
  });
});
