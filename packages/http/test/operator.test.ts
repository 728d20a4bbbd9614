import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import Fastify from 'fastify';
import {
  Backlog,
  Breaker,
  Bucket,
  Gate,
  GradientLimit,
  Lane,
  Lease,
  MemoryStore,
  Pool,
  RetryBudget,
  Service,
  Snapshot,
} from 'spillway';
import { type OperatorOptions, operator, Panel } from 'spillway-http';
import { ask, portOf } from './ask.ts';
import { readExposition } from './exposition-reader.ts';

async function open(options: OperatorOptions) {
  const app = Fastify();
  await app.register(operator, options);
  app.get(
    '/items/:id',
    { config: { lane: 'search', domain: 'thread' } as object },
    async () => 'x',
  );
  app.post('/items', { config: { lane: { name: 'write' }, rate: { max: 5 } } as object }, () => {
    throw new Error('broken');
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const base = `http://127.0.0.1:${portOf(app)}`;
  const json = async (path: string) => JSON.parse((await ask(`${base}/-/${path}`)).text);
  return { app, base, json, [Symbol.asyncDispose]: () => app.close() };
}

describe('operator endpoints', () => {
  it('say that the server lives, and are not to be cached', async () => {
    await using server = await open({});
    const { status, text, headers } = await ask(`${server.base}/-/live`);
    assert.deepEqual([status, JSON.parse(text)], [200, { live: true }]);
    assert.equal(headers['cache-control'], 'no-store');
  });

  it('name the parts of a service that are not ready', async () => {
    const pool = { name: 'pool', ready: false };
    const service = new Service({ parts: [{ name: 'db' }, pool] });
    await using server = await open({ ready: service });
    const ready = async () => {
      const { status, text } = await ask(`${server.base}/-/ready`);
      return [status, JSON.parse(text)];
    };
    assert.deepEqual(await ready(), [503, { ready: false, state: 'new', unready: ['db', 'pool'] }]);
    await service.start();
    assert.deepEqual(await ready(), [503, { ready: false, state: 'ready', unready: ['pool'] }]);
    pool.ready = true;
    assert.deepEqual(await ready(), [200, { ready: true, state: 'ready', unready: [] }]);
    await service.close();
    assert.equal((await ready())[0], 503);
  });

  it('ask a function what is not ready', async () => {
    const missing: string[] = ['warm-up'];
    await using server = await open({ ready: () => missing });
    assert.equal((await ask(`${server.base}/-/ready`)).status, 503);
    missing.pop();
    assert.equal((await ask(`${server.base}/-/ready`)).status, 200);
  });

  it('show every route with its lane, domain and rate', async () => {
    await using server = await open({});
    const routes = (await server.json('routes')) as { path: string; lane: string }[];
    const own = routes.filter(({ path }) => path.startsWith('/-/'));
    assert.equal(own.length, 9);
    assert.ok(
      own.every(({ lane }) => lane === 'operator'),
      'no other lane can fill theirs',
    );
    assert.deepEqual(
      routes.filter(({ path }) => !path.startsWith('/-/')),
      [
        { method: 'GET', path: '/items/:id', lane: 'search', domain: 'thread', rate: null },
        { method: 'POST', path: '/items', lane: 'write', domain: null, rate: { max: 5 } },
      ].map((route) => ({ ...route, loopMs: null, broken: null })),
    );
  });

  it('count answers and their time by route pattern, however many paths there are', async () => {
    await using server = await open({});
    for (let id = 0; id < 20; id += 1) {
      await ask(`${server.base}/items/${id}`);
      await ask(`${server.base}/nothing/${id}`);
    }
    await server.app.inject({ method: 'POST', url: '/items' });
    const { routes } = await server.json('stats');
    const shown = Object.fromEntries(
      routes.map((route: { method: string; path: string; answers: object }) => {
        return [`${route.method} ${route.path}`, route.answers];
      }),
    );
    assert.deepEqual(shown, {
      'GET /items/:id': { 200: 20 },
      ' unmatched': { 404: 20 },
      'POST /items': { 500: 1 },
    });
    const { samples } = readExposition((await ask(`${server.base}/-/metrics`)).text).get(
      'spillway_http_request_seconds',
    ) as { samples: Map<string, number> };
    const of = (suffix: string, le = '') =>
      samples.get(
        `spillway_http_request_seconds${suffix}{method="GET",route="/items/:id"${le}}`,
      ) as number;
    assert.equal(of('_count'), 20);
    assert.equal(of('_bucket', ',le="+Inf"'), 20);
    assert.ok(of('_sum') > 0);
    const bounds = [...samples].filter(
      ([key]) => key.includes('_bucket') && key.includes('/items/'),
    );
    const counts = bounds.map(([, count]) => count);
    assert.deepEqual(
      counts,
      counts.toSorted((a, b) => a - b),
      'buckets are cumulative',
    );
  });

  it('count a client that leaves before its answer', async () => {
    const app = Fastify();
    await app.register(operator);
    const left = Promise.withResolvers<void>();
    app.get('/slow', async (request) => {
      request.signal.addEventListener('abort', () => left.resolve());
      await left.promise;
      return 'late';
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    const base = `http://127.0.0.1:${portOf(app)}`;
    const quitter = new AbortController();
    const gone = assert.rejects(fetch(`${base}/slow`, { signal: quitter.signal }));
    await new Promise((resolve) => app.server.once('request', resolve));
    quitter.abort();
    await Promise.all([gone, left.promise]);
    const { routes } = JSON.parse((await ask(`${base}/-/stats`)).text);
    const slow = routes.find(({ path }: { path: string }) => path === '/slow');
    assert.deepEqual(slow.answers, { aborted: 1 });
    await app.close();
  });

  it('list recent errors, hide secrets, and show plugins, as plain data', async () => {
    const error = Object.assign(new Error('no'), { code: 'E' });
    await using server = await open({
      errors: { list: () => [{ id: '1', error }] },
      config: { database: 'postgres://u:p@h/d', session: { keys: ['k'] } },
      plugins: { stats: { plugins: [{ name: 'a' }], errors: [] } },
    });
    assert.deepEqual(await server.json('errors'), [
      { id: '1', error: { name: 'Error', code: 'E', message: 'no' } },
    ]);
    assert.deepEqual(await server.json('config'), {
      database: 'postgres://***@h/d',
      session: { keys: '***' },
    });
    assert.deepEqual(await server.json('plugins'), { plugins: [{ name: 'a' }], errors: [] });
  });

  it('move with their prefix', async () => {
    await using server = await open({ prefix: '/ops/' });
    assert.equal((await ask(`${server.base}/ops/live`)).status, 200);
    assert.equal((await ask(`${server.base}/-/live`)).status, 404);
    await assert.rejects(open({ prefix: 'ops' }), /prefix: must be a path/);
  });
});

describe('metrics', () => {
  it('tell the numbers of every kind of part, in text that a strict reader takes', async () => {
    await using stack = new AsyncDisposableStack();
    const panel = new Panel();
    const lane = stack.use(new Lane({ name: 'root', limit: 4, queueMax: 0, deadlineMs: 1_000 }));
    const inner = { queueMax: 0, deadlineMs: 1_000, parent: lane };
    const child = new Lane({ name: 'a"b\\c\nd', limit: 1, ...inner });
    new Lane({ name: 'twin', limit: 1, ...inner });
    new Lane({ name: 'twin', limit: 2, ...inner });
    const pool = stack.use(
      await Pool.open<typeof import('./fixtures/double.ts')>({
        module: new URL('./fixtures/double.ts', import.meta.url),
        workers: 1,
        queueMax: 4,
        deadlineMs: 10_000,
      }),
    );
    const backlog = stack.use(new Backlog<number>({ sizeMax: 4, consume: () => {} }));
    const store = new MemoryStore();
    const lease = stack.use(
      await Lease.acquire({ store, name: 'primary', ttlMs: 9_000, queueMax: 0 }),
    );
    const breaker = new Breaker();
    const bucket = new Bucket({ ratePerSecond: 10, queueMax: 1 });
    panel.watch('api', lane);
    panel.watch('render', pool);
    panel.watch('jobs', backlog);
    panel.watch('primary', lease);
    panel.watch('upstream', breaker);
    panel.watch('calls', bucket);
    panel.watch('door', new Gate({ limit: 3, queueMax: 0 }));
    panel.watch('prices', new Snapshot('v'));
    panel.watch('size', new GradientLimit({ sizeMax: 9 }));
    panel.watch('budget', new RetryBudget());
    panel.watch('mine', { stats: { depth: 7, open: true, name: 'x' } });
    panel.watch('broken', {
      get stats(): unknown {
        throw new Error('no numbers');
      },
    });
    await using server = await open({ panel });
    using _permit = child.tryEnter();
    assert.equal(child.tryEnter(), undefined);
    assert.equal(await pool.run('double', 4), 8);

    const { headers, text } = await ask(`${server.base}/-/metrics`);
    assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
    const families = readExposition(text);
    const value = (key: string) => families.get(key.replace(/\{.*/s, ''))?.samples.get(key);
    const path = 'api/a\\"b\\\\c\\nd';
    assert.equal(value('spillway_lane_inside{lane="api"}'), 1);
    assert.equal(value(`spillway_lane_inside{lane="${path}"}`), 1);
    assert.equal(value(`spillway_lane_refused_total{lane="${path}",reason="full"}`), 1);
    assert.equal(value('spillway_lane_limit{lane="api/twin"}'), 1);
    assert.equal(value('spillway_lane_limit{lane="api/twin#2"}'), 2);
    assert.ok((value(`spillway_lane_arrivals_per_second{lane="${path}"}`) as number) > 0);
    assert.equal(value(`spillway_lane_wait_seconds{lane="${path}",at="p99"}`), 0);
    assert.equal(value('spillway_pool_workers{pool="render",state="ready"}'), 1);
    assert.equal(value('spillway_pool_finished_total{pool="render"}'), 1);
    assert.ok(value('spillway_pool_utilisation{pool="render"}') !== undefined);
    assert.equal(value('spillway_pool_version{pool="render"}'), 0);
    assert.equal(value('spillway_snapshot_versions{snapshot="prices"}'), 1);
    assert.equal(value('spillway_backlog_waiting{backlog="jobs"}'), 0);
    assert.equal(value('spillway_backlog_dropped_total{backlog="jobs",reason="full"}'), 0);
    assert.equal(value('spillway_lease_held{lease="primary"}'), 1);
    assert.ok((value('spillway_lease_left_seconds{lease="primary"}') as number) > 0);
    assert.equal(value('spillway_breaker_state{breaker="upstream",state="closed"}'), 1);
    assert.equal(value('spillway_breaker_state{breaker="upstream",state="open"}'), 0);
    assert.equal(value('spillway_bucket_rate_per_second{bucket="calls"}'), 10);
    assert.equal(value('spillway_gate_limit{gate="door"}'), 3);
    assert.equal(value('spillway_limit_size_max{limit="size"}'), 9);
    assert.ok(value('spillway_retry_budget_tokens{retry_budget="budget"}') !== undefined);
    assert.equal(value('spillway_part{part="mine",field="depth"}'), 7);
    assert.equal(value('spillway_part{part="mine",field="open"}'), 1);
    assert.ok((value('process_resident_memory_bytes') as number) > 1e6);
    assert.ok((value('process_cpu_seconds_total') as number) > 0);
    assert.ok((value('nodejs_eventloop_utilization') as number) <= 1);

    const { parts } = await server.json('stats');
    assert.equal(parts.api.kind, 'lane');
    assert.equal(parts.api.stats.lanes.length, 3);
    assert.equal(parts.render.stats.workers[0].state, 'ready');
    assert.deepEqual(parts.broken, {
      kind: 'failed',
      stats: { error: { name: 'Error', message: 'no numbers' } },
    });
  });
});

describe('Panel', () => {
  it('shows a part until it is let go, and two parts never by one name', () => {
    const panel = new Panel();
    const first = panel.watch('a', { stats: 1 });
    assert.throws(() => panel.watch('a', { stats: 2 }), /name: must be one that no other/);
    assert.throws(() => panel.watch('b', {} as never), /part: must be something with stats/);
    first[Symbol.dispose]();
    panel.watch('a', { stats: 3 });
    first[Symbol.dispose]();
    assert.deepEqual([...panel.read()], [['a', { kind: 'other', stats: 3 }]]);
  });

  it('watches no more than a thousand parts', () => {
    const panel = new Panel();
    for (let at = 0; at < 1_000; at += 1) panel.watch(`part ${at}`, { stats: at });
    assert.throws(() => panel.watch('one more', { stats: 0 }), /at most 1000/);
  });
});
