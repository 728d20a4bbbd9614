import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import websocket from '@fastify/websocket';
import type { FastifyPluginAsync } from 'fastify';
import { Breaker, Lane } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { admission, createServer, type HttpServer } from 'spillway-http';
import { WebSocket } from 'ws';
import { open, roomy } from './fixtures/open-server.ts';
import { get, until, Wire } from './fixtures/wire.ts';

async function codeOf(response: Response): Promise<string> {
  const { error } = (await response.json()) as { error: { code: string } };
  return error.code;
}

describe('admission', () => {
  it('leaves the lane its size while a breaker in the handler refuses', async () => {
    const lane = new Lane({ ...roomy, name: 'calls' });
    const { limit } = lane.stats;
    const breaker = new Breaker();
    using _held = breaker.hold('open');
    await using server = await open({ lane }, ({ app }) =>
      app.get('/', () => breaker.run(async () => 'never')),
    );
    for (let call = 0; call < 20; call += 1) {
      assert.equal(await codeOf(await fetch(server.url)), 'BREAKER_OPEN');
    }
    await until(() => lane.stats.inside === 0);
    assert.equal(lane.stats.limit, limit);
  });

  it('refuses at once, with the time to come back, when the lane is full', async () => {
    const lane = new Lane({ name: 'one', limit: 1, queueMax: 0, deadlineMs: 60_000 });
    const work = Promise.withResolvers<string>();
    await using server = await open({ lane }, ({ app }) => app.get('/', () => work.promise));
    const first = fetch(server.url);
    await until(() => lane.stats.inside === 1);
    const refused = await fetch(server.url);
    assert.equal(refused.status, 503);
    assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/);
    assert.equal(await codeOf(refused), 'LANE_FULL');
    work.resolve('done');
    assert.equal(await (await first).text(), 'done');
    assert.equal((await fetch(server.url)).status, 200);
    await until(() => lane.stats.inside === 0);
    assert.equal(lane.stats.finished, 2);
  });

  it('ends a request when its client no longer waits, by the header', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ ...roomy, clock });
    const signals: AbortSignal[] = [];
    const declare = ({ app }: HttpServer) =>
      app.get('/', ({ permit }) => {
        signals.push(permit.signal);
        return new Promise((resolve) => permit.signal.addEventListener('abort', resolve));
      });
    await using server = await open({ lane, clock }, declare);
    const ask = (timeout: string) =>
      fetch(server.url, { headers: { 'request-timeout-ms': timeout } });
    const answers = [ask('2000'), ask('500'), ask('soon'), ask('99999999')];
    await until(() => signals.length === 4);
    const aborted = () => signals.filter(({ aborted }) => aborted).length;
    await clock.advance(500);
    assert.equal(aborted(), 1);
    await clock.advance(1_500);
    assert.equal(aborted(), 2, 'two have no deadline of their own that is sooner than the lane');
    await clock.advance(58_000);
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    assert.deepEqual(statuses, [504, 504, 504, 504]);
    assert.equal(lane.stats.outcomes.late, 4);
  });

  it('lets the next in line in when one has left', async () => {
    const lane = new Lane({ name: 'line', limit: 1, queueMax: 1, deadlineMs: 60_000 });
    const works = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
    let begun = 0;
    await using server = await open({ lane }, ({ app }) => {
      app.get('/', () => works[begun++]?.promise);
    });
    const first = fetch(server.url);
    await until(() => lane.stats.inside === 1);
    const second = fetch(server.url);
    await until(() => lane.stats.waiting === 1);
    assert.equal((await fetch(server.url)).status, 503);
    assert.equal(begun, 1);
    works[0]?.resolve('a');
    assert.equal(await (await first).text(), 'a');
    await until(() => begun === 2);
    works[1]?.resolve('b');
    assert.equal(await (await second).text(), 'b');
  });

  it('answers at the deadline though the handler goes on, which keeps its place', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'late', limit: 1, queueMax: 0, deadlineMs: 1_000, clock });
    const work = Promise.withResolvers<string>();
    let reason: unknown;
    await using server = await open({ lane, clock }, ({ app }) => {
      app.get('/', ({ permit }) => {
        permit.signal.addEventListener('abort', () => {
          reason = permit.signal.reason;
        });
        return work.promise;
      });
    });
    using wire = await Wire.open(server);
    wire.send(get('/'));
    await until(() => lane.stats.inside === 1);
    await clock.advance(999);
    assert.equal(wire.text, '');
    await clock.advance(1);
    assert.match(await wire.until('"DEADLINE"'), /^HTTP\/1.1 504 /);
    assert.equal((reason as { code: string }).code, 'DEADLINE');
    assert.equal(lane.stats.inside, 1);
    assert.equal((await fetch(server.url)).status, 503);
    work.resolve('too late');
    await until(() => lane.stats.inside === 0);
    // The connection is as good as before: its next answer is the next request's.
    wire.text = '';
    wire.send(get('/'));
    assert.match(await wire.until('too late'), /^HTTP\/1.1 200 /);
  });

  it('gives each request its own deadline, whenever it came', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ ...roomy, deadlineMs: 1_000, clock });
    await using server = await open({ lane, clock }, ({ app }) => {
      app.get('/', () => new Promise(() => {}));
    });
    const statuses: number[] = [];
    for (let i = 1; i <= 3; i += 1) {
      void fetch(server.url).then(({ status }) => statuses.push(status));
      await until(() => lane.stats.inside === i);
      await clock.advance(300);
    }
    await clock.advance(100);
    await until(() => statuses.length === 1);
    await clock.advance(299);
    assert.deepEqual(statuses, [504]);
    await clock.advance(1);
    await until(() => statuses.length === 2);
    await clock.advance(300);
    await until(() => statuses.length === 3);
  });

  it('aborts the work of a client that has gone, and keeps its place until it ends', async () => {
    const lane = new Lane({ ...roomy, limit: 1, queueMax: 1 });
    const work = Promise.withResolvers<void>();
    const aborted: unknown[] = [];
    await using server = await open({ lane }, ({ app }) => {
      app.get('/', async ({ permit: { signal } }) => {
        await once(signal, 'abort');
        aborted.push(signal.reason.name);
        await work.promise;
      });
    });
    const wire = await Wire.open(server);
    wire.send(get('/'));
    await until(() => lane.stats.inside === 1);
    const waiting = await Wire.open(server);
    waiting.send(get('/'));
    await until(() => lane.stats.waiting === 1);
    // Who waits leaves at once.
    waiting.socket.destroy();
    await until(() => lane.stats.waiting === 0);
    assert.equal(lane.stats.refused.aborted, 1);
    wire.socket.destroy();
    await until(() => aborted.length === 1);
    assert.deepEqual(aborted, ['AbortError']);
    assert.equal(lane.stats.inside, 1);
    work.resolve();
    await until(() => lane.stats.inside === 0);
  });

  it('keeps one lane free of the burst on another', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'work', limit: 2, queueMax: 2, deadlineMs: 1_000, clock });
    const beat = new Lane({ name: 'beat', limit: 2, queueMax: 0, deadlineMs: 1_000, clock });
    await using server = await open({ lane, clock }, ({ app }) => {
      app.get('/work', () => new Promise(() => {}));
      app.get('/beat', { config: { lane: beat } }, async () => 'alive');
    });
    const burst = Array.from({ length: 50 }, () => fetch(`${server.url}/work`));
    await until(() => lane.stats.refused.full === 46);
    for (let i = 0; i < 20; i += 1) {
      assert.equal(await (await fetch(`${server.url}/beat`)).text(), 'alive');
    }
    await clock.advance(1_000);
    const statuses = (await Promise.all(burst)).map(({ status }) => status);
    assert.equal(statuses.filter((status) => status === 504).length, 4);
    assert.equal(beat.stats.finished, 20);
  });

  it('takes the lane of the innermost scope that names one', async () => {
    const [outer, inner, own] = ['outer', 'inner', 'own'].map((name) => {
      return new Lane({ ...roomy, name });
    }) as [Lane, Lane, Lane];
    await using server = await open({}, ({ app }) => {
      const name = async ({ permit }: { permit: { lane: Lane } }) => permit.lane.name;
      app.get('/default', name);
      const deep: FastifyPluginAsync = async (scope) => {
        await scope.register(admission, { lane: inner });
        scope.get('/inner', name);
      };
      const middle: FastifyPluginAsync = async (scope) => {
        await scope.register(admission, { lane: outer });
        scope.get('/outer', name);
        scope.get('/own', { config: { lane: own } }, name);
        await scope.register(deep);
      };
      return app.register(middle);
    });
    for (const name of ['default', 'outer', 'inner', 'own']) {
      const lane = name === 'default' ? 'GET /default' : name;
      assert.equal(await (await fetch(`${server.url}/${name}`)).text(), lane);
    }
  });

  it('gives the place of an upgraded socket back when it is open', async () => {
    const lane = new Lane(roomy);
    await using server = await open({ lane }, async ({ app }) => {
      await app.register(websocket);
      app.get('/', { websocket: true }, (socket) => socket.send('hello'));
    });
    const socket = new WebSocket(server.url.replace('http', 'ws'));
    const [message] = await once(socket, 'message');
    assert.equal(String(message), 'hello');
    await until(() => lane.stats.inside === 0 && lane.stats.finished === 1);
    socket.close();
    await once(socket, 'close');
  });

  it('refuses to be registered without a lane', async () => {
    const { app } = await createServer();
    const wrong = { lane: undefined as unknown as Lane };
    await assert.rejects(async () => await app.register(admission, wrong), /lane: must be a Lane/);
  });
});
