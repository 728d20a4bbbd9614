import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createTcpServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { Lane, SpillwayError } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { createServer, type HttpServer, type ServerOptions } from 'spillway-http';
import { ask } from './fixtures/site.ts';
import { get, until, Wire } from './fixtures/wire.ts';

async function open(
  declare: (app: HttpServer['app']) => void,
  options: ServerOptions = { log: false },
): Promise<HttpServer> {
  const server = await createServer(options);
  declare(server.app);
  await server.start();
  return server;
}

const errorOf = (json: Record<string, unknown>) => json.error as Record<string, string>;

describe('strangers', () => {
  it('hear a code, a fixed sentence and an id, and no detail of the server', async () => {
    const details = [
      new SpillwayError('DATABASE_LOST', 'connect ECONNREFUSED 127.0.0.1:5432'),
      new SpillwayError('DATABASE_CONSTRAINT', 'UNIQUE constraint failed: users.email'),
      new SpillwayError('DOCUMENT_FAILED', 'EACCES: /var/lib/app/state.json'),
      new SpillwayError({ code: 'OWN', status: 500, retryable: false }, 'secret of /etc'),
      new Error('secret of /etc'),
    ];
    await using server = await open((app) => {
      app.get('/:at', async (request) => {
        throw details[Number((request.params as { at: string }).at)];
      });
    });
    for (const at of details.keys()) {
      const { text: body, json, headers } = await ask(`${server.url}/${at}`);
      assert.doesNotMatch(body, /ECONN|users|email|EACCES|var|secret|etc/, body);
      assert.equal(errorOf(json).id, headers['x-request-id']);
    }
    const kept = server.app.recentErrors.list().map(({ message }) => message);
    assert.ok(kept.includes('connect ECONNREFUSED 127.0.0.1:5432'));
  });

  it('are told by a full lane neither its name nor who is in it', async () => {
    const lane = new Lane({ name: 'secret-lane', limit: 1, queueMax: 0, deadlineMs: 1_000 });
    using _permit = await lane.enter();
    await using server = await open((app) => app.get('/', { config: { lane } }, async () => 'x'));
    const { status, text: body } = await ask(server.url);
    assert.equal(status, 503);
    assert.doesNotMatch(body, /secret-lane|inside|waiting/);
  });

  it('see codes of ours where Fastify has its own', async () => {
    await using server = await open((app) => app.post('/', async () => 'x'));
    const missing = await ask(`${server.url}/nothing`);
    assert.deepEqual([missing.status, errorOf(missing.json).code], [404, 'NOT_FOUND']);
    const headers = { 'content-type': 'application/json', 'content-length': '0' };
    const odd = await ask(server.url, { method: 'POST', headers });
    assert.doesNotMatch(odd.text, /FST_|REQUEST_REFUSED/);
  });
});

describe('a failure that nobody foresaw', () => {
  it('is one line of JSON on stderr, with id, stack and route', async () => {
    const script = `
      import { createServer } from 'spillway-http';
      const server = await createServer();
      server.app.get('/bug/:id', async () => { throw new TypeError('a bug'); });
      await server.start();
      const answer = await fetch(server.url + '/bug/1');
      console.log((await answer.json()).error.id);
      await server.close();
    `;
    const words = ['--input-type=module', '-e', script];
    const child = spawn(process.execPath, words, { cwd: import.meta.dirname });
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    const [line = '', ...more] = stderr.trim().split('\n');
    assert.deepEqual(more, []);
    const { id, route, message, stack } = JSON.parse(line);
    assert.deepEqual([id, route, message], [stdout.trim(), 'GET /bug/:id', 'a bug']);
    assert.match(stack, /TypeError: a bug\n +at /);
  });

  it('keeps its stack for the operator', async () => {
    await using server = await open((app) => {
      app.get('/', async () => {
        throw new Error('a bug');
      });
    });
    await ask(server.url);
    assert.match(server.app.recentErrors.list()[0]?.stack ?? '', /Error: a bug\n +at /);
  });

  it('has a code of its own if a service behind this one is down', async () => {
    const tcp = createTcpServer().listen(0, '127.0.0.1');
    await once(tcp, 'listening');
    const { port } = tcp.address() as { readonly port: number };
    await new Promise((resolve) => tcp.close(resolve));
    await using server = await open((app) => {
      app.get('/down', async () => (await fetch(`http://127.0.0.1:${port}`)).text());
      app.get('/slow', async () => {
        throw new DOMException('too slow', 'TimeoutError');
      });
    });
    const down = await ask(`${server.url}/down`);
    assert.deepEqual([down.status, errorOf(down.json).code], [502, 'UPSTREAM_UNREACHABLE']);
    const slow = await ask(`${server.url}/slow`);
    assert.deepEqual([slow.status, errorOf(slow.json).code], [504, 'UPSTREAM_SLOW']);
  });
});

