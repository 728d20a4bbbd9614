import assert from 'node:assert/strict';
import type { Server } from 'node:http';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fastify, { type FastifyInstance } from 'fastify';
import oldest from 'fastify-oldest';
import { Lane, Service } from 'spillway';
import { Listener } from 'spillway/connect';
import { admission, failures } from 'spillway-http';
import { until } from './fixtures/wire.ts';

const versions: Readonly<Record<string, () => FastifyInstance>> = {
  newest: () => fastify(),
  oldest: () => oldest() as unknown as FastifyInstance,
};

async function open(
  t: TestContext,
  make: () => FastifyInstance,
  deadlineMs: number,
  handler: (signal: AbortSignal) => Promise<string>,
) {
  const lane = new Lane({ name: 'quotes', limit: { fixed: 1 }, queueMax: 0, deadlineMs });
  const app = make();
  await app.register(failures);
  await app.register(admission, { lane });
  app.get('/', (request) => handler(request.permit.signal));
  const routes = { name: 'fastify', start: () => app.ready(), close: () => app.close() };
  const listener = new Listener(app.server as Server);
  const service = new Service({ parts: [lane, routes, listener] });
  await service.start();
  t.after(() => service.close());
  return { lane, service, url: listener.url };
}

const bodyOf = async (answer: Response) => {
  return (await answer.json()) as { error: { code: string; message: string } };
};

for (const [version, make] of Object.entries(versions)) {
  describe(`the plugins on a Fastify instance of one's own, the ${version} of its major`, () => {
    it('let requests into the lane', async (t) => {
      const { lane, url } = await open(t, make, 60_000, async () => 'fine');
      assert.equal(await (await fetch(url)).text(), 'fine');
      await until(() => lane.stats.outcomes.ok === 1);
    });

    it('refuse at once with 503, Retry-After and a code when the lane is full', async (t) => {
      const { promise, resolve } = Promise.withResolvers<string>();
      const { lane, url } = await open(t, make, 60_000, () => promise);
      const first = fetch(url);
      await until(() => lane.stats.inside === 1);
      const answer = await fetch(url);
      assert.equal(answer.status, 503);
      assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
      assert.equal((await bodyOf(answer)).error.code, 'LANE_FULL');
      resolve('served');
      assert.equal(await (await first).text(), 'served');
    });

    it('answer 504 at the deadline, and hold the permit of a handler that goes on', async (t) => {
      const { promise, resolve } = Promise.withResolvers<string>();
      const { lane, url } = await open(t, make, 50, () => promise);
      const answer = await fetch(url);
      assert.deepEqual([answer.status, (await bodyOf(answer)).error.code], [504, 'DEADLINE']);
      assert.equal(lane.stats.inside, 1);
      resolve('too late');
      await until(() => lane.stats.inside === 0);
      assert.equal(lane.stats.outcomes.late, 1);
    });

    it('abort the signal when the client leaves', async (t) => {
      const { lane, url } = await open(t, make, 60_000, async (signal) => {
        await sleep(60_000, undefined, { signal });
        return 'nobody listens';
      });
      const client = new AbortController();
      const gone = fetch(url, { signal: client.signal });
      await until(() => lane.stats.inside === 1);
      client.abort();
      await assert.rejects(gone, { name: 'AbortError' });
      await until(() => lane.stats.outcomes.aborted === 1);
    });

    it('tell a client of an unexpected error only that there was one', async (t) => {
      const { url } = await open(t, make, 60_000, async () => {
        throw new Error('password 1234');
      });
      const answer = await fetch(url);
      const { error } = await bodyOf(answer);
      assert.deepEqual([answer.status, error.code], [500, 'UNEXPECTED']);
      assert.doesNotMatch(error.message, /1234/);
    });

    it('drain as a part of a service', async (t) => {
      const { promise, resolve } = Promise.withResolvers<string>();
      const { lane, service, url } = await open(t, make, 60_000, () => promise);
      const running = fetch(url);
      await until(() => lane.stats.inside === 1);
      const closed = service.close();
      resolve('served to the end');
      assert.equal(await (await running).text(), 'served to the end');
      await closed;
    });
  });
}
