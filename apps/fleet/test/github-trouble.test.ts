import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { StandIn } from 'spillway-fixtures/stand-in';
import { Github } from '../src/outside/github.ts';
import { outsideDispatcher } from '../src/outside/outside-host.ts';
import { commit, openGithub, other, passing, repo, sha } from './fixtures/github-scene.ts';

describe('GitHub in trouble', () => {
  it('is asked once more after a failure, and an old answer is better than none', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github, clock } = await openGithub(stack);
    let failures = 1;
    standIn.serve = (_request, response) => {
      failures -= 1;
      if (failures >= 0) response.writeHead(503).end();
      else response.end(JSON.stringify(commit));
    };
    assert.equal((await passing(clock, github.commit(repo, 'master')))?.sha, sha);
    assert.equal(standIn.asked.length, 2);
    failures = 2;
    assert.equal((await passing(clock, github.commit(repo, 'master')))?.sha, sha);
    assert.equal(standIn.asked.length, 4);
    failures = 2;
    await assert.rejects(passing(clock, github.commit(repo, 'never-asked')), {
      code: 'OUTSIDE_FAILED',
      status: 502,
    });
  });

  it('is left alone while it keeps failing, and asked again later', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github, clock } = await openGithub(stack);
    standIn.serve = (request) => request.socket.destroy();
    for (const ref of ['a', 'b']) {
      const error = { code: 'OUTSIDE_FAILED', message: /cannot be reached/ };
      await assert.rejects(passing(clock, github.commit(repo, ref)), error);
    }
    await assert.rejects(passing(clock, github.commit(repo, 'c')));
    const asked = standIn.asked.length;
    assert.ok(asked <= 6);
    await assert.rejects(github.commit(repo, 'd'), { code: 'BREAKER_OPEN' });
    assert.equal(standIn.asked.length, asked);
    await clock.advance(10_000);
    standIn.tellJson(commit);
    assert.equal((await github.commit(repo, 'e'))?.sha, sha);
    assert.equal((await github.commit(repo, 'f'))?.sha, sha);
  });

  it('has three seconds to answer', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github, clock } = await openGithub(stack);
    const arrived: PromiseWithResolvers<void>[] = [
      Promise.withResolvers(),
      Promise.withResolvers(),
    ];
    standIn.serve = () => arrived[standIn.asked.length - 1]?.resolve();
    const late = assert.rejects(github.commit(repo, 'slow'), { code: 'DEADLINE', status: 504 });
    await arrived[0]?.promise;
    await clock.advance(3_000);
    await clock.advance(100);
    await arrived[1]?.promise;
    await clock.advance(3_000);
    await late;
    assert.equal(standIn.asked.length, 2);
  });

  it('cannot hold who asks: a caller that leaves is told at once, the others wait on', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github } = await openGithub(stack);
    const arrived = Promise.withResolvers<() => void>();
    standIn.serve = (_request, response) => {
      arrived.resolve(() => response.end(JSON.stringify(commit)));
    };
    const leaver = new AbortController();
    const gone = assert.rejects(github.commit(repo, 'x', leaver.signal), { name: 'AbortError' });
    const waits = github.commit(repo, 'x');
    const answer = await arrived.promise;
    leaver.abort();
    await gone;
    answer();
    assert.equal((await waits)?.sha, sha);
    assert.equal(github.stats.cache.flights, 0);
  });

  it('is not believed when it answers nonsense', async () => {
    const nonsense = ['', '<html>', '[]', 'null', '{}', '{"sha":5}', '{"sha":"../../x"}'];
    for (const body of nonsense) {
      await using stack = new AsyncDisposableStack();
      const { standIn, github, clock } = await openGithub(stack);
      standIn.serve = (_request, response) => response.end(body);
      await assert.rejects(
        passing(clock, github.commit(repo, 'x')),
        { code: 'OUTSIDE_FAILED' },
        body,
      );
      if (body === '{}') continue;
      await assert.rejects(passing(clock, github.books()), { code: 'OUTSIDE_FAILED' }, body);
    }
  });

  it('cannot fill the memory', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github, clock } = await openGithub(stack);
    let sent = 0;
    standIn.serve = (_request, response) => {
      const flood = () => {
        while (sent < 100_000_000 && response.write('x'.repeat(65_536))) sent += 65_536;
      };
      response.on('drain', flood);
      flood();
    };
    await assert.rejects(passing(clock, github.file(repo, sha, 'a/b')), { code: 'OUTSIDE_FAILED' });
    assert.ok(sent < 60_000_000, `${sent} bytes were sent`);
  });

  it('cannot lead anywhere else', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github, clock } = await openGithub(stack);
    const victim = stack.use(await StandIn.open());
    const refused = { code: 'OUTSIDE_REFUSED' };
    for (const location of [
      `${victim.url}/x`,
      '/elsewhere',
      '//127.0.0.1:1/x',
      'file:///etc/passwd',
    ]) {
      standIn.serve = (_request, response) => response.writeHead(302, { location }).end();
      await assert.rejects(github.commit(repo, 'x'), refused, location);
    }
    assert.deepEqual(victim.asked, []);
    const asked = standIn.asked.length;
    for (const path of ['../x', 'a/../../x', '.', 'a//b']) {
      await assert.rejects(async () => github.file(repo, sha, path), refused, path);
    }
    await assert.rejects(async () => github.commit('https://github.com/../..', 'x'), refused);
    await assert.rejects(async () => github.commit(`${victim.url}/a/b`, 'x'), {
      code: 'REQUEST_REFUSED',
    });
    assert.equal(standIn.asked.length, asked);
    standIn.serve = (request, response) => {
      const isOld = request.url?.includes('/repos/');
      const location = '/api/repositories/7';
      if (isOld) response.writeHead(301, { location }).end();
      else response.end(JSON.stringify({ full_name: 'new/name' }));
    };
    assert.equal((await github.repository(repo))?.url, 'https://github.com/new/name');
    standIn.serve = (request, response) =>
      response.writeHead(302, { location: request.url as string }).end();
    await assert.rejects(passing(clock, github.commit(repo, 'circle')), /without end/);
  });
});

