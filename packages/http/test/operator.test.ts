import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  Backlog,
  Breaker,
  Bucket,
  Gate,
  Lane,
  Lease,
  MemoryStore,
  Panel,
  Pool,
  RetryBudget,
  Service,
  Snapshot,
} from 'spillway';
import { createServer, type OperatorOptions } from 'spillway-http';
import { ask } from './ask.ts';
import { readExposition } from './exposition-reader.ts';
import { until } from './fixtures/wire.ts';

async function open(operator: OperatorOptions = {}) {
  const server = await createServer({ operator });
  const lane = new Lane({ name: 'search', limit: 9, queueMax: 9, deadlineMs: 1_000 });
  server.app.get('/items/:id', { config: { lane, domain: 'thread' } }, async () => 'x');
  server.app.post('/items', { config: { rate: { limit: 5, windowMs: 1_000 } } }, () => {
    throw new Error('broken');
  });
  await server.start();
  const read = async (path: string) => {
    const { statusCode: status, headers, payload: text } = await server.operator.app.inject(path);
    return { status, headers, text };
  };
  const json = async (path: string) => JSON.parse((await read(`/-/${path}`)).text);
  return { server, base: server.url, read, json, [Symbol.asyncDispose]: () => server.close() };
}

describe('operator endpoints', () => {
  it('list what there is, and are not to be cached', async () => {
    await using site = await open();
    const listed = await site.json('');
    const paths = ['live', 'ready', 'stats', 'metrics', 'routes', 'errors', 'config'];
    for (const path of paths) {
      assert.ok(`/-/${path}` in listed, path);
      const { status, headers } = await site.read(`/-/${path}`);
      assert.deepEqual([status, headers['cache-control']], [200, 'no-store'], path);
    }
    assert.deepEqual(await site.json('live'), { live: true });
  });

  it('list themselves as a page for browsers, and describe the routes', async () => {
    await using server = await createServer({});
    const schema = {
      summary: 'Changes an item.',
      querystring: { type: 'object', properties: { dry: { type: 'boolean' } } },
      body: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
      response: { 200: { type: 'object', properties: { ok: { type: 'boolean' } } } },
    };
    server.app.post('/items/:id', { schema }, async () => ({ ok: true }));
    await server.start();
    const { app } = server.operator;
    const page = await app.inject({ url: '/-/', headers: { accept: 'text/html' } });
    assert.match(page.payload, /<a href="\/-\/openapi\.json">/);
    const { openapi, paths } = JSON.parse((await app.inject('/-/openapi.json')).payload);
    assert.equal(openapi, '3.1.0');
    assert.deepEqual(Object.keys(paths), ['/items/{id}']);
    assert.deepEqual(paths['/items/{id}'].post, {
      summary: 'Changes an item.',
      parameters: [
        { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
        { name: 'dry', in: 'query', required: false, schema: { type: 'boolean' } },
      ],
      requestBody: { required: true, content: { 'application/json': { schema: schema.body } } },
      responses: {
        200: {
          description: 'The answer',
          content: { 'application/json': { schema: schema.response[200] } },
        },
      },
    });
  });

  it('name the parts of a service that are not ready, to the operator alone', async () => {
    const pool = { name: 'pool', ready: false };
    const service = new Service({ parts: [{ name: 'db' }, pool] });
    await using site = await open({ ready: service });
    const ready = async () => {
      const { status, text } = await site.read('/-/ready');
      const probed = await ask(`${site.base}/-/ready`);
      assert.equal(probed.status, status);
      assert.deepEqual(JSON.parse(probed.text), { ready: status === 200 });
      return [status, JSON.parse(text)];
    };
    assert.deepEqual(await ready(), [503, { ready: false, unready: ['db', 'pool'] }]);
    await service.start();
    assert.deepEqual(await ready(), [503, { ready: false, unready: ['pool'] }]);
    pool.ready = true;
    assert.deepEqual(await ready(), [200, { ready: true, unready: [] }]);
    await service.close();
    assert.equal((await ready())[0], 503);
  });

  it('tell beside readiness what a commit to each store survives', async () => {
    const panel = new Panel();
    await using site = await open({ panel });
    assert.deepEqual(await site.json('ready'), { ready: true, unready: [] });
    await using store = new MemoryStore();
    using _shown = panel.watch('limits', store);
    const durability = { limits: 'none' };
    assert.deepEqual(await site.json('ready'), { ready: true, unready: [], durability });
  });

  it('ask parts whether they are ready', async () => {
    const part = { name: 'warm-up', ready: false };
    await using site = await open({ ready: [part] });
    assert.deepEqual(await site.json('ready'), { ready: false, unready: ['warm-up'] });
    part.ready = true;
    assert.equal((await site.read('/-/ready')).status, 200);
  });

  it('show every route with its lane, domain and rate', async () => {
    await using site = await open();
    const routes = (await site.json('routes')) as Record<string, unknown>[];
    const own = routes.filter(({ path }) => String(path).startsWith('/items'));
    assert.deepEqual(
      own.map(({ method, path, lane, domain, rate, broken }) => {
        return { method, path, lane, domain, rate, broken };
      }),
      [
        { method: 'GET', path: '/items/:id', lane: 'search', domain: 'thread', rate: null },
        {
          ...{ method: 'POST', path: '/items', lane: 'POST /items', domain: 'loop' },
          rate: { limit: 5, windowMs: 1_000 },
        },
      ].map((route) => ({ ...route, broken: false })),
    );
  });

  it('count answers and their time by route pattern, however many paths there are', async () => {
    await using site = await open();
    for (let id = 0; id < 20; id += 1) {
      await ask(`${site.base}/items/${id}`);
      await ask(`${site.base}/nothing/${id}`);
    }
    await site.server.app.inject({ method: 'POST', url: '/items' });
    const { routes } = await site.json('stats');
    const used = (routes as { method: string; path: string; answers: object }[]).filter(
      ({ answers }) => Object.keys(answers).length > 0,
    );
    const shown = used.map(({ method, path, answers }) => [`${method} ${path}`, answers]);
    assert.deepEqual(Object.fromEntries(shown), {
      'GET /items/:id': { 200: 20 },
      ' unmatched': { 404: 20 },
      'POST /items': { 500: 1 },
    });
    const { samples } = readExposition((await site.read('/-/metrics')).text).get(
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
      ([key]) => key.includes('_bucket') && key.includes('"GET",route="/items/'),
    );
    const counts = bounds.map(([, count]) => count);
    assert.deepEqual(
      counts,
      counts.toSorted((a, b) => a - b),
      'buckets are cumulative',
    );
  });

  it('count a client that leaves before its answer', async () => {
    await using server = await createServer();
    const left = Promise.withResolvers<void>();
    server.app.get('/slow', async (request) => {
      request.signal.addEventListener('abort', () => left.resolve());
      await left.promise;
      return 'late';
    });
    await server.start();
    const quitter = new AbortController();
    const gone = assert.rejects(fetch(`${server.url}/slow`, { signal: quitter.signal }));
    await new Promise((resolve) => server.app.server.once('request', resolve));
    quitter.abort();
    await Promise.all([gone, left.promise]);
    const { payload } = await server.operator.app.inject('/-/stats');
    const { routes } = JSON.parse(payload);
    const slow = routes.find(({ path }: { path: string }) => path === '/slow');
    assert.deepEqual(slow.answers, { aborted: 1 });
  });

  it('list recent errors with what strangers are not told', async () => {
    await using site = await open();
    await ask(`${site.base}/items`);
    await site.server.app.inject({ method: 'POST', url: '/items' });
    const [error] = await site.json('errors');
    assert.deepEqual([error.route, error.message], ['POST /items', 'broken']);
  });

  it('show of a configuration only what is named, and of the rest whether it is set', async () => {
    const values = {
      port: 80,
      auth: 'hunter2',
      privatePem: 'pem',
      database: 'postgres://u:p@h/d',
      pwd: undefined,
      hosts: ['a'],
    };
    await using site = await open({ config: { values, shown: ['port', 'hosts', 'later'] } });
    const expected = { port: 80, auth: '(set)', privatePem: '(set)', database: '(set)' };
    assert.deepEqual(await site.json('config'), { ...expected, pwd: null, hosts: ['a'] });
  });

  it('tell an operator the details of a failure', async () => {
    await using server = await createServer();
    server.operator.app.get('/-/fails', async () => {
      throw new Error('the very reason');
    });
    const { payload } = await server.operator.app.inject('/-/fails');
    assert.equal(JSON.parse(payload).error.message, 'the very reason');
  });

  it('show the lanes of all routes once, and which routes hold the event loop', async () => {
    await using server = await createServer({ loopMsMax: 20 });
    const root = new Lane({ name: 'root', limit: 9, queueMax: 0, deadlineMs: 1_000 });
    const inner = { queueMax: 0, deadlineMs: 1_000, parent: root };
    const lane = new Lane({ name: 'searches', limit: 2, ...inner });
    server.app.get('/slow', { config: { lane } }, async () => {
      const endAt = performance.now() + 50;
      while (performance.now() < endAt);
      return 'held the loop';
    });
    server.app.get('/other', { config: { lane: root } }, async () => 'other');
    server.app.get('/plain', async () => 'by the server');
    await server.start();
    await ask(`${server.url}/slow`);
    await until(() => lane.stats.finished === 1);
    const read = async (path: string) => {
      return JSON.parse((await server.operator.app.inject(`/-/${path}`)).payload);
    };
    const routes: { path: string; lane: string; broken: boolean }[] = await read('routes');
    assert.deepEqual(
      routes.slice(-3).map(({ path, lane: name, broken }) => [path, name, broken]),
      [
        ['/slow', 'searches', true],
        ['/other', 'root', false],
        ['/plain', 'GET /plain', false],
      ],
    );
    const { parts } = await read('stats');
    assert.deepEqual(new Set(Object.keys(parts)), new Set(['routes', 'root']));
    assert.equal(parts.root.stats.lanes[0].finished, 1);
  });
});

describe('metrics', () => {
  it('tell the numbers of every kind of part, in text that a strict reader takes', async () => {
    await using stack = new AsyncDisposableStack();
    const panel = new Panel();
    const lane = stack.use(new Lane({ name: 'root', limit: 4, queueMax: 0, deadlineMs: 1_000 }));
    const inner = { queueMax: 0, deadlineMs: 1_000, parent: lane };
    const nested = new Lane({ name: 'a"b\\c\nd', limit: 1, ...inner });
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
    const backlog = stack.use(new Backlog<number>({ queueMax: 4, consume: () => {} }));
    const store = new MemoryStore();
    const lease = stack.use(
      await Lease.acquire({ store, name: 'primary', ttlMs: 9_000, waits: false }),
    );
    const breaker = new Breaker();
    const bucket = new Bucket({ ratePerSecond: 10, queueMax: 1 });
    const watch = (name: string, kind: string, part: { readonly stats: object }) => {
      panel.watch(name, {
        get stats() {
          return { kind, ...part.stats };
        },
      });
    };
    panel.watch('api', lane);
    panel.watch('render', pool);
    watch('jobs', 'backlog', backlog);
    watch('primary', 'lease', lease);
    watch('upstream', 'breaker', breaker);
    panel.watch('calls', bucket);
    panel.watch('door', new Gate({ limit: 3, queueMax: 0 }));
    panel.watch('prices', new Snapshot('v'));
    panel.watch('budget', new RetryBudget());
    panel.watch('mine', { stats: { depth: 7, open: true, name: 'x' } });
    panel.watch('broken', {
      get stats(): unknown {
        throw new Error('no numbers');
      },
    });
    await using site = await open({ panel });
    using _permit = nested.tryEnter();
    assert.equal(nested.tryEnter(), undefined);
    assert.equal(await pool.run('double', 4), 8);

    const { headers, text } = await site.read('/-/metrics');
    assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
    const families = readExposition(text);
    const value = (key: string) => families.get(key.replace(/\{.*/s, ''))?.samples.get(key);
    const child = 'lane="a\\"b\\\\c\\nd",parent="api"';
    assert.equal(value('spillway_lane_inside{lane="api"}'), 1);
    assert.equal(value(`spillway_lane_inside{${child}}`), 1);
    assert.equal(value(`spillway_lane_refused_total{${child},reason="full"}`), 1);
    assert.equal(value('spillway_lane_limit{lane="twin",parent="api"}'), 1);
    assert.equal(value('spillway_lane_limit{lane="twin#2",parent="api"}'), 2);
    assert.ok((value(`spillway_lane_arrivals_per_second{${child}}`) as number) > 0);
    assert.equal(value(`spillway_lane_wait_seconds{${child},at="p99"}`), 0);
    assert.equal(value('spillway_pool_workers_state{pool="render",item="0",state="ready"}'), 1);
    assert.ok((value('spillway_pool_workers_heap_bytes{pool="render",item="0"}') as number) > 0);
    assert.equal(value('spillway_pool_finished_total{pool="render"}'), 1);
    assert.equal(value('spillway_pool_version{pool="render"}'), 0);
    assert.equal(value('spillway_snapshot_version{snapshot="prices"}'), 0);
    assert.equal(value('spillway_backlog_waiting{backlog="jobs"}'), 0);
    assert.equal(value('spillway_backlog_dropped_total{backlog="jobs",reason="full"}'), 0);
    assert.equal(value('spillway_lease_held{lease="primary"}'), 1);
    assert.ok((value('spillway_lease_left_seconds{lease="primary"}') as number) > 0);
    assert.equal(value('spillway_breaker_state{breaker="upstream",state="closed"}'), 1);
    assert.equal(value('spillway_bucket_rate_per_second{bucket="calls"}'), 10);
    assert.equal(value('spillway_gate_limit{gate="door"}'), 3);
    assert.ok(value('spillway_retry_budget_tokens{retry_budget="budget"}') !== undefined);
    assert.equal(value('spillway_part_depth{part="mine"}'), 7);
    assert.equal(value('spillway_part_open{part="mine"}'), 1);
    assert.ok((value('process_resident_memory_bytes') as number) > 1e6);
    assert.ok((value('process_cpu_seconds_total') as number) > 0);
    assert.ok((value('nodejs_eventloop_utilization') as number) <= 1);

    const { parts } = await site.json('stats');
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
