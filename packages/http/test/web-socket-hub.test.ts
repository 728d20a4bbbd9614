import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { Lane } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import {
  createServer,
  type HubSocket,
  WebSocketHub,
  type WebSocketHubOptions,
} from 'spillway-http';
import { WebSocket } from 'ws';
import { awaited, closeCode, nextText, Scene, settled, until } from './socket-scene.ts';

describe('WebSocketHub', () => {
  it('carries text and bytes of every frame length both ways, unchanged', async () => {
    await using scene = await Scene.open(
      { messagesPerSecond: 1_000, messageBurst: 1_000 },
      { message: (socket, message) => void socket.send(message) },
    );
    const client = await scene.connect();
    for (const length of [0, 1, 125, 126, 65_535, 65_536, 200_000]) {
      for (const message of ['é'.repeat(length / 2), Buffer.alloc(length, length)]) {
        const echo = once(client, 'message');
        client.send(message);
        const [data, isBinary] = await echo;
        assert.equal(isBinary, typeof message !== 'string');
        assert.ok(Buffer.from(message as string).equals(data), `${length} ${typeof message}`);
      }
    }
    assert.equal(scene.hub.stats.messagesIn, 14);
    assert.equal(scene.hub.stats.messagesOut, 14);
  });

  it('sends broadcasts to the members of the room, in the order of the calls', async () => {
    await using scene = await Scene.open(
      {},
      {
        open: (socket, request) => {
          scene.hub.join(socket, (request.query as { room: string }).room);
        },
      },
    );
    const open = async (room: string) => {
      const client = scene.client({}, `/live?room=${room}`);
      const texts: string[] = [];
      client.on('message', (data) => texts.push(String(data)));
      await once(client, 'open');
      return { client, texts };
    };
    const [a, b, c] = [await open('red'), await open('red'), await open('blue')];
    await until(() => scene.hub.count('red') === 2 && scene.hub.count('blue') === 1);
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, n) => scene.hub.broadcast('red', `${n}`)),
    );
    assert.ok(results.every(({ sent, dropped }) => sent === 2 && dropped === 0));
    assert.deepEqual(await scene.hub.broadcast('none', 'x'), { sent: 0, dropped: 0 });
    const last = nextText(c.client);
    await scene.hub.broadcast('blue', 'end');
    assert.equal(await last, 'end');
    const numbers = Array.from({ length: 50 }, (_, n) => `${n}`);
    await until(() => a.texts.length >= 50 && b.texts.length >= 50);
    assert.deepEqual([a.texts, b.texts], [numbers, numbers]);
    assert.equal(scene.hub.stats.rooms, 2);
    a.client.close();
    b.client.close();
    await until(() => scene.hub.stats.open === 1);
    assert.equal(scene.hub.stats.rooms, 1);
    assert.deepEqual(scene.hub.stats.closed, { client: 2 });
  });

  it('lets a socket into as many rooms as it may be in', async () => {
    const opened = awaited<HubSocket>();
    await using scene = await Scene.open({ roomsPerSocketMax: 2 }, { open: opened.resolve });
    const client = await scene.connect();
    const socket = await opened.promise;
    const joined = ['a', 'b', 'c', 'a'].map((room) => scene.hub.join(socket, room));
    assert.deepEqual(joined, [true, true, false, true]);
    scene.hub.leave(socket, 'a');
    assert.equal(scene.hub.join(socket, 'c'), true);
    client.close();
    await until(() => scene.hub.stats.open === 0);
    assert.equal(scene.hub.join(socket, 'd'), false);
    assert.equal(scene.hub.stats.rooms, 0);
  });

  it('handles the messages of a socket in turn, and reads no more meanwhile', async () => {
    const order: string[] = [];
    const gate = awaited<void>();
    await using scene = await Scene.open(
      { messagesPerSecond: 100_000, messageBurst: 100_000, messageBytesMax: 1_000_000 },
      {
        open: async () => {
          order.push('opening');
          await gate.promise;
          order.push('open');
        },
        message: async (_socket, message) => {
          const name = message.slice(0, 2).toString();
          order.push(`${name} begins`);
          await Promise.resolve();
          order.push(`${name} ends`);
        },
      },
    );
    const client = await scene.connect();
    for (let n = 0; n < 40; n += 1) client.send(`${n + 10}${'x'.repeat(500_000)}`);
    await until(() => order.length > 0);
    await settled(() => client.bufferedAmount);
    assert.deepEqual(order, ['opening']);
    assert.ok(client.bufferedAmount > 1_000_000, 'it went on reading');
    assert.ok(scene.hub.stats.messagesIn <= 1, `${scene.hub.stats.messagesIn} were read`);
    gate.resolve();
    await until(() => order.length === 82);
    const expected = Array.from({ length: 40 }, (_, n) => [`${n + 10} begins`, `${n + 10} ends`]);
    assert.deepEqual(order, ['opening', 'open', ...expected.flat()]);
  });

  it('closes with 1011 a socket whose handler throws, rejects or never ends', async () => {
    const clock = new VirtualClock();
    const aborted = awaited<void>();
    await using scene = await Scene.open(
      { clock, idleMs: 1_000, handlerMsMax: 5_000 },
      {
        message: (socket, message) => {
          if (message === 'here') return;
          if (message === 'throw') throw new Error('thrown');
          if (message === 'reject') return Promise.reject(new Error('rejected'));
          socket.signal.addEventListener('abort', () => aborted.resolve());
          return new Promise<void>(() => {});
        },
      },
    );
    const bystander = await scene.connect();
    for (const way of ['throw', 'reject', 'hang']) {
      const client = await scene.connect();
      const code = closeCode(client);
      client.send(way);
      if (way === 'hang') {
        await until(() => scene.hub.stats.messagesIn === 3);
        for (let second = 0; second < 6; second += 1) {
          bystander.send('here');
          await until(() => scene.hub.stats.messagesIn === 4 + second);
          await clock.advance(1_000);
        }
      }
      assert.equal(await code, 1011, way);
    }
    await aborted.promise;
    await until(() => scene.hub.stats.open === 1);
    assert.deepEqual(scene.hub.stats.closed, { failed: 2, late: 1 });
    assert.equal(bystander.readyState, WebSocket.OPEN);
  });

  it('pings all with one timer, and drops those that do not answer', async () => {
    const clock = new VirtualClock();
    await using scene = await Scene.open({ clock, idleMs: 30_000 }, {});
    const [alive, dead] = [await scene.connect(), await scene.connect()];
    dead.pause();
    await until(() => scene.hub.stats.open === 2);
    assert.equal(clock.pending, 1);
    const pinged = once(alive, 'ping');
    await clock.advance(30_000);
    await pinged;
    // The answer to the ping has come once a message that was sent after it has.
    alive.send('here');
    await until(() => scene.hub.stats.messagesIn === 1);
    await clock.advance(30_000);
    await until(() => scene.hub.stats.open === 1);
    assert.deepEqual(scene.hub.stats.closed, { idle: 1 });
    assert.equal(alive.readyState, WebSocket.OPEN);
    assert.equal(clock.pending, 1);
  });

  it('holds a permit during the handshake only', async () => {
    const lane = new Lane({ name: 'handshakes', limit: 1, queueMax: 0, deadlineMs: 1_000 });
    await using server = await createServer();
    const hub = new WebSocketHub();
    await server.app.register(hub.plugin);
    hub.route(server.app, '/live', { config: { lane }, open: () => {} });
    await server.start();
    const url = `${server.url.replace('http', 'ws')}/live`;
    for (let i = 0; i < 3; i += 1) {
      const client = new WebSocket(url);
      await once(client, 'open');
    }
    await until(() => hub.stats.open === 3);
    const { started, inside } = lane.stats;
    assert.deepEqual({ started, inside }, { started: 3, inside: 0 });
  });

  it('closes with 1001 when the server stops, and cuts those that do not answer', async () => {
    const clock = new VirtualClock();
    await using scene = await Scene.open({ clock, closeMsMax: 5_000 }, {});
    const [polite, silent] = [await scene.connect(), await scene.connect()];
    silent.pause();
    await until(() => scene.hub.stats.open === 2);
    const code = closeCode(polite);
    const closed = scene.app.close();
    assert.equal(await code, 1001);
    await until(() => scene.hub.stats.open === 1);
    await clock.advance(5_000);
    await closed;
    assert.deepEqual(scene.hub.stats.closed, { shutdown: 2 });
    assert.equal(clock.pending, 0);
  });

  it('checks its options', () => {
    const wrong: [WebSocketHubOptions, RegExp][] = [
      [{ socketsMax: 0 }, /socketsMax: must be an integer from 1, got 0/],
      [{ messagesPerSecond: 0 }, /messagesPerSecond: must be a number above 0/],
      [{ slow: 'wait' as 'drop' }, /slow: must be 'close' or 'drop'/],
      [{ origins: ['a.example'] }, /origins: must be origins, as/],
      [{ name: '' }, /name: must be 1 to 100 characters/],
    ];
    for (const [options, message] of wrong) {
      assert.throws(() => new WebSocketHub(options), message);
    }
  });
});
