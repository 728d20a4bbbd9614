import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage, request, type Server } from 'node:http';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAdaptorServer } from '@hono/node-server';
import express from 'express';
import { Hono } from 'hono';
import { type Clock, Lane } from 'spillway';
import { admission, admitted, failures, Listener, signalOf } from 'spillway/connect';
import * as fetching from 'spillway/fetch';
import { VirtualClock } from 'spillway/testing';

type Handler = (signal: AbortSignal) => Promise<string>;

/** The same route, `GET /`, in each framework: all of them have to behave alike. */
const frameworks: Readonly<Record<string, (lane: Lane, handler: Handler) => Server>> = {
  'node:http': (lane, handler) =>
    createServer(admitted(lane, async (_req, res, signal) => res.end(await handler(signal)))),

  'Express, a handler': (lane, handler) => {
    const app = express();
    app.get(
      '/',
      admitted(lane, async (_req, res: express.Response, signal) => {
        res.send(await handler(signal));
      }),
    );
    app.use(failures);
    return createServer(app);
  },

  'Express, a middleware': (lane, handler) => {
    const app = express();
    app.use(admission({ lane, keyOf: (req) => req.socket.remoteAddress }));
    app.get('/', async (req, res) => {
      res.send(await handler(signalOf(req)));
    });
    app.use(failures);
    return createServer(app);
  },

  'Hono, a middleware': (lane, handler) => {
    const app = new Hono();
    app.use(fetching.admission({ lane }));
    app.get('/', async (context) =>
      context.text(await handler(fetching.signalOf(context.req.raw))),
    );
    app.onError(fetching.failures);
    return createAdaptorServer({ fetch: app.fetch }) as Server;
  },

  'Request to Response': (lane, handler) => {
    const answer = fetching.admitted(lane, async (_request, signal) => {
      return new Response(await handler(signal));
    });
    return createAdaptorServer({ fetch: answer }) as Server;
  },
};

async function open(t: TestContext, framework: string, handler: Handler, clock?: Clock) {
  const deadlineMs = 5_000;
  const lane = new Lane({ name: 'quotes', limit: { fixed: 1 }, queueMax: 0, deadlineMs, clock });
  const server = frameworks[framework]?.(lane, handler) as Server;
  const listener = new Listener(server);
  await listener.start();
  t.after(() => listener.close({ withinMs: 0 }));
  return { lane, listener, url: listener.url };
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; !condition(); tries += 1) {
    assert.ok(tries < 2_000, 'it never came true');
    await sleep(10);
  }
}

interface Body {
  readonly ok: boolean;
  readonly error: { readonly code: string; readonly message: string };
}

const bodyOf = async (answer: Response): Promise<Body> => (await answer.json()) as Body;

const quiet = (t: TestContext) => t.mock.method(console, 'error', () => {});

