import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, it } from 'node:test';
import { SqliteStore } from 'spillway';
import { ask, crowd, tally } from './fixtures/site.ts';

const program = join(import.meta.dirname, 'fixtures', 'node.ts');

interface Setting {
  readonly limit: number;
  readonly windowMs: number;
  readonly ageMs: number;
}

/** A server in a process of its own. */
class Node implements AsyncDisposable {
  readonly origin: string;
  readonly #end: () => Promise<unknown>;

  private constructor(origin: string, end: () => Promise<unknown>) {
    this.origin = origin;
    this.#end = end;
  }

  static async start(path: string, { limit, windowMs, ageMs }: Setting): Promise<Node> {
    const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
    const args = [program, path, ...[limit, windowMs, ageMs].map(String)];
    const child = spawn(process.execPath, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
    const exit = once(child, 'exit');
    const failed = exit.then(() => assert.fail('the node did not start'));
    const [origin] = await Promise.race([once(createInterface(child.stdout), 'line'), failed]);
    failed.catch(() => {});
    return new Node(origin, () => {
      child.stdin.end();
      return exit;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
  }
}

/** Two nodes that share a file. */
async function two(setting: Setting) {
  const stack = new AsyncDisposableStack();
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'spillway-nodes-')));
  const path = join(folder.path, 'store.sqlite');
  const store = stack.use(await SqliteStore.open({ path }));
  const nodes = await Promise.all([1, 2].map(() => Node.start(path, setting)));
  for (const node of nodes) stack.use(node);
  const [a, b] = nodes.map(({ origin }) => origin) as [string, string];
  return { a, b, store, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const spoofs = ['x-forwarded-for', 'forwarded', 'x-real-ip', 'x-client-ip', 'true-client-ip'];

describe('two nodes that share a store', () => {
  it('let 20 of 100 in, whatever addresses are claimed', async () => {
    await using nodes = await two({ limit: 20, windowMs: 600_000, ageMs: 1000 });
    const replies = await crowd(100, 16, (at) => {
      const headers = Object.fromEntries(spoofs.map((name) => [name, `10.0.${at}.1`]));
      return ask(at % 2 === 0 ? nodes.a : nodes.b, { headers });
    });
    assert.deepEqual(tally(replies.map(({ status }) => status)), { 200: 20, 429: 80 });
    const refused = replies.find(({ status }) => status === 429);
    assert.ok(Number(refused?.headers['retry-after']) > 500);
  });

  it('share a limit of ten, refuse a replay, and count to 200 together', async () => {
    await using nodes = await two({ limit: 10, windowMs: 600_000, ageMs: 1000 });
    const tries: number[] = [];
    for (let at = 0; at < 20; at += 1) {
      tries.push((await ask(at % 2 === 0 ? nodes.a : nodes.b)).status);
    }
    assert.deepEqual(tally(tries), { 200: 10, 429: 10 });

    const pay = { method: 'POST', headers: { 'idempotency-key': 'once' } } as const;
    const before = (await nodes.store.read([])).now;
    const first = await ask(`${nodes.a}/pay`, pay);
    let second = await ask(`${nodes.b}/pay`, pay);
    const { now } = await nodes.store.read([]);
    assert.equal(first.status, 200);
    if (now - before < 1000) assert.equal(second.status, 409);
    while (second.status === 409) second = await ask(`${nodes.b}/pay`, pay);
    const after = (await nodes.store.read([])).now;
    assert.equal(second.status, 200);
    assert.ok(after - before >= 1000, `free again after ${after - before} ms`);

    const counted = await crowd(200, 32, (at) => {
      return ask(`${at % 2 === 0 ? nodes.a : nodes.b}/count`, { method: 'POST' });
    });
    assert.deepEqual(tally(counted.map(({ status }) => status)), { 200: 200 });
    assert.equal((await nodes.store.read(['count'])).records[0]?.value, 200);
  });

  it('take one of 200 replays, 32 at a time', async () => {
    await using nodes = await two({ limit: 1, windowMs: 1000, ageMs: 600_000 });
    const headers = { 'idempotency-key': 'one' };
    const replies = await crowd(200, 32, (at) => {
      return ask(`${at % 2 === 0 ? nodes.a : nodes.b}/pay`, { method: 'POST', headers });
    });
    assert.deepEqual(tally(replies.map(({ status }) => status)), { 200: 1, 409: 199 });
  });
});
