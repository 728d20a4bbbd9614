import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { VirtualClock } from 'spillway/testing';
import { StandIn } from 'spillway-fixtures/stand-in';
import { microseconds } from '../src/connectors/answer.ts';
import type { DeclaredOptions } from '../src/connectors/api.ts';
import { coinbase } from '../src/connectors/coinbase.ts';
import { declared } from '../src/connectors/declared.ts';

let site: StandIn;
const { signal } = new AbortController();

before(async () => {
  site = await StandIn.open();
});

after(() => site[Symbol.asyncDispose]());

/** Asks once, with a connector of these options. */
async function ask(options: DeclaredOptions = {}, caller = signal) {
  await using connector = declared(coinbase, { baseUrl: site.url, ...options });
  return await connector.products(caller);
}

const products = '[{"id":"BTC-USD"}]';

describe('a time', () => {
  it('may have its zone after a space, as Ruby and Go write it', () => {
    const us = BigInt(Date.parse('2026-01-01T10:00:00Z')) * 1000n;
    for (const [text, more] of [
      ['2026-01-01 12:00:00 +0200', 0n],
      ['2026-01-01 10:00:00.25 UTC', 250_000n],
      ['2026-01-01T10:00:00Z', 0n],
      ['2026-01-01 10:00:00', 0n],
    ] as const) {
      assert.equal(microseconds(text), us + more, text);
    }
    assert.equal(microseconds('2026-01-01 10:00:00 CET'), undefined);
  });
});

