import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { askOperator, createServer, operatorSocket } from 'spillway-http';
import { ask } from './ask.ts';
import { until } from './fixtures/wire.ts';

const token = 'correct-horse-battery-staple';
const secrets = ['metrics', 'stats', 'stats/stream', 'errors', 'routes', 'config', ''];

async function temporaryFolder(stack: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'operator-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

describe('the operator’s socket', () => {
  it('answers its own user only, and is gone with its server', async () => {
    await using stack = new AsyncDisposableStack();
    const socket = operatorSocket(await temporaryFolder(stack));
    const server = await createServer({ operator: { socket } });
    await server.start();
    const { mode } = await stat(socket);
    assert.equal(mode & 0o777, 0o600);
    const { status, text } = await askOperator({ socket, path: '/-/stats' });
    assert.equal(status, 200);
    assert.ok(JSON.parse(text).process.uptimeMs > 0);
    await server.close();
    assert.equal(existsSync(socket), false);
    await assert.rejects(askOperator({ socket, path: '/-/live' }), { code: 'ENOENT' });
  });

  it('takes the place of one that a crash left behind', async () => {
    await using stack = new AsyncDisposableStack();
    const socket = operatorSocket(await temporaryFolder(stack));
    const crash = "() => process.kill(process.pid, 'SIGKILL')";
    const script = `require('net').createServer().listen(process.argv[1], ${crash})`;
    await once(spawn(process.execPath, ['-e', script, socket]), 'exit');
    assert.ok(existsSync(socket));
    await assert.rejects(askOperator({ socket, path: '/-/live' }), { code: 'ECONNREFUSED' });
    await using server = await createServer({ operator: { socket } });
    await server.start();
    assert.equal((await askOperator({ socket, path: '/-/live' })).status, 200);
  });

  it('stays with the first of two servers, and passes to the second', async () => {
    await using stack = new AsyncDisposableStack();
    const socket = operatorSocket(await temporaryFolder(stack));
    const clock = new VirtualClock();
    const first = await createServer({ name: 'first', operator: { socket, config: shown(1) } });
    await first.start();
    await using second = await createServer({ clock, operator: { socket, config: shown(2) } });
    await second.start();
    const nth = async () => {
      return JSON.parse((await askOperator({ socket, path: '/-/config' })).text).nth;
    };
    assert.equal(await nth(), 1);
    await first.close();
    await clock.advance(1_000);
    await until(() => existsSync(socket));
    assert.equal(await nth(), 2);
  });

  it('is refused if its path is longer than a socket may have', async () => {
    const socket = operatorSocket(`/tmp/${'x'.repeat(200)}`);
    const server = await createServer({ operator: { socket } });
    await assert.rejects(server.start(), /operator\.socket: must be a path of 1 to 96 bytes/);
    await server.close();
  });
});

function shown(nth: number) {
  return { values: { nth }, shown: ['nth'] };
}

describe('the operator’s port', () => {
  it('lets in who shows the token, whatever else the request says', async () => {
    await using server = await createServer({ operator: { remote: { port: 0, token } } });
    await server.start();
    const status = async (headers: Record<string, string>, path = 'stats') => {
      return (await ask(`${server.operator.url}/-/${path}`, headers)).status;
    };
    assert.equal(await status({ authorization: `Bearer ${token}` }), 200);
    assert.equal(await status({ authorization: `bearer ${token}`, host: 'shop.example' }), 200);
    const wrong = ['', 'Bearer', 'Bearer ', 'Bearer wrong', `Bearer ${token}x`, `Basic ${token}`];
    for (const authorization of wrong) assert.equal(await status({ authorization }), 403);
    for (const path of [...secrets, 'live', 'ready']) {
      assert.equal(await status({ host: 'localhost' }, path), 403, path);
    }
  });

  it('leaves nothing open when the port is taken', async () => {
    await using stack = new AsyncDisposableStack();
    const socket = operatorSocket(await temporaryFolder(stack));
    const taken = createTcpServer().listen(0, '127.0.0.1');
    stack.defer(() => void taken.close());
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    await using server = await createServer({ operator: { socket, remote: { port, token } } });
    await assert.rejects(server.start(), { code: 'EADDRINUSE' });
    await assert.rejects(askOperator({ socket, path: '/-/live' }), { code: 'ENOENT' });
  });

  it('refuses to begin with a token that can be guessed', async () => {
    const remote = { port: 0, token: 'short' };
    await assert.rejects(createServer({ operator: { remote } }), /token: must be a word of 16/);
  });
});

/** Configurations that people copy from the documentation of their proxy. */
const proxies: Readonly<
  Record<string, (port: number, upstream: number, folder: string) => string>
> = {
  'nginx with its recipe for WebSockets': (port, upstream, folder) => `
    daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log ${folder}/error.log;
    events { worker_connections 64; }
    http {
      access_log off; client_body_temp_path ${folder}/b; proxy_temp_path ${folder}/p;
      fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
      server {
        listen 127.0.0.1:${port};
        location / {
          proxy_pass http://127.0.0.1:${upstream};
          proxy_http_version 1.1;
          proxy_set_header Upgrade $http_upgrade;
          proxy_set_header Connection "upgrade";
        }
      }
    }`,
  'HAProxy as it comes': (port, upstream) => `
    defaults
      mode http
      timeout connect 5s
      timeout client 5s
      timeout server 5s
    frontend all
      bind 127.0.0.1:${port}
      default_backend server
    backend server
      server one 127.0.0.1:${upstream}
`,
};

describe('behind a proxy on the same machine', () => {
  for (const [proxy, configuration] of Object.entries(proxies)) {
    it(`${proxy} opens nothing of the operator to strangers`, async (test) => {
      const program = proxy.startsWith('nginx') ? 'nginx' : 'haproxy';
      if (spawnSync(program, ['-v']).error) return test.skip(`${program} is not installed`);
      await using stack = new AsyncDisposableStack();
      const folder = await temporaryFolder(stack);
      const socket = operatorSocket(folder);
      const operator = { socket, config: { values: { pwd: 'hunter2' }, shown: [] } };
      const server = stack.use(await createServer({ operator }));
      await server.start();
      const port = await freePort();
      const file = join(folder, 'proxy.conf');
      await writeFile(file, configuration(port, Number(new URL(server.url).port), folder));
      const words = program === 'nginx' ? ['-c', file, '-p', folder] : ['-f', file];
      const child = spawn(program, words, { stdio: 'ignore' });
      stack.defer(() => end(child));
      await isUp(`http://127.0.0.1:${port}/-/live`, test);
      for (const path of secrets) {
        for (const host of ['localhost', '127.0.0.1', 'shop.example']) {
          const { status, text } = await ask(`http://127.0.0.1:${port}/-/${path}`, { host });
          assert.equal(status, 404, `${path} for ${host}`);
          assert.ok(!text.includes('hunter2'));
        }
      }
      const { text } = await ask(`http://127.0.0.1:${port}/-/ready`);
      assert.equal(text, '{"ready":true}');
      assert.equal((await askOperator({ socket, path: '/-/config' })).status, 200);
    });
  }
});

async function freePort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { readonly port: number };
  server.close();
  return port;
}

/** Waits until the proxy answers. */
async function isUp(url: string, { signal }: TestContext): Promise<void> {
  for (;;) {
    const answer = await ask(url).catch(() => undefined);
    if (answer?.status === 200) return;
    signal.throwIfAborted();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill();
  await gone;
}