describe('a body of JSON', () => {
  it('is refused if it is nested without bound, before anything is made of it', async () => {
    await using server = await open((app) => app.post('/', async () => 'x'), {
      log: false,
      idempotency: {},
    });
    const post = (body: string) => {
      const headers = { 'content-type': 'application/json', 'idempotency-key': 'k' };
      return ask(server.url, { method: 'POST', headers, body });
    };
    const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
    const deep = await post(nested(100_000));
    assert.deepEqual([deep.status, errorOf(deep.json).code], [400, 'BODY_INVALID']);
    assert.equal((await post(nested(65))).status, 400);
    assert.equal((await post(nested(64))).status, 200);
    const million = await post('['.repeat(1_000_000));
    assert.match(errorOf(million.json).message ?? '', /nested 64 levels/);
  });

  it('may have any number of brackets in its texts and side by side', async () => {
    await using server = await open((app) => app.post('/', async (request) => request.body));
    const value = { text: `${'['.repeat(200)}\\"${'{'.repeat(200)}`, list: Array(200).fill([{}]) };
    const { status, json } = await ask(server.url, { method: 'POST', body: value });
    assert.deepEqual([status, json], [200, value]);
  });
});

describe('one client', () => {
  it('cannot take a lane by requests that it sends without waiting', async () => {
    const limit = { fixed: 100 };
    const lane = new Lane({ name: 'l', limit, queueMax: 100, deadlineMs: 10_000 });
    const release = Promise.withResolvers<void>();
    const warnings: string[] = [];
    const warned = ({ name }: Error) => warnings.push(name);
    process.on('warning', warned);
    await using server = await open(
      (app) => {
        app.get('/', async () => {
          await release.promise;
          return 'x';
        });
      },
      { lane, log: false },
    );
    using wire = await Wire.open(server);
    wire.send(get('/').repeat(400));
    await until(() => lane.stats.inside > 0);
    using other = await Wire.open(server);
    other.send(get('/'));
    await until(() => server.connections === 2 && lane.stats.inside >= 18);
    assert.equal(lane.stats.inside, 18, 'one in turn, 16 behind it, and that of the other');
    release.resolve();
    await wire.until('PIPELINE_FULL', 383);
    assert.match(wire.text, /429 Too Many Requests/);
    process.off('warning', warned);
    assert.deepEqual(warnings, []);
  });

  it('cannot take all connections', async () => {
    const options = { connectionsMax: 4, connectionsPerAddressMax: 2, log: false };
    await using server = await open((app) => app.get('/', async () => 'x'), options);
    const near = [await Wire.open(server), await Wire.open(server)];
    const third = await Wire.open(server);
    await third.closed;
    assert.equal(server.connections, 2);
    near[0]?.[Symbol.dispose]();
    await until(() => server.connections === 1);
    using next = await Wire.open(server);
    next.send(get('/'));
    await next.until('200 OK');
    near[1]?.[Symbol.dispose]();
  });

  it('that floods past its rate takes no place from others', async () => {
    const lane = new Lane({ name: 'l', limit: 2, queueMax: 0, deadlineMs: 10_000 });
    const rate = { clock: new VirtualClock(), limits: [{ limit: 1, windowMs: 60_000 }] };
    await using server = await open((app) => app.get('/', async () => 'x'), { lane, rate });
    const statuses: number[] = [];
    for (let i = 0; i < 20; i += 1) statuses.push((await ask(server.url)).status);
    assert.deepEqual(new Set(statuses.slice(1)), new Set([429]));
    assert.equal(lane.stats.arrived, 1);
  });

  it('cannot name two hosts', async () => {
    await using server = await open((app) => app.get('/', async () => 'x'));
    using wire = await Wire.open(server);
    wire.send('GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n');
    await wire.until('REQUEST_INVALID');
    assert.match(wire.text, /^HTTP\/1\.1 400 /);
  });

  it('cannot evade a limit by what it writes into X-Forwarded-For', async () => {
    for (const trustProxy of [true, 1, ['127.0.0.1']] as const) {
      const rate = { clock: new VirtualClock(), limits: [{ limit: 5, windowMs: 60_000 }] };
      const options = { rate, trustProxy, log: false };
      await using server = await open((app) => app.get('/', async () => 'x'), options);
      let passed = 0;
      for (let i = 0; i < 12; i += 1) {
        // The proxy adds the address that it saw to what the client has written.
        const claims = [`garbage${i}`, `10.0.0.${i}, garbage`, `10.0.0.${i}, 203.0.113.9`];
        const headers = { 'x-forwarded-for': claims[trustProxy === true ? 0 : 2] as string };
        if ((await ask(server.url, { headers })).status === 200) passed += 1;
      }
      assert.equal(passed, 5, String(trustProxy));
    }
  });
});

