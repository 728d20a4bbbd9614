import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane } from 'spillway';
import { createServer, type HttpServer, WebSocketHub } from 'spillway-http';
import { get, until, Wire } from './fixtures/wire.ts';

const upgrade =
  'connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n' +
  'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n';

async function open(lane: Lane, work: Promise<string>, hub?: WebSocketHub): Promise<HttpServer> {
  const server = await createServer({ lane, hub });
  server.app.get('/slow', () => work);
  server.app.get('/', async () => 'hello');
  hub?.route(server.app, '/socket', {});
  await server.start();
  return server;
}

function laneOf(limit: number): Lane {
  return new Lane({ name: 'l', limit, queueMax: 0, deadlineMs: 60_000 });
}

describe('a connection that is to become something else', () => {
  it('is ended when it is refused, by whichever guard', async () => {
    const lane = laneOf(1);
    await using server = await open(lane, Promise.resolve(''), new WebSocketHub());
    using place = await lane.enter();
    const refused = async (request: string, answer: RegExp): Promise<void> => {
      using wire = await Wire.open(server);
      wire.send(request);
      await wire.closed;
      assert.match(wire.text, answer);
    };
    await refused(get('/socket', upgrade), /503 [\s\S]*LANE_FULL/);
    place[Symbol.dispose]();
    await refused(get('/', upgrade), /404 [\s\S]*there is no socket at this path/);
    await refused(get('/%zz', upgrade), /400 [\s\S]*REQUEST_INVALID/);
    await refused(get('/socket', `origin: http://a.example\r\n${upgrade}`), /403 [\s\S]*ORIGIN/);
    await until(() => server.connections === 0 && lane.stats.inside === 0);
  });

  it('is answered as always if it is to become no socket', async () => {
    await using server = await open(laneOf(1), Promise.resolve(''), new WebSocketHub());
    using wire = await Wire.open(server);
    const headers = 'connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n';
    wire.send(get('/', headers));
    assert.match(await wire.until('hello'), /^HTTP\/1.1 200 /);
    wire.send(get('/'));
    await wire.until('hello', 2);
  });

  for (const [name, last] of [
    ['a tunnel', 'CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n'],
    ['a socket', get('/socket', upgrade)],
  ] as const) {
    it(`gives back all places of the requests before it when it was to be ${name}`, async () => {
      const lane = laneOf(3);
      const work = Promise.withResolvers<string>();
      await using server = await open(lane, work.promise, new WebSocketHub());
      using wire = await Wire.open(server);
      wire.send(get('/slow') + get('/') + last);
      await until(() => lane.stats.started >= 2);
      wire.socket.resetAndDestroy();
      await until(() => server.connections === 0);
      work.resolve('late');
      await until(() => lane.stats.inside === 0);
    });
  }
});