describe('a request to an exchange', () => {
  it('fails for now or for good, as the status says', async () => {
    const cases: readonly [number, string, number, boolean][] = [
      [429, 'EXCHANGE_LIMITED', 429, true],
      [418, 'EXCHANGE_LIMITED', 429, true],
      [408, 'EXCHANGE_FAILED', 408, true],
      [500, 'EXCHANGE_FAILED', 500, true],
      [503, 'EXCHANGE_FAILED', 503, true],
      [520, 'EXCHANGE_FAILED', 520, true],
      [404, 'PRODUCT_UNKNOWN', 404, false],
      [400, 'EXCHANGE_REFUSED', 400, false],
      [403, 'EXCHANGE_REFUSED', 403, false],
      [301, 'EXCHANGE_REFUSED', 301, false],
      [204, 'EXCHANGE_REFUSED', 204, false],
    ];
    for (const [answered, code, status, retryable] of cases) {
      site.tell(answered === 204 ? '' : '{"message":"as it\n is"}', answered);
      const fault = { code, status, retryable, retryAfterMs: undefined };
      await assert.rejects(ask(), fault, String(answered));
    }
    site.tell('{"message":"as it\n is"}', 400);
    const message = `coinbase: ${site.url}/products: 400 {"message":"as it is"}; see --base-url`;
    await assert.rejects(ask(), { message });
    await using connector = declared(coinbase, { baseUrl: site.url });
    site.tell(products);
    await connector.products(signal);
    site.tell('no', 400);
    // The address is told until something has answered.
    await assert.rejects(connector.products(signal), { message: 'coinbase: /products: 400 no' });
  });

  it('that is forbidden once it was answered may be made again, three times in a row', async () => {
    await using connector = declared(coinbase, { baseUrl: site.url });
    for (let round = 0; round < 2; round += 1) {
      site.tell(products);
      await connector.products(signal);
      site.tell('no', 403);
      for (let time = 0; time < 3; time += 1) {
        const fault = { code: 'EXCHANGE_FAILED', status: 403, retryable: true };
        await assert.rejects(connector.products(signal), fault);
      }
    }
    await assert.rejects(connector.products(signal), { code: 'EXCHANGE_REFUSED', status: 403 });
  });

  it('tells how long to wait, from seconds or from a date', async () => {
    site.tell('', 429, { 'retry-after': '7' });
    await assert.rejects(ask(), { retryAfterMs: 7000 });
    site.tell('', 503, {
      date: 'Wed, 21 Oct 2015 07:28:00 GMT',
      'retry-after': 'Wed, 21 Oct 2015 07:28:30 GMT',
    });
    await assert.rejects(ask(), { retryAfterMs: 30_000 });
    site.tell('', 429, { 'retry-after': 'soon' });
    await assert.rejects(ask(), { retryAfterMs: undefined });
  });

  it('unpacks gzip, and asks for it', async () => {
    site.tell(gzipSync(products), 200, { 'content-encoding': 'gzip' });
    assert.deepEqual(await ask(), ['BTC-USD']);
    assert.equal(site.headers['accept-encoding'], 'gzip');
    site.tell(gzipSync(products).subarray(0, 20), 200, { 'content-encoding': 'gzip' });
    await assert.rejects(ask(), { code: 'EXCHANGE_FAILED', message: /broken gzip/ });
    site.tell(products, 200, { 'content-encoding': 'br' });
    await assert.rejects(ask(), { code: 'EXCHANGE_CHANGED', message: /content-encoding br/ });
  });

  it('reads no more than it may, packed or not, with or without a length', async () => {
    const fault = { code: 'EXCHANGE_CHANGED', message: /more than 100 bytes/ };
    const long = `${products}${' '.repeat(200)}`;
    site.tell(long);
    await assert.rejects(ask({ bytesMax: 100 }), fault);
    site.serve = (_request, response) => {
      response.write(long.slice(0, 90));
      response.end(long.slice(90));
    };
    await assert.rejects(ask({ bytesMax: 100 }), fault);
    const zipped = gzipSync(long);
    assert.ok(zipped.length < 100);
    site.tell(zipped, 200, { 'content-encoding': 'gzip' });
    await assert.rejects(ask({ bytesMax: 100 }), fault);
    assert.deepEqual(await ask({ bytesMax: long.length }), ['BTC-USD']);
  });

  it('that loses its connection before or within the answer may be made again', async () => {
    const fault = { code: 'EXCHANGE_FAILED', status: 502, retryable: true };
    site.serve = (request) => request.socket.resetAndDestroy();
    await assert.rejects(ask(), fault);
    site.serve = (request, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('[', () => request.socket.destroy());
    };
    await assert.rejects(ask(), fault);
    await assert.rejects(ask({ baseUrl: 'http://127.0.0.1:1' }), fault);
  });

  it('ends at once when its signal aborts, and in time when nothing comes', async () => {
    const asked = new AbortController();
    const ends: Promise<unknown>[] = [];
    site.serve = (request, response) => {
      ends.push(once(request.socket, 'close'));
      response.writeHead(200).write('[');
      asked.abort(new Error('enough'));
    };
    await assert.rejects(ask({}, asked.signal), { message: 'enough' });
    await assert.rejects(ask({}, asked.signal), { message: 'enough' });
    await Promise.all(ends);
    assert.equal(ends.length, 1);
    const clock = new VirtualClock();
    const arrived = Promise.withResolvers<void>();
    site.tell(products);
    await using connector = declared(coinbase, { baseUrl: site.url, clock, requestMsMax: 5000 });
    await connector.products(signal);
    site.serve = () => arrived.resolve();
    const late = assert.rejects(connector.products(signal), {
      code: 'DEADLINE',
      status: 504,
      retryable: true,
    });
    await arrived.promise;
    assert.equal(clock.pending, 1);
    await clock.advance(5000);
    await late;
    assert.equal(clock.pending, 0);
  });

  it('fails for good where nothing has ever answered in HTTP, with the address', async () => {
    const faults: readonly ((socket: Socket) => void)[] = [
      (socket) => socket.destroy(),
      (socket) => socket.end('SSH-2.0-OpenSSH\r\n'),
    ];
    for (const fault of faults) {
      const server = createServer((socket) => fault(socket.on('error', () => {})));
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      for (const protocol of ['http', 'https']) {
        const baseUrl = `${protocol}://127.0.0.1:${port}`;
        await using connector = declared(coinbase, { baseUrl });
        const together = [1, 2, 3, 4].map(() => connector.products(signal));
        const first = await Promise.allSettled(together);
        assert.ok(first.every((one) => one.status === 'rejected' && one.reason.retryable));
        await assert.rejects(connector.products(signal), { code: 'EXCHANGE_FAILED' });
        const message = new RegExp(
          `^coinbase: ${baseUrl} cannot be reached: .+; see --base-url$`,
          's',
        );
        const code = 'EXCHANGE_UNREACHABLE';
        await assert.rejects(connector.products(signal), { code, message });
      }
      server.close();
    }
  });

  it('that is the first fails within 4 s if nothing comes, a later one does not', async () => {
    const silent = (_request: unknown, response: ServerResponse): void => response.flushHeaders();
    for (const serve of [() => {}, silent]) {
      const clock = new VirtualClock();
      const arrived = Promise.withResolvers<void>();
      site.serve = (request, response) => {
        serve(request, response);
        arrived.resolve();
      };
      const { promise, resolve } = Promise.withResolvers<unknown>();
      void ask({ clock }).catch(resolve);
      await arrived.promise;
      await clock.advance(4_000);
      const { code, message } = Object(await promise);
      assert.equal(code, 'EXCHANGE_UNREACHABLE');
      assert.match(message, new RegExp(`${site.url} cannot be reached: it gave no answer within`));
      assert.equal(clock.pending, 0);
    }
  });

  it('that is not the first has all its time where a process goes on', async () => {
    const clock = new VirtualClock();
    let arrived = Promise.withResolvers<ServerResponse>();
    site.serve = (_request, response) => arrived.resolve(response);
    await using connector = declared(coinbase, { baseUrl: site.url, clock, goesOn: true });
    const first = assert.rejects(connector.products(signal), { code: 'EXCHANGE_UNREACHABLE' });
    await arrived.promise;
    await clock.advance(4_000);
    await first;
    arrived = Promise.withResolvers();
    const second = connector.products(signal);
    const response = await arrived.promise;
    await clock.advance(20_000);
    response.end(products);
    assert.deepEqual(await second, ['BTC-USD']);
  });

  it('that is the first may be long: only its first byte must come soon', async () => {
    const clock = new VirtualClock();
    const arrived = Promise.withResolvers<ServerResponse>();
    site.serve = (_request, response) => {
      response.write(' ');
      arrived.resolve(response);
    };
    const asked = ask({ clock });
    const response = await arrived.promise;
    // The time for the first byte is given back when that was read.
    while (clock.pending > 1) await new Promise(setImmediate);
    await clock.advance(20_000);
    response.end(products);
    assert.deepEqual(await asked, ['BTC-USD']);
  });

  it('that is the first is not given up while this process itself was busy', async () => {
    site.tell(products);
    const asked = ask({ firstMsMax: 1_000 });
    const until = performance.now() + 1_500;
    // The request leaves, and nobody looks for an answer.
    await new Promise(setImmediate);
    while (performance.now() < until);
    assert.deepEqual(await asked, ['BTC-USD']);
  });

  it('goes to the address it was given, path included, and says who it is', async () => {
    site.tell(products);
    await ask({ baseUrl: `${site.url}/proxy/` });
    assert.equal(site.asked.at(-1), 'GET /proxy/products');
    assert.equal(site.headers['user-agent'], 'spillway-ingest/0.1');
    for (const [options, message] of [
      [{ baseUrl: 'ftp://x' }, /baseUrl: must be an http:\/\/ or https:\/\/ address, got 'ftp:/],
      [{ baseUrl: 'http://x:1:' }, /baseUrl: must be an http:\/\/ or https:\/\/ address/],
      [{ requestMsMax: 0 }, /requestMsMax: must be a number from 1 to 2147483647, got 0/],
      [{ bytesMax: 0.5 }, /bytesMax: must be an integer from 1, got 0.5/],
    ] as const) {
      await assert.rejects(ask(options), message);
    }
  });
});
