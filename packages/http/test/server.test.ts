import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { Lane, seededRandom } from 'spillway';
import { createServer, type HttpServer, type ServerOptions } from 'spillway-http';
import { get, post, until, Wire } from './fixtures/wire.ts';

async function open(options: ServerOptions = {}): Promise<HttpServer> {
  const server = await createServer(options);
  server.app.get('/', async () => 'hello');
  server.app.post('/', async ({ body }) => ({ body }));
  await server.start();
  return server;
}

function kernelBacklog(): number {
  if (process.platform !== 'linux') return 100;
  return Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'));
}

describe('createServer', () => {
  it('sends the headers that make browsers careful, with failures too', async () => {
    await using server = await open();
    for (const path of ['/', '/none']) {
      const { headers } = await fetch(`${server.url}${path}`);
      assert.equal(headers.get('x-content-type-options'), 'nosniff');
      assert.equal(headers.get('x-frame-options'), 'DENY');
      assert.equal(headers.get('referrer-policy'), 'strict-origin-when-cross-origin');
      assert.equal(headers.get('content-security-policy'), "default-src 'self'");
      assert.equal(headers.get('strict-transport-security'), null);
    }
  });

  it('keeps browsers on https, also behind a proxy that it trusts', async () => {
    await using server = await open({ trustProxy: true });
    const headers = { 'x-forwarded-proto': 'https' };
    const answer = await fetch(server.url, { headers });
    assert.equal(answer.headers.get('strict-transport-security'), 'max-age=31536000');
    await using wary = await open();
    const other = await fetch(wary.url, { headers });
    assert.equal(other.headers.get('strict-transport-security'), null);
  });

  it('takes a mebibyte and no more, declared or not', async () => {
    await using server = await open();
    const text = (length: number) => JSON.stringify('x'.repeat(length - 2));
    const send = (body: string) => {
      const headers = { 'content-type': 'application/json' };
      return fetch(server.url, { method: 'POST', body, headers });
    };
    assert.equal((await send(text(2 ** 20))).status, 200);
    assert.equal((await send(text(2 ** 20 + 1))).status, 413);
  });

  it('refuses wrong options, naming them', async () => {
    const wrong: readonly [ServerOptions, RegExp][] = [
      [{ port: -1 }, /port: must be an integer from 0 to 65535/],
      [{ bodyBytesMax: 0 }, /bodyBytesMax: must be an integer from 1/],
      [{ headersMsMax: 10, requestMsMax: 9 }, /requestMsMax: must be no less than headersMsMax/],
      [{ closeMsMax: -1 }, /closeMsMax: must be a number from 0/],
      [{ name: '' }, /name: must be a string that is not empty/],
      [{ host: 5 as never }, /createServer: host: must be a string that is not empty, got 5/],
      [{ rates: {} } as never, /createServer: rates: is not an option; did you mean rate\?/],
      [{ deadlineMs: -1 } as never, /createServer: deadlineMs: is not an option/],
      [{ rate: 5 as never }, /createServer: rate: must be an object, got 5/],
      [{ rate: { limit: [] } as never }, /rate: limit: is not an option; did you mean limits\?/],
      [{ rate: { limits: 5 as never } }, /rate: limits: must be a list of limits, got 5/],
      [{ rate: { limits: [{ limit: 0, windowMs: 10 }] } }, /rate limit: limit: must be an integer/],
      [{ rate: { store: {} as never } }, /rate: store: must be a Store/],
      [{ idempotency: 5 as never }, /createServer: idempotency: must be an object, got 5/],
      [{ idempotency: { store: 5 as never } }, /idempotency: store: must be a Store.*got 5/],
      [{ idempotency: { age: 5 } as never }, /idempotency: age: is not an option.*ageMs/],
      [{ operator: 5 as never }, /createServer: operator: must be an object, got 5/],
      [{ operator: { sockets: 'x' } as never }, /operator: sockets: is not an.*mean socket\?/],
      [{ operator: { remote: {} as never } }, /operator.remote: port: must be an integer/],
      [{ sessions: [] as never }, /createServer: sessions: must be an object, got \[\]/],
      [{ live: 5 as never }, /createServer: live: must be an object, got 5/],
      [{ csrf: true as never }, /createServer: csrf: must be an object or false, got true/],
      [{ lane: {} as never }, /createServer: lane: must be a Lane, got \{\}/],
      [{ hub: {} as never }, /createServer: hub: must be a WebSocketHub/],
      [{ clock: 5 as never }, /createServer: clock: must be a Clock/],
      [{ trustProxy: -1 }, /createServer: trustProxy: must be true, false, an address/],
      [{ trustProxy: '' }, /createServer: trustProxy: must be true, false, an address/],
      [null as never, /createServer: options: must be an object, got null/],
    ];
    for (const [options, message] of wrong) await assert.rejects(createServer(options), message);
  });

  it('closes one connection too many at once', async () => {
    await using server = await open({ connectionsMax: 2 });
    using _first = await Wire.open(server);
    using _second = await Wire.open(server);
    await until(() => server.connections === 2);
    using third = await Wire.open(server);
    await third.closed;
    assert.equal(server.connections, 2);
  });

  it('loses nobody of a crowd that comes while it is busy', async () => {
    await using server = await open();
    // The kernel has the last word on how many may wait.
    const count = Math.min(1_000, kernelBacklog());
    const connected = new Int32Array(new SharedArrayBuffer(4));
    const workerData = { port: Number(new URL(server.url).port), count, connected };
    const crowd = new Worker(new URL('./fixtures/connecting-crowd.ts', import.meta.url), {
      workerData,
    });
    // The event loop stands still until all have come, or were dropped.
    for (let last = -1; last < count; ) {
      last = Atomics.load(connected, 0);
      if (last < count && Atomics.wait(connected, 0, last, 60_000) === 'timed-out') break;
    }
    assert.equal(Atomics.load(connected, 0), count);
    await crowd.terminate();
  });

  it('does not wait for headers that come drop by drop', async () => {
    await using server = await open({ headersMsMax: 100, requestMsMax: 60_000 });
    using wire = await Wire.open(server);
    wire.send('GET / HTTP/1.1\r\n');
    const drip = setInterval(() => wire.send('x-a: b\r\n'), 20);
    await wire.closed;
    clearInterval(drip);
    assert.match(wire.text, /^HTTP\/1.1 408 [\s\S]*"REQUEST_SLOW"/);
  });

  it('does not wait for a body that comes drop by drop', async () => {
    const lane = new Lane({ name: 'x', limit: 1, queueMax: 0, deadlineMs: 60_000 });
    await using server = await open({ lane, headersMsMax: 100, requestMsMax: 200 });
    using wire = await Wire.open(server);
    wire.send(post('/', 'x'.repeat(10_000)).slice(0, -9_999));
    const drip = setInterval(() => wire.send('x'), 20);
    await wire.closed;
    clearInterval(drip);
    await until(() => lane.stats.inside === 0);
    assert.equal(lane.stats.finished, 1);
  });

  it('ends a connection that is silent in the middle of a request', async () => {
    const lane = new Lane({ name: 'x', limit: 1, queueMax: 0, deadlineMs: 60_000 });
    await using server = await open({ lane, silentMsMax: 100 });
    using wire = await Wire.open(server);
    wire.send(post('/', '{"a":1}').slice(0, -2));
    await wire.closed;
    await until(() => lane.stats.inside === 0);
  });

  it('answers what is no HTTP, and ends the connection', async () => {
    await using server = await open();
    const chunked =
      'POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n' +
      'transfer-encoding: chunked\r\n\r\n';
    const cases: readonly [bytes: string, status: number, code: string][] = [
      ['nonsense\r\n\r\n', 400, 'REQUEST_INVALID'],
      ['GET / HTTP/9.9\r\n\r\n', 400, 'REQUEST_INVALID'],
      ['GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n', 400, 'REQUEST_INVALID'],
      ['POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n', 400, 'REQUEST_INVALID'],
      [
        'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n',
        400,
        'REQUEST_INVALID',
      ],
      [`${chunked}ZZ\r\n`, 400, 'REQUEST_INVALID'],
      ['CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n', 405, 'METHOD_REFUSED'],
      [get('/', `x-long: ${'y'.repeat(20_000)}\r\n`), 431, 'HEADERS_TOO_LARGE'],
    ];
    for (const [bytes, status, code] of cases) {
      using wire = await Wire.open(server);
      wire.send(bytes);
      await wire.closed;
      assert.ok(wire.text.startsWith(`HTTP/1.1 ${status} `), `${bytes}: ${wire.text}`);
      assert.ok(wire.text.includes(`"${code}"`), wire.text);
    }
    assert.equal((await fetch(server.url)).status, 200);
  });

  it('does not put its complaint into the middle of an answer', async () => {
    const work = Promise.withResolvers<string>();
    const server = await createServer();
    server.app.get('/', () => work.promise);
    await server.start();
    using wire = await Wire.open(server);
    wire.send(`${get('/')}nonsense\r\n\r\n`);
    await wire.closed;
    work.resolve('late');
    assert.doesNotMatch(wire.text, /REQUEST_INVALID/);
    await server.close();
  });

  it('survives requests with random bytes in them: no 500, no place lost', async () => {
    const random = seededRandom(7);
    const lane = new Lane({ name: 'fuzz', limit: 64, queueMax: 64, deadlineMs: 60_000 });
    await using server = await open({ lane });
    const templates = [
      get('/', 'accept: text/html\r\n'),
      post('/', '{"a":[1,2,{"b":"c"}]}'),
      post('/', '{"a":1}').replace('content-length: 7', 'transfer-encoding: chunked'),
      get('/').replace('GET', 'OPTIONS'),
    ];
    const mutated = (): string => {
      let text = templates[Math.floor(random() * templates.length)] as string;
      for (let i = 0; i < 3; i += 1) {
        const at = Math.floor(random() * text.length);
        const byte = String.fromCharCode(Math.floor(random() * 256));
        const cut = random() < 0.3 ? Math.floor(random() * 10) : 1;
        text = text.slice(0, at) + (random() < 0.8 ? byte : '') + text.slice(at + cut);
      }
      return text;
    };
    const visits = Array.from({ length: 20 }, async () => {
      for (let i = 0; i < 50; i += 1) {
        using wire = await Wire.open(server);
        wire.send(mutated());
        wire.socket.end();
        await Promise.race([wire.closed, once(wire.socket, 'data')]);
        // A byte changed in `chunked` names a transfer coding that no server knows.
        const isCoding = wire.text.startsWith('HTTP/1.1 501') && wire.text.includes('BODY_CODING');
        if (!isCoding) assert.doesNotMatch(wire.text, /^HTTP\/1.1 5/);
      }
    });
    await Promise.all(visits);
    assert.equal(server.app.recentErrors.stats.total, 0);
    await until(() => lane.stats.inside === 0 && lane.stats.waiting === 0);
    assert.equal((await fetch(server.url)).status, 200);
  });
});
