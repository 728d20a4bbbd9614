import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MemoryStore } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { createServer, type HttpServer, type IdempotencyOptions } from 'spillway-http';
import { ask } from './fixtures/site.ts';
import { post, Wire } from './fixtures/wire.ts';

const never = new Promise<never>(() => {});

/** Two instances on one store; the first dies in the middle of its work. */
async function open(options: IdempotencyOptions, work: (server: HttpServer, nth: number) => void) {
  const stack = new AsyncDisposableStack();
  const servers: HttpServer[] = [];
  for (const nth of [1, 2]) {
    const server = await createServer({ idempotency: options, closeMsMax: 0, log: false });
    work(server, nth);
    await server.start();
    stack.use(server);
    servers.push(server);
  }
  const [first, second] = servers as [HttpServer, HttpServer];
  return { first, second, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const again = (server: HttpServer) => {
  const headers = { 'idempotency-key': 'k' };
  return ask(`${server.url}/pay`, { method: 'POST', headers, body: { sum: 1 } });
};
const sent = post('/pay', JSON.stringify({ sum: 1 }), 'idempotency-key: k\r\n');

describe('a request whose instance dies before it answers', () => {
  it('is answered by another one if its answer was committed with its work', async () => {
    const store = new MemoryStore();
    const done = Promise.withResolvers<void>();
    await using site = await open({ store }, ({ app }, nth) => {
      app.post('/pay', async (request) => {
        const answer = { paid: nth };
        const work = { name: `paid/${nth}`, value: true, ifVersion: 0 };
        await store.commit([work, ...request.keepAnswer({ status: 201, body: answer })]);
        done.resolve();
        return nth === 1 ? never : answer;
      });
    });
    using wire = await Wire.open(site.first);
    wire.send(sent);
    await done.promise;
    const { status, json, headers } = await again(site.second);
    assert.deepEqual([status, json], [201, { paid: 1 }]);
    assert.equal(headers['idempotency-replayed'], 'true');
    const records = await store.list('paid/', { max: 9 });
    assert.equal(records.length, 1, 'the work was done once');
  });

  for (const whenLost of ['again', 'refuse'] as const) {
    it(`is told when to ask, and then ${whenLost}`, async () => {
      const clock = new VirtualClock();
      const store = new MemoryStore({ clock });
      const began = Promise.withResolvers<void>();
      await using site = await open({ store, clock, whenLost }, ({ app }, nth) => {
        app.post('/pay', async () => {
          began.resolve();
          return nth === 1 ? never : { paid: nth };
        });
      });
      using wire = await Wire.open(site.first);
      wire.send(sent);
      await began.promise;
      const told = async () => {
        const { status, json, headers } = await again(site.second);
        const { code } = Object(json.error);
        return [status, code, headers['retry-after']];
      };
      assert.deepEqual(await told(), [409, 'IDEMPOTENCY_RUNNING', '1']);
      await clock.advance(8_000);
      assert.deepEqual(await told(), [409, 'IDEMPOTENCY_RUNNING', '8']);
      await clock.advance(50_000);
      assert.deepEqual(await told(), [409, 'IDEMPOTENCY_RUNNING', '2']);
      await clock.advance(3_000);
      const last = await told();
      if (whenLost === 'again') assert.deepEqual(last, [200, undefined, undefined]);
      else assert.deepEqual(last, [409, 'IDEMPOTENCY_LOST', undefined]);
    });
  }
});