describe('the budget at GitHub', () => {
  const limits = (used: number, reset: number) => ({
    'x-ratelimit-limit': '60',
    'x-ratelimit-remaining': String(60 - used),
    'x-ratelimit-used': String(used),
    'x-ratelimit-reset': String(reset),
    'x-ratelimit-resource': 'core',
  });

  it('is known from its answers, and full again after its time', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github, clock } = await openGithub(stack);
    assert.equal(github.budget._uninitialized, true);
    standIn.tellJson(commit, limits(31, 100));
    assert.equal((await github.commit(repo, 'any'))?.sha, sha);
    const told = { limit: 60, remaining: 29, reset: 100, used: 31 };
    assert.deepEqual(github.budget, { ...told, resource: 'core', _uninitialized: false });
    await clock.advance(100_000);
    assert.equal(github.budget.remaining, 60);
  });

  it('is respected when it is used up: nobody asks before its time', async () => {
    for (const [status, headers] of [
      [429, { 'retry-after': '30' }],
      [403, { 'retry-after': '30' }],
    ] as const) {
      await using stack = new AsyncDisposableStack();
      const { standIn, github, clock } = await openGithub(stack);
      standIn.serve = (_request, response) => response.writeHead(status, headers).end('{}');
      const limited = { code: 'OUTSIDE_LIMITED', retryAfterMs: 30_000 };
      await assert.rejects(github.commit(repo, 'a'), limited);
      await clock.advance(29_000);
      await assert.rejects(github.commit(repo, 'b'), {
        code: 'OUTSIDE_LIMITED',
        retryAfterMs: 1_000,
      });
      assert.equal(standIn.asked.length, 1);
      await clock.advance(1_000);
      standIn.tellJson(commit);
      assert.equal((await github.commit(repo, 'b'))?.sha, sha);
    }
  });

  it('is spared by a rate of its own: a burst of questions is spread', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github, clock } = await openGithub(stack);
    standIn.tellJson(commit);
    const all = Array.from({ length: 30 }, (_, at) => github.commit(repo, `b${at}`));
    await Promise.all(all.slice(0, 10));
    assert.equal(standIn.asked.length, 10);
    await passing(clock, Promise.all(all));
    assert.ok(clock.now() >= 1_900, `${clock.now()} ms`);
  });
});

describe('the way outside', () => {
  it('goes through the proxy that the environment names, unless told otherwise', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, options, clock } = await openGithub(stack);
    standIn.tellJson(commit);
    const proxy = stack.use(await StandIn.open());
    const tunnels: string[] = [];
    proxy.serve = (_request, response) => response.end(JSON.stringify({ ...commit, sha: other }));
    proxy.server.on('connect', (request, socket: Socket) => {
      tunnels.push(request.url ?? '');
      const [host, port] = (request.url ?? '').split(':');
      const onward = connect(Number(port), host, () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        socket.pipe(onward).pipe(socket);
      });
      const end = () => onward.destroy() && socket.destroy();
      for (const one of [socket, onward]) one.on('error', end).on('close', end);
    });
    const ask = async (variables: Record<string, string>, apiUrl: string) => {
      const dispatcher = outsideDispatcher(variables);
      try {
        const github = new Github({ ...options, apiUrl, dispatcher });
        const asked = github.commit(repo, 'x').catch((error: unknown) => Object(error).code);
        return await passing(clock, asked);
      } finally {
        await dispatcher.destroy();
      }
    };
    const { host } = new URL(standIn.url);
    const direct = await ask({ HTTP_PROXY: proxy.url, no_proxy: '127.0.0.1' }, standIn.url);
    assert.equal(direct.sha, sha);
    assert.deepEqual([proxy.asked, tunnels], [[], []]);
    assert.equal((await ask({ http_proxy: proxy.url }, standIn.url)).sha, other);
    assert.deepEqual(proxy.asked, [`GET ${standIn.url}/repos/someone/engine/commits/x`]);
    const secure = standIn.url.replace('http:', 'https:');
    assert.equal(await ask({ HTTPS_PROXY: proxy.url }, secure), 'OUTSIDE_FAILED');
    assert.deepEqual(new Set(tunnels), new Set([host]));
  });
});
