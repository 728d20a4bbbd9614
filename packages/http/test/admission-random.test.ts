// Slow: plays many random schedules.

import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { describe, it } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { type Clock, Lane, type Random, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { createServer, httpError } from 'spillway-http';
import { get, post, until, Wire } from './fixtures/wire.ts';

const turns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i += 1) await new Promise((resolve) => setImmediate(resolve));
};

/** Lets a millisecond pass with each turn of the event loop, however fast the machine is. */
function passTime(clock: VirtualClock): AsyncDisposable {
  let isOver = false;
  const pass = async (): Promise<void> => {
    while (!isOver) {
      await turns(1);
      await clock.advance(1);
    }
  };
  const passing = pass();
  return {
    [Symbol.asyncDispose]: () => {
      isOver = true;
      return passing;
    },
  };
}

/** Every way a handler may end, or not. */
function declare(app: FastifyInstance, random: Random, clock: Clock): void {
  const wait = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  app.all('/ok', async ({ body }) => ({ body }));
  app.all('/throw', () => {
    throw new Error('thrown');
  });
  app.all('/reject', async () => {
    await turns(3);
    throw httpError('NOT_PRIMARY', 'rejected');
  });
  app.all('/deaf', async () => {
    await wait(random() * 60);
    return 'late';
  });
  app.all('/patient', ({ permit: { signal } }) => {
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  });
  app.all('/stream', async () => {
    const stream = new PassThrough();
    stream.write('some');
    const end = random();
    void turns(5).then(() => (end < 0.5 ? stream.end() : stream.destroy(new Error('broken'))));
    return stream;
  });
  app.all('/hijack', (_request, reply) => {
    reply.hijack();
    const end = random();
    void turns(2).then(() => (end < 0.5 ? reply.raw.end('raw') : reply.raw.destroy()));
  });
  app.all('/callback', (_request, reply) => {
    void turns(2).then(() => reply.send('called'));
  });
  const preHandler = async () => {
    await turns(1);
    throw new Error('hook');
  };
  app.all('/hook', { preHandler }, async () => 'never');
  const onSend = async (_request: unknown, _reply: unknown, payload: unknown) => {
    await wait(random() * 40);
    return payload;
  };
  app.all('/send', { onSend }, async (_request, reply) => reply.send('slowly'));
}

const paths = ['ok', 'throw', 'reject', 'deaf', 'patient', 'stream', 'hijack', 'callback', 'hook'];
const requests: readonly ((path: string) => string)[] = [
  (path) => get(path),
  (path) => get(path).replace('GET', 'HEAD'),
  (path) => get(path).replace('GET', 'OPTIONS'),
  (path) => post(path, '{"a":1}'),
  (path) => post(path, '{"a":'),
  (path) => post(path, '{}').replace('/json', '/xml'),
  (path) => post(path, '{}').replace('length: 2', 'length: 2000000'),
  (path) => post(path, '{"a":1}').slice(0, -2),
  (path) => post(path, '{}').replace('content-length: 2', 'transfer-encoding: chunked'),
  (path) => post(path, '{}') + get(path) + post(path, '{"b":2}'),
];

/** One connection: sends something, and leaves at some time or waits for what becomes of it. */
async function visit(port: number, random: Random): Promise<void> {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  using wire = new Wire(port);
  const path = `/${pick([...paths, 'send', 'nowhere'])}`;
  const count = 1 + Math.floor(random() * 3);
  for (let i = 0; i < count; i += 1) wire.send(pick(requests)(path));
  if (random() < 0.5) await turns(Math.floor(random() * 30));
  else await Promise.race([wire.until('\r\n\r\n').catch(() => {}), wire.closed]);
}

describe('admission, whatever clients and handlers do', () => {
  for (const seed of [1, 2, 3]) {
    it(`has no place taken when all is over (seed ${seed})`, async () => {
      const random = seededRandom(seed);
      const clock = new VirtualClock();
      const sizes = { limit: { fixed: 4 }, queueMax: 4, deadlineMs: 30 };
      const lane = new Lane({ name: 'storm', ...sizes, clock });
      await using _passing = passTime(clock);
      await using server = await createServer({ lane, clock, log: false });
      declare(server.app, random, clock);
      await server.start();
      const port = Number(new URL(server.url).port);
      const visitors = Array.from({ length: 40 }, async () => {
        for (let i = 0; i < 40; i += 1) await visit(port, random);
      });
      await Promise.all(visitors);
      await until(() => lane.stats.inside === 0 && lane.stats.waiting === 0, 'an empty lane');
      const { arrived, started, finished, refused } = lane.stats;
      assert.equal(started, finished);
      const turnedAway = Object.values(refused).reduce((sum, count) => sum + count, 0);
      assert.equal(arrived, started + turnedAway);
      // Enough of both for it to be a storm.
      assert.ok(finished > 200 && turnedAway > 100, JSON.stringify(lane.stats));
      assert.equal((await fetch(`${server.url}/ok`)).status, 200);
    });
  }
});