describe('a server with the defaults', () => {
  it('answers a trivial route between requests that compute', async () => {
    const held = (ms: number) => {
      const until = performance.now() + ms;
      while (performance.now() < until);
    };
    let computed = 0;
    await using server = await open((app) => {
      app.get('/compute', async () => {
        held(5);
        computed += 1;
        return 'x';
      });
      app.get('/trivial', async () => 'x');
    });
    await ask(`${server.url}/compute`);
    const computing: Wire[] = [];
    for (let i = 0; i < 40; i += 1) computing.push(await Wire.open(server));
    using trivial = await Wire.open(server);
    computed = 0;
    for (const wire of computing) wire.send(get('/compute'));
    // All of them are in the kernel before the event loop looks again.
    held(20);
    let answered = 0;
    while (computed < 40) {
      await trivial.send(get('/trivial')).until('200 OK', answered + 1);
      answered += 1;
    }
    // The first alone would have been answered if they had all computed in one turn of the loop.
    assert.ok(answered >= 5, `${answered} trivial answers while 40 others computed`);
    for (const wire of computing) wire[Symbol.dispose]();
  });

  it('refuses nobody because another request computes, though nobody may wait', async () => {
    const held = (ms: number) => {
      const until = performance.now() + ms;
      while (performance.now() < until);
    };
    const lane = new Lane({ name: 'l', limit: 64, queueMax: 0, deadlineMs: 10_000 });
    await using server = await open(
      (app) => {
        app.get('/', async () => {
          held(5);
          return 'x';
        });
      },
      { lane, log: false },
    );
    await ask(server.url);
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask(server.url)));
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
  });

  it('keeps a route open though another is slow and full', async () => {
    const release = Promise.withResolvers<void>();
    await using server = await open(
      (app) => {
        app.get('/slow', async () => {
          await release.promise;
          return 'slow';
        });
        app.get('/quick', async () => 'quick');
      },
      { clock: new VirtualClock(), log: false },
    );
    const slow = Array.from({ length: 300 }, () => ask(`${server.url}/slow`));
    const statsOf = async () => {
      const { payload } = await server.operator.app.inject('/-/stats');
      return JSON.parse(payload).parts.routes.stats.lanes as { name: string; arrived: number }[];
    };
    for (let arrived = 0; arrived < 300; ) {
      await setTimeout(5);
      arrived = (await statsOf()).find(({ name }) => name === 'GET /slow')?.arrived ?? 0;
    }
    assert.equal((await ask(`${server.url}/quick`)).status, 200);
    release.resolve();
    const statuses = (await Promise.all(slow)).map(({ status }) => status);
    assert.ok(statuses.includes(200), 'those inside end well');
    assert.deepEqual(
      statuses.filter((status) => status !== 200 && status !== 503),
      [],
    );
  });

  it('refuses while its event loop is starved, and reports that it is not ready', async () => {
    await using server = await open((app) => app.get('/', async () => 'x'), {
      loopDelayMsMax: 50,
      log: false,
    });
    assert.equal((await ask(server.url)).status, 200);
    const hold = () => {
      const until = performance.now() + 200;
      while (performance.now() < until);
    };
    // Longer than a look and the delay allowed, again and again.
    const statuses: number[] = [];
    let isReady = true;
    for (let i = 0; i < 100 && (isReady || !statuses.includes(503)); i += 1) {
      hold();
      await new Promise((resolve) => setImmediate(resolve));
      const asked = Promise.all([ask(server.url), ask(`${server.url}/-/ready`)]);
      hold();
      const [own, ready] = await asked;
      statuses.push(own.status);
      isReady = ready.status === 200;
    }
    assert.ok(statuses.includes(503));
    assert.equal(isReady, false);
    for (let status = 503; status !== 200; ) {
      await new Promise((resolve) => setImmediate(resolve));
      status = (await ask(server.url)).status;
    }
  });
});

describe('a server that closes', () => {
  it('reports that it is not ready, and answers until load balancers have noticed', async () => {
    const clock = new VirtualClock();
    const server = await open((app) => app.get('/', async () => 'x'), {
      clock,
      lameDuckMs: 1_000,
    });
    using wire = await Wire.open(server);
    wire.send(get('/'));
    await wire.until('200 OK');
    const closed = server.close();
    assert.equal(server.ready, false);
    wire.send(get('/-/ready'));
    await wire.until('{"ready":false}');
    using late = await Wire.open(server);
    late.send(get('/'));
    await late.until('200 OK');
    assert.match(late.text, /connection: close/i);
    await clock.advance(1_000);
    await closed;
  });
});
