import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { HubSocket, WebSocketHubOptions } from 'spillway-http';
import { Scene, until } from './socket-scene.ts';

/** A scene in which 300 sockets are in a room, and one more in none; all that clients have read. */
async function crowd(options: WebSocketHubOptions = {}) {
  const sockets: HubSocket[] = [];
  const heard: string[] = [];
  const scene = await Scene.open(
    { socketsPerAddressMax: 1_000, ...options },
    { open: (socket) => void sockets.push(socket) },
  );
  for (let n = 0; n < 301; n += 1) {
    const client = await scene.connect();
    client.on('message', (data) => heard.push(`${n} ${data}`));
  }
  await until(() => sockets.length === 301);
  for (const socket of sockets.slice(0, 300)) scene.hub.join(socket, 'room');
  return { scene, sockets, heard };
}

describe('a broadcast', () => {
  it('lets the event loop turn, and reaches the members that are still in the room', async () => {
    const { scene, sockets, heard } = await crowd();
    await using _scene = scene;
    const sending = scene.hub.broadcast('room', 'hello');
    const sentAtOnce = scene.hub.stats.messagesOut;
    assert.ok(sentAtOnce > 0 && sentAtOnce < 300, `${sentAtOnce} were sent at once`);
    scene.hub.leave(sockets[299] as HubSocket, 'room');
    scene.hub.join(sockets[300] as HubSocket, 'room');
    assert.deepEqual(await sending, { sent: 299, dropped: 1 });
    await until(() => heard.length >= 299);
    const expected = Array.from({ length: 299 }, (_, n) => `${n} hello`);
    assert.deepEqual(new Set(heard), new Set(expected));
    assert.equal(heard.length, 299);
  });

  it('waits for those before it, and is refused when too many wait', async () => {
    const { scene, heard } = await crowd({ broadcastsMax: 2 });
    await using _scene = scene;
    const results = await Promise.all(
      ['a', 'b', 'c'].map((text) => scene.hub.broadcast('room', text)),
    );
    const sent = { sent: 300, dropped: 0 };
    assert.deepEqual(results, [sent, sent, { sent: 0, dropped: 300 }]);
    assert.equal(scene.hub.stats.dropped, 300);
    assert.equal(scene.hub.stats.broadcasting, 0);
    await until(() => heard.length >= 600);
    const ofFirst = heard.filter((text) => text.startsWith('0 '));
    assert.deepEqual(ofFirst, ['0 a', '0 b']);
  });
});
