import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from 'spillway-fixtures/free-port';
import { RedisServer } from 'spillway-fixtures/redis';
import { requires } from 'spillway-fixtures/requires';
import { scratchFolder } from 'spillway-fixtures/scratch';

const packages = join(dirname(import.meta.dirname), 'packages');
const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;

/** A folder in which the first program of a package's README stands, with its worker if any. */
async function quickStart(name: string, change: (text: string) => string = (text) => text) {
  const readme = readFileSync(join(packages, name, 'README.md'), 'utf8');
  const [first, ...rest] = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, text]) => text);
  assert.ok(first, `${name} has a program`);
  const folder = await scratchFolder(`packages/${name}`);
  const main = join(folder.path, 'main.ts');
  await writeFile(main, change(first));
  const worker = rest.find((text) => text?.startsWith('// worker.ts'));
  if (worker !== undefined) await writeFile(join(folder.path, 'worker.ts'), worker);
  return { main, [Symbol.asyncDispose]: () => folder.remove() };
}

async function run(main: string, ...words: readonly string[]): Promise<string> {
  const options = { env, timeout: 200_000 };
  const { stdout } = await promisify(execFile)(process.execPath, [main, ...words], options);
  return stdout;
}

/** Starts a program that serves, and waits until it answers. */
async function serve(t: TestContext, main: string, ...words: readonly string[]) {
  const port = await freePort();
  const child: ChildProcess = spawn(process.execPath, [main, ...words], {
    env: { ...env, PORT: String(port), SHOP_PORT: String(port) },
    stdio: 'inherit',
  });
  t.after(() => child.kill('SIGKILL'));
  const url = `http://localhost:${port}`;
  while (child.exitCode === null && child.signalCode === null) {
    const answer = await fetch(url).catch(() => undefined);
    if (answer !== undefined) return { child, url };
    await sleep(50);
  }
  throw new Error(`${main} did not start`);
}

describe('the first program of a package README runs as it is written', () => {
  const tried = ['cli', 'http', 'redis', 'spillway', 'sql'];

  it('in every package that has one', () => {
    const all = readdirSync(packages).filter((name) => {
      const readme = join(packages, name, 'README.md');
      return existsSync(readme) && readFileSync(readme, 'utf8').includes('```ts');
    });
    assert.deepEqual(all.sort(), tried);
  });

  it('spillway', async () => {
    await using start = await quickStart('spillway');
    assert.equal(await run(start.main), '9\n');
  });

  it('spillway-sql', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-readme-'));
    const { path } = folder;
    await using start = await quickStart('sql', (text) => text.replace('/var/lib/app', path));
    await run(start.main);
    assert.ok(existsSync(join(path, 'app.db')));
  });

  it('spillway-redis', requires('redis-server'), async () => {
    await using server = await RedisServer.start();
    const address = 'redis://127.0.0.1:6379';
    await using start = await quickStart('redis', (text) => text.replace(address, server.url));
    await run(start.main);
  });

  it('spillway-http', async (t) => {
    await using start = await quickStart('http');
    const { child, url } = await serve(t, start.main);
    assert.equal((await fetch(`${url}/-/ready`)).status, 200);
    const order = { method: 'POST', body: '{"tea":2}' };
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${url}/orders`, { ...order, headers });
    assert.deepEqual(await answer.json(), { ordered: { tea: 2 } });
    const cookie = 'session=mine';
    const forged = await fetch(`${url}/orders`, { ...order, headers: { ...headers, cookie } });
    assert.equal(forged.status, 403, 'a change with a cookie needs a CSRF token');
    const { hostname, port } = new URL(url);
    const late = request({ hostname, port, path: '/orders', method: 'POST' });
    late.setHeader('content-type', 'application/json').setHeader('content-length', 9);
    late.setHeader('expect', '100-continue').flushHeaders();
    await once(late, 'continue');
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    late.end('{"tea":3}');
    const [finished] = await once(late, 'response');
    assert.equal(finished.statusCode, 200, 'a request under way is finished');
    finished.resume();
    assert.deepEqual(await exited, [0, null]);
  });

  it('spillway-cli', async (t) => {
    await using start = await quickStart('cli');
    assert.match(await run(start.main, 'config'), /port +8080/);
    const { child, url } = await serve(t, start.main, 'serve');
    assert.equal(await (await fetch(url)).text(), 'sold');
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    assert.deepEqual(await exited, [0, null]);
  });
});