for (const framework of Object.keys(frameworks)) {
  describe(`an adapter for ${framework}`, () => {
    it('answers within the lane, and gives the permit back', async (t) => {
      const { lane, url } = await open(t, framework, async () => 'fine');
      const answer = await fetch(url);
      assert.deepEqual([answer.status, await answer.text()], [200, 'fine']);
      await until(() => lane.stats.inside === 0);
      assert.equal(lane.stats.outcomes.ok, 1);
    });

    it('refuses at once with 503, Retry-After and a code when the lane is full', async (t) => {
      const { promise, resolve } = Promise.withResolvers<string>();
      const { lane, url } = await open(t, framework, () => promise);
      const first = fetch(url);
      await until(() => lane.stats.inside === 1);
      const answer = await fetch(url);
      assert.equal(answer.status, 503);
      assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
      const { ok, error } = await bodyOf(answer);
      assert.deepEqual([ok, error.code], [false, 'LANE_FULL']);
      assert.doesNotMatch(error.message, /quotes/, 'names of lanes are nothing for clients');
      resolve('late enough');
      assert.equal(await (await first).text(), 'late enough');
    });

    it('answers 504 at the deadline, and a handler that goes on does no harm', async (t) => {
      const log = quiet(t);
      let reason: unknown;
      const { promise, resolve } = Promise.withResolvers<string>();
      const clock = new VirtualClock();
      const handler: Handler = (signal) => {
        signal.addEventListener('abort', () => {
          reason = signal.reason;
        });
        return promise;
      };
      const { lane, url } = await open(t, framework, handler, clock);
      const asked = fetch(url);
      await until(() => lane.stats.inside === 1);
      await clock.advance(5_000);
      const answer = await asked;
      assert.equal(answer.status, 504);
      assert.equal((await bodyOf(answer)).error.code, 'DEADLINE');
      assert.equal((reason as { code: string }).code, 'DEADLINE');
      resolve('too late');
      await until(() => lane.stats.inside === 0);
      assert.equal(lane.stats.outcomes.late, 1);
      assert.equal((await fetch(url)).status, 200, 'the next one is in time');
      assert.equal(log.mock.callCount(), 0);
    });

    it('aborts the signal when the client leaves, and takes the permit back', async (t) => {
      const log = quiet(t);
      let reason: unknown;
      const { lane, url } = await open(t, framework, async (signal) => {
        await sleep(60_000, undefined, { signal }).catch(() => {
          reason = signal.reason;
        });
        throw reason;
      });
      const client = new AbortController();
      const gone = fetch(url, { signal: client.signal });
      await until(() => lane.stats.inside === 1);
      client.abort();
      await assert.rejects(gone, { name: 'AbortError' });
      await until(() => lane.stats.inside === 0);
      assert.equal((reason as Error).name, 'AbortError');
      assert.equal(log.mock.callCount(), 0);
      assert.equal(lane.stats.outcomes.aborted, 1);
    });

    it('tells the log of an unexpected error, and the client only its code', async (t) => {
      const log = quiet(t);
      const errors: readonly [Error, number, string][] = [
        [new Error('password 1234'), 500, 'UNEXPECTED'],
        [Object.assign(new Error('x'), { code: 'ECONNREFUSED' }), 502, 'UPSTREAM_UNREACHABLE'],
        [Object.assign(new Error('no id'), { status: 404, expose: true }), 404, 'REQUEST_INVALID'],
      ];
      let next = 0;
      const { url } = await open(t, framework, async () => {
        throw errors[next++]?.[0];
      });
      for (const [, status, code] of errors) {
        const answer = await fetch(url);
        const { error } = await bodyOf(answer);
        assert.deepEqual([answer.status, error.code], [status, code]);
        assert.doesNotMatch(error.message, /1234/);
      }
      assert.equal(log.mock.callCount(), 2);
    });

    it('drains: a request under way is answered, idle and silent connections end', async (t) => {
      const { promise, resolve } = Promise.withResolvers<string>();
      const { lane, listener, url } = await open(t, framework, () => promise);
      const running = fetch(url);
      await until(() => lane.stats.inside === 1);
      assert.equal(listener.ready, true);
      const closed = listener.close({ withinMs: 60_000 });
      assert.equal(listener.ready, false);
      const refused = await fetch(url).catch((error: Error) => error);
      assert.equal(((refused as Error).cause as { code: string }).code, 'ECONNREFUSED');
      resolve('served to the end');
      assert.equal(await (await running).text(), 'served to the end');
      await closed;
      await lane.close();
    });
  });
}

describe('Listener', () => {
  it('cuts what is left at the limit', async () => {
    const listener = new Listener(createServer(() => {}));
    await listener.start();
    const cut = fetch(listener.url).catch((error: unknown) => error);
    await sleep(20);
    await listener.close({ withinMs: 20 });
    assert.ok((await cut) instanceof Error);
  });

  it('rejects when the port is taken', async (t) => {
    const first = new Listener(createServer());
    await first.start();
    t.after(() => first.close());
    const second = new Listener(createServer(), { port: Number(new URL(first.url).port) });
    await assert.rejects(second.start(), { code: 'EADDRINUSE' });
  });

  it('does not listen any more once it was closed, also during its start', async (t) => {
    const server = createServer();
    t.after(() => server.close());
    const listener = new Listener(server);
    const starting = assert.rejects(listener.start(), { name: 'AbortError' });
    await listener.close();
    await starting;
    assert.equal(server.listening, false);
    await assert.rejects(listener.start(), { name: 'AbortError' });
    assert.equal(server.listening, false);
  });

  it('closes at once when its start has failed', async () => {
    await using first = new Listener(createServer());
    await first.start();
    const second = new Listener(createServer(), { port: Number(new URL(first.url).port) });
    const failing = assert.rejects(second.start(), { code: 'EADDRINUSE' });
    await second.close();
    await failing;
  });
});

