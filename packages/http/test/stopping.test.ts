import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import websocket from '@fastify/websocket';
import { Lane, Service } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { createServer } from 'spillway-http';
import { WebSocket } from 'ws';
import { get, until, Wire } from './fixtures/wire.ts';

describe('stopping', () => {
  it('finishes what runs, refuses what comes, and ends idle connections', async () => {
    const work = Promise.withResolvers<string>();
    const lane = new Lane({ name: 'x', limit: 9, queueMax: 9, deadlineMs: 60_000 });
    const server = await createServer({ lane, closeMsMax: 60_000 });
    server.app.get('/', () => work.promise);
    server.app.get('/quick', async () => 'quick');
    const service = new Service({ parts: [server] });
    await service.start();
    const { url } = server;
    assert.equal(service.ready, true);
    const idle = await Wire.open(server);
    idle.send(get('/quick'));
    await idle.until('quick');
    const fresh = await Wire.open(server);
    const busy = await Wire.open(server);
    busy.send(get('/') + get('/quick'));
    await until(() => lane.stats.inside === 2 || lane.stats.finished === 2);
    const stopped = service.close();
    assert.equal(service.ready, false);
    await idle.closed;
    await fresh.closed;
    work.resolve('finished');
    await busy.until('finished');
    assert.match(busy.text, /^HTTP\/1.1 200 /);
    assert.match(busy.text, /connection: close/i);
    await busy.closed;
    await stopped;
    await assert.rejects(fetch(url));
  });

  it('refuses a request that comes while it stops, and closes its connection', async () => {
    const work = Promise.withResolvers<string>();
    const lane = new Lane({ name: 'x', limit: 9, queueMax: 9, deadlineMs: 60_000 });
    const server = await createServer({ lane, closeMsMax: 60_000 });
    server.app.get('/', () => work.promise);
    await server.start();
    using wire = await Wire.open(server);
    // The head of a second request is here in part when the server begins to stop.
    wire.send(get('/'));
    await until(() => lane.stats.inside === 1);
    using late = await Wire.open(server);
    late.send('GET /late HT');
    await until(() => server.connections === 2);
    await (await fetch(`${server.url}/none`)).text();
    const stopped = server.close();
    await until(() => !server.ready);
    late.send('TP/1.1\r\nhost: x\r\n\r\n');
    await late.until('SERVER_STOPPING');
    assert.match(late.text, /^HTTP\/1.1 503 /);
    assert.match(late.text, /retry-after: 1\r\n/i);
    assert.match(late.text, /connection: close/i);
    await late.closed;
    work.resolve('first');
    await wire.until('first');
    await stopped;
  });

  it('cuts at the limit what does not end', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'x', limit: 9, queueMax: 9, deadlineMs: 60_000, clock });
    let aborted = false;
    const server = await createServer({ lane, clock, closeMsMax: 1_000 });
    server.app.get('/', async ({ permit: { signal } }) => {
      await once(signal, 'abort');
      aborted = true;
    });
    await server.start();
    using wire = await Wire.open(server);
    wire.send(get('/'));
    await until(() => lane.stats.inside === 1);
    const stopped = server.close();
    await until(() => !server.ready);
    await clock.advance(990);
    assert.equal(aborted, false);
    await clock.advance(30);
    await stopped;
    await until(() => aborted && lane.stats.inside === 0);
    assert.equal(wire.text, '');
    assert.equal(clock.pending, 0);
  });

  it('is cut by the service when its time is over', async () => {
    const clock = new VirtualClock();
    const server = await createServer({ closeMsMax: 60_000, clock });
    let begun = false;
    server.app.get('/', () => {
      begun = true;
      return new Promise(() => {});
    });
    const service = new Service({ parts: [server], closeMsMax: 100, clock });
    await service.start();
    using wire = await Wire.open(server);
    wire.send(get('/'));
    await until(() => begun);
    const stopped = service.close().catch((error: { code: string }) => error.code);
    await until(() => !server.ready);
    await clock.advance(100);
    await wire.closed;
    assert.ok([undefined, 'SERVICE_CLOSE'].includes((await stopped) as string | undefined));
  });

  it('lets whoever keeps sockets close them', async () => {
    const server = await createServer();
    await server.app.register(websocket);
    server.app.get('/', { websocket: true }, () => {});
    await server.start();
    const socket = new WebSocket(server.url.replace('http', 'ws'));
    await once(socket, 'open');
    const [stopped] = await Promise.all([server.close(), once(socket, 'close')]);
    assert.equal(stopped, undefined);
  });
});
