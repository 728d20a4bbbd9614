import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, it } from 'node:test';
import { Lane } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { open, roomy } from './fixtures/open-server.ts';
import { get, post, until, Wire } from './fixtures/wire.ts';

describe('admission of bodies and streams', () => {
  it('closes a stream that a handler gave after its deadline', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ ...roomy, deadlineMs: 10, clock });
    const work = Promise.withResolvers<PassThrough>();
    await using server = await open({ lane, clock }, ({ app }) => {
      app.get('/', () => work.promise);
    });
    const answer = fetch(server.url);
    await until(() => lane.stats.inside === 1);
    await clock.advance(10);
    assert.equal((await answer).status, 504);
    const stream = new PassThrough();
    work.resolve(stream);
    await once(stream, 'close');
  });

  it('counts the time a body takes, and ends the connection of a slow one', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ ...roomy, deadlineMs: 500, clock });
    await using server = await open({ lane, clock }, ({ app }) => app.post('/', async () => 'ok'));
    using wire = await Wire.open(server);
    wire.send(post('/', '{"a":1}').slice(0, -3));
    await until(() => lane.stats.inside === 1);
    await clock.advance(500);
    const answer = await wire.until('"DEADLINE"');
    assert.match(answer, /^HTTP\/1.1 504 /);
    assert.match(answer, /connection: close/i);
    await wire.closed;
    await until(() => lane.stats.inside === 0);
  });

  it('refuses an endless upload while it is being sent, without keeping any of it', async () => {
    const lane = new Lane({ ...roomy, limit: 1, queueMax: 0 });
    await using server = await open({ lane, bodyBytesMax: 2 ** 40 }, ({ app }) => {
      app.post('/', async () => 'ok');
    });
    using _permit = await lane.enter();
    const before = process.memoryUsage().arrayBuffers;
    using wire = await Wire.open(server);
    wire.send(post('/', '').replace('content-length: 0', `content-length: ${2 ** 30}`));
    const chunk = Buffer.alloc(65_536);
    let sent = 0;
    while (sent < 2 ** 30 && !wire.text.includes('LANE_FULL') && !wire.socket.closed) {
      sent += chunk.length;
      if (wire.socket.write(chunk)) await new Promise((resolve) => setImmediate(resolve));
      else await Promise.race([once(wire.socket, 'drain'), once(wire.socket, 'data'), wire.closed]);
    }
    assert.match(wire.text, /^HTTP\/1.1 503 [\s\S]*connection: close/i);
    assert.ok(sent < 2 ** 26, `${sent} bytes sent`);
    const grown = process.memoryUsage().arrayBuffers - before;
    assert.ok(grown < 2 ** 25, `${grown} bytes kept`);
    // It goes on sending: at last it is cut off.
    while (!wire.socket.closed) {
      wire.socket.write(chunk);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });

  it('keeps the connection of a short body that it refuses', async () => {
    const lane = new Lane({ ...roomy, limit: 1, queueMax: 0 });
    await using server = await open({ lane }, ({ app }) => app.post('/', async () => 'served'));
    using wire = await Wire.open(server);
    {
      using _permit = await lane.enter();
      wire.send(post('/', '{}'));
      await wire.until('LANE_FULL');
    }
    wire.send(post('/', '{}'));
    await wire.until('served');
    assert.doesNotMatch(wire.text, /connection: close/i);
  });

  it('asks for a body only when there is a place for it', async () => {
    const lane = new Lane({ ...roomy, limit: 1, queueMax: 0 });
    await using server = await open({ lane }, ({ app }) => app.post('/', async () => 'done'));
    const [head = '', body = ''] = post('/', '{"a":1}', 'expect: 100-continue\r\n').split(/(?={)/);
    using wire = await Wire.open(server);
    {
      using _permit = await lane.enter();
      wire.send(head);
      assert.match(await wire.until('LANE_FULL'), /^HTTP\/1.1 503 /);
    }
    using second = await Wire.open(server);
    second.send(head);
    assert.match(await second.until('\r\n\r\n'), /^HTTP\/1.1 100 Continue/);
    second.send(body);
    await second.until('done');
  });

  it('holds the place of a stream until it has ended', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ ...roomy, clock });
    const stream = new PassThrough();
    await using server = await open({ lane, clock }, ({ app }) => {
      app.get('/', { config: { domain: 'stream' } }, async () => stream);
    });
    const response = await new Promise<Response>((resolve, reject) => {
      stream.write('first');
      fetch(server.url).then(resolve, reject);
    });
    assert.equal(lane.stats.inside, 1);
    // It began to flow in time: the deadline does not cut it.
    await clock.advance(120_000);
    assert.equal(lane.stats.inside, 1);
    stream.end(' last');
    assert.equal(await response.text(), 'first last');
    await until(() => lane.stats.inside === 0);
  });

  it('cuts an answer that is still under way at the deadline, unless it is a stream', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ ...roomy, clock });
    const stream = new PassThrough();
    await using server = await open({ lane, clock }, ({ app }) => app.get('/', async () => stream));
    stream.write('first');
    using wire = await Wire.open(server);
    wire.send(get('/'));
    await wire.until('first');
    await clock.advance(60_000);
    await wire.closed;
    await until(() => lane.stats.inside === 0 && stream.destroyed);
  });
});
