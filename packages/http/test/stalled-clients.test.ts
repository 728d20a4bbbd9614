import assert from 'node:assert/strict';
import { request as ask, type ClientRequest, get, type IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { Lane } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { createServer } from 'spillway-http';
import { post, Wire } from './fixtures/wire.ts';

const bytes = 16 * 1_024 * 1_024;

/** A server with long answers, whose clients are told apart by the header of a proxy. */
async function scene(clock?: VirtualClock) {
  const bounds = { limit: { fixed: 4 }, queueMax: 99, deadlineMs: 250_000 };
  const lane = new Lane({ name: 'long', ...bounds, clock });
  const server = await createServer({ trustProxy: true, clock });
  server.app.get('/text', { config: { lane } }, async () => 'x'.repeat(bytes));
  server.app.get('/stream', { config: { lane, domain: 'stream' } }, async () => {
    return Readable.from(Array.from({ length: bytes / 65_536 }, () => Buffer.alloc(65_536)));
  });
  server.app.post('/', { config: { lane } }, async ({ body }) => body);
  await server.start();
  /** Sends the head of a request, of whose body a byte comes each second at most. */
  const drip = (client: string, isDripping: boolean): Disposable => {
    const headers = {
      'x-forwarded-for': client,
      'content-type': 'application/json',
      'content-length': '10000',
    };
    const request = ask(server.url, { method: 'POST', agent: false, headers });
    request.on('error', () => {});
    request.write('"');
    const timer = setInterval(() => isDripping && request.write('a'), 1_000);
    return {
      [Symbol.dispose]: () => {
        clearInterval(timer);
        request.destroy();
      },
    };
  };
  const getFrom = (path: string, client: string) => {
    const headers = { 'x-forwarded-for': client };
    const request = get(`${server.url}${path}`, { agent: false, headers });
    // Those that are cut end with an error.
    request.on('error', () => {});
    return request;
  };
  /** Asks and reads nothing; resolves when the answer has begun. */
  const stall = async (path: string, client: string): Promise<ClientRequest> => {
    const request = getFrom(path, client);
    await new Promise<void>((begun) => request.once('response', () => begun()));
    return request;
  };
  const read = (path: string, client: string) => {
    return new Promise<number>((resolve, reject) => {
      const request = getFrom(path, client);
      request.on('error', reject);
      request.on('response', (answer: IncomingMessage) => {
        let length = 0;
        answer.on('data', (data: Buffer) => {
          length += data.length;
        });
        answer.on('end', () => resolve(length));
        answer.on('error', reject);
      });
    });
  };
  /** Reads a long answer in six seconds, or as fast as it comes; gives what came of it. */
  const readSlowly = async (path: string, client: string): Promise<number> => {
    const answer = await new Promise<IncomingMessage>((begun) => {
      getFrom(path, client).once('response', begun);
    });
    const startedAt = performance.now();
    let length = 0;
    try {
      for await (const data of answer) {
        length += (data as Buffer).length;
        // By the clock, so that timers of a busy machine that come late do not add up.
        await sleep(startedAt + (length / bytes) * 6_000 - performance.now());
      }
    } catch {
      // It was cut: the length tells.
    }
    return length;
  };
  return { server, lane, drip, stall, read, readSlowly };
}

describe('clients that read nothing of long answers', () => {
  for (const path of ['/text', '/stream']) {
    it(`are cut once others wait for the permits that they hold: ${path}`, {
      timeout: 200_000,
    }, async () => {
      const { server, lane, stall, read } = await scene();
      await using _server = server;
      const stalled = await Promise.all([1, 2, 3, 4].map(() => stall(path, '203.0.113.1')));
      assert.equal(lane.stats.inside, 4);
      assert.equal(await read(path, '203.0.113.2'), bytes);
      for (const request of stalled) request.destroy();
    });
  }

  it('are not cut if they read slowly, though all are at one address', async () => {
    const { server, lane, read, readSlowly } = await scene();
    await using _server = server;
    const slow = [1, 2, 3, 4].map(() => readSlowly('/text', '203.0.113.1'));
    while (lane.stats.inside < 4) await turn();
    const [late, ...lengths] = await Promise.all([read('/text', '203.0.113.2'), ...slow]);
    assert.deepEqual(lengths, [bytes, bytes, bytes, bytes]);
    assert.equal(late, bytes);
  });

  it('are left alone while most permits are held by others', async () => {
    const clock = new VirtualClock();
    const { server, lane, stall, read } = await scene(clock);
    await using _server = server;
    const stalled = await Promise.all(
      [1, 2, 3, 4].map((client) => stall('/text', `203.0.113.${client}`)),
    );
    const late = read('/text', '203.0.113.9').catch(() => 0);
    while (lane.stats.waiting === 0) await turn();
    await clock.advance(8_000);
    await turn();
    assert.equal(lane.stats.inside, 4);
    assert.equal(lane.stats.outcomes.aborted, 0);
    for (const request of stalled) request.destroy();
    assert.equal(await late, bytes);
  });
});

describe('clients that do not send the body that they announce', () => {
  for (const isDripping of [false, true]) {
    const what = isDripping ? 'hardly anything' : 'nothing';
    it(`are cut once others wait, if they send ${what}`, { timeout: 200_000 }, async () => {
      const { server, lane, drip } = await scene();
      await using _server = server;
      using stack = new DisposableStack();
      for (let client = 0; client < 4; client += 1) stack.use(drip('203.0.113.1', isDripping));
      while (lane.stats.inside < 4) await turn();
      const headers = { 'content-type': 'application/json', 'x-forwarded-for': '203.0.113.2' };
      const answer = await fetch(server.url, { method: 'POST', headers, body: '"whole"' });
      assert.deepEqual([answer.status, await answer.text()], [200, 'whole']);
      assert.equal(lane.stats.outcomes.late, 0);
    });
  }

  it('are none of those whose bytes came while the event loop was held up', async () => {
    const clock = new VirtualClock();
    const { server, lane } = await scene(clock);
    await using _server = server;
    using stack = new DisposableStack();
    const open = async () => stack.use(await Wire.open(server));
    const text = post('/', `"${'a'.repeat(9_998)}"`, 'x-forwarded-for: 203.0.113.1\r\n');
    const wires = await Promise.all([1, 2, 3, 4].map(open));
    const send = (from: number, to: number) => {
      for (const wire of wires) wire.send(text.slice(from, to));
    };
    send(0, -9_000);
    while (lane.stats.inside < 4) await turn();
    const late = (await open()).send(post('/', '1', 'x-forwarded-for: 203.0.113.2\r\n'));
    while (lane.stats.waiting < 1) await turn();
    send(-9_000, -5_000);
    for (let turns = 0; turns < 9; turns += 1) await turn();
    await clock.advance(2_000);
    for (let turns = 0; turns < 9; turns += 1) await turn();
    // The time of the next check has come before the loop turns and reads these bytes.
    send(-5_000, -1);
    await clock.advance(2_000);
    for (let turns = 0; turns < 9; turns += 1) await turn();
    send(-1, text.length);
    await Promise.all([...wires, late].map((wire) => wire.until('200 OK')));
  });
});
