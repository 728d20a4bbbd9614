import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { HubSocket } from 'spillway-http';
import { awaited, Scene, until } from './socket-scene.ts';

describe('a slow reader', () => {
  for (const slow of ['close', 'drop'] as const) {
    it(`costs bounded memory and hurts nobody (${slow})`, async () => {
      const sockets: HubSocket[] = [];
      await using scene = await Scene.open(
        { slow, bufferedBytesMax: 100_000 },
        {
          open: (socket) => {
            sockets.push(socket);
            scene.hub.join(socket, 'all');
          },
        },
      );
      const stuck = await scene.connect();
      await until(() => sockets.length === 1);
      stuck.pause();
      const reader = await scene.connect();
      let read = 0;
      reader.on('message', () => {
        read += 1;
      });
      await until(() => scene.hub.count('all') === 2);
      let highest = 0;
      const message = Buffer.alloc(50_000);
      let sent = 0;
      for (let n = 0; n < 400; n += 1) {
        const result = await scene.hub.broadcast('all', message);
        sent += result.sent;
        highest = Math.max(highest, sockets[0]?.bufferedBytes ?? 0);
        await sockets[1]?.drained();
      }
      await until(() => read === 400);
      assert.ok(highest > 0 && highest <= 100_000, `${highest} bytes`);
      assert.equal(sockets[1]?.isOpen, true);
      const { open, closed, dropped } = scene.hub.stats;
      if (slow === 'close') {
        assert.deepEqual({ open, closed, dropped }, { open: 1, closed: { slow: 1 }, dropped: 1 });
      } else {
        assert.deepEqual({ open, closed, dropped }, { open: 2, closed: {}, dropped: 800 - sent });
        assert.ok(dropped > 200, `${dropped} dropped`);
      }
    });
  }

  it('that pings and never reads has no more answers buffered than it may have', async () => {
    const opened = awaited<HubSocket>();
    await using scene = await Scene.open(
      { messagesPerSecond: 100_000, messageBurst: 10_000_000, bufferedBytesMax: 100_000 },
      { open: opened.resolve },
    );
    const client = await scene.connect();
    const socket = await opened.promise;
    client.pause();
    let highest = 0;
    const content = Buffer.alloc(125);
    for (let round = 0; round < 5_000 && socket.isOpen; round += 1) {
      for (let n = 0; n < 200; n += 1) client.ping(content);
      await new Promise((resolve) => setImmediate(resolve));
      highest = Math.max(highest, socket.bufferedBytes);
    }
    await until(() => scene.hub.stats.open === 0);
    assert.deepEqual(scene.hub.stats.closed, { slow: 1 });
    assert.ok(highest > 0 && highest <= 100_000, `${highest} bytes`);
  });

  it('is waited for by a handler that asks, and by none after it has gone', async () => {
    const opened = awaited<HubSocket>();
    await using scene = await Scene.open({}, { open: opened.resolve });
    const client = await scene.connect();
    client.pause();
    const socket = await opened.promise;
    await socket.drained();
    while (socket.bufferedBytes === 0) socket.send(Buffer.alloc(500_000));
    const controller = new AbortController();
    const gone = assert.rejects(socket.drained({ signal: controller.signal }), {
      name: 'AbortError',
    });
    let isDrained = false;
    const drained = socket.drained().then(() => {
      isDrained = true;
    });
    controller.abort();
    await gone;
    assert.equal(isDrained, false);
    client.resume();
    await drained;
    client.pause();
    while (socket.bufferedBytes === 0) socket.send(Buffer.alloc(500_000));
    const end = socket.drained();
    client.terminate();
    await end;
    assert.equal(socket.send('late'), false);
    await until(() => socket.signal.aborted);
  });
});