describe('admission', () => {
  for (const when of ['at once', 'after a wait']) {
    it(`lets handlers that compute ${when} begin one at a time`, async () => {
      const lane = new Lane({ name: 'sums', limit: { fixed: 8 }, queueMax: 8, deadlineMs: 60_000 });
      let turns = 0;
      const turn = () => {
        turns += 1;
        next = setImmediate(turn);
      };
      let next = setImmediate(turn);
      const startedAt: number[] = [];
      const compute = fetching.admitted(lane, async () => {
        startedAt.push(turns);
        if (when === 'after a wait') await new Promise(setImmediate);
        const endAt = performance.now() + 5;
        while (performance.now() < endAt);
        return new Response('42');
      });
      const ask = () => compute(new Request('http://localhost/'));
      for (let count = 0; count < 8; count += 1) await ask();
      startedAt.length = 0;
      await Promise.all([ask(), ask(), ask(), ask()]);
      clearImmediate(next);
      assert.equal(new Set(startedAt).size, 4, `begun in the turns ${startedAt}`);
    });
  }

  it('refuses options that it does not know', () => {
    const lane = new Lane({ name: 'quotes', limit: 1, queueMax: 0, deadlineMs: 100 });
    const wrong = { lane, concurrency: 5 };
    assert.throws(() => admission(wrong), /admission: concurrency: is not an option/);
    assert.throws(() => signalOf({}), /has not been through an admission/);
  });

  it('refuses what is no lane and no handler', () => {
    const lane = new Lane({ name: 'quotes', limit: 1, queueMax: 0, deadlineMs: 100 });
    const wraps = [admitted, fetching.admitted] as ((...given: unknown[]) => unknown)[];
    for (const wrap of wraps) {
      assert.throws(() => wrap(undefined, () => {}), /admitted: lane: must be/);
      assert.throws(() => wrap(lane, undefined), /admitted: handler: must be a function/);
    }
    assert.throws(() => new Listener(undefined as never), /Listener: server: must be a Server/);
  });

  it('lets nobody in whose client went during an earlier Express handler', async (t) => {
    const lane = new Lane({ name: 'quotes', limit: { fixed: 1 }, queueMax: 0, deadlineMs: 5_000 });
    const gone = Promise.withResolvers<void>();
    const control = new AbortController();
    const app = express();
    app.use((_req, res, next) => {
      control.abort();
      res.once('close', () => {
        setImmediate(() => {
          next();
          gone.resolve();
        });
      });
    });
    app.use(admission({ lane }));
    app.get('/', (_req, res) => res.send('fine'));
    const listener = new Listener(createServer(app));
    await listener.start();
    t.after(() => listener.close({ withinMs: 0 }));
    get(listener.url, { signal: control.signal }).on('error', () => {});
    await gone.promise;
    assert.equal(lane.stats.inside, 0);
  });

  it('lets nobody in who left before a Request came', async () => {
    const lane = new Lane({ name: 'quotes', limit: { fixed: 1 }, queueMax: 0, deadlineMs: 5_000 });
    const answer = fetching.admitted(lane, () => assert.fail('ran'));
    const signal = AbortSignal.abort();
    await answer(new Request('http://localhost/', { signal }));
    assert.deepEqual([lane.stats.inside, lane.stats.outcomes.failed], [0, 0]);
  });

  it('answers 500 when an Express handler rejects with something that is no error', async (t) => {
    const log = quiet(t);
    const lane = new Lane({ name: 'quotes', limit: 1, queueMax: 0, deadlineMs: 5_000 });
    const thrown = [null, undefined, 'route', 'router', '', 0];
    const app = express();
    for (const [at, value] of thrown.entries()) {
      app.get(
        `/${at}`,
        admitted(lane, () => Promise.reject(value)),
      );
    }
    app.use(failures);
    const listener = new Listener(createServer(app));
    await listener.start();
    t.after(() => listener.close({ withinMs: 0 }));
    for (const at of thrown.keys()) {
      const answer = await fetch(`${listener.url}/${at}`);
      assert.equal(answer.status, 500);
      assert.equal((await bodyOf(answer)).error.code, 'UNEXPECTED');
    }
    assert.equal(log.mock.callCount(), thrown.length);
  });

  it('gets the permit back from a handler whose client sends half a body', async (t) => {
    quiet(t);
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'texts', limit: { fixed: 2 }, queueMax: 0, deadlineMs: 50 });
    const app = new Hono();
    app.use(fetching.admission({ lane }));
    app.post('/', async (context) => context.text(await context.req.raw.text()));
    app.onError(fetching.failures);
    const plain = admitted(lane, async (req, res) => res.end((await req.toArray()).join('')));
    const servers = [createServer(plain), createAdaptorServer({ fetch: app.fetch }) as Server];
    for (const server of servers) {
      const listener = new Listener(server, { clock });
      await listener.start();
      t.after(() => listener.close({ withinMs: 0 }));
      const headers = { 'content-length': 1_000 };
      const asked = request(listener.url, { method: 'POST', headers });
      asked.on('error', () => {});
      asked.write('half');
      const [answer] = (await once(asked, 'response')) as [IncomingMessage];
      assert.equal(answer.statusCode, 504);
      await answer.toArray();
      assert.equal(lane.stats.inside, 1, 'the handler still reads');
      await until(() => clock.pending > 0);
      await clock.advance(5_000);
      await until(() => lane.stats.inside === 0);
      asked.destroy();
    }
  });

  it('cuts an answer that has begun when its deadline passes', async (t) => {
    const lane = new Lane({ name: 'quotes', limit: 1, queueMax: 0, deadlineMs: 50 });
    const server = createServer(
      admitted(lane, async (_req, res) => {
        res.write('half of ');
        await sleep(5_000, undefined, { ref: false });
      }),
    );
    const listener = new Listener(server);
    await listener.start();
    t.after(() => listener.close({ withinMs: 0 }));
    const { promise, resolve } = Promise.withResolvers<IncomingMessage>();
    get(listener.url, resolve);
    const answer = await promise;
    await assert.rejects(answer.toArray(), { code: 'ECONNRESET' });
  });
});
