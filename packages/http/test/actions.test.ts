import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Breaker, Bucket, Gate, Lane, Panel, Pool } from 'spillway';
import { askOperator, createServer, operatorSocket } from 'spillway-http';

const sizes = { queueMax: 9, deadlineMs: 60_000 };

/** A server on a real socket, with one part of each kind that can be changed. */
async function open() {
  const folder = await mkdtempDisposable(join(tmpdir(), 'spillway-actions-'));
  const lines: Record<string, unknown>[] = [];
  const nothing = () => {};
  const log = {
    level: 'warn',
    silent: nothing,
    trace: nothing,
    debug: nothing,
    info: nothing,
    warn: (line: Record<string, unknown>) => lines.push(line),
    error: nothing,
    fatal: nothing,
    child: () => log,
  } as never;
  const root = new Lane({ name: 'all', limit: { fixed: 8 }, ...sizes });
  const inner = new Lane({ name: 'orders', limit: { fixed: 2 }, parent: root, ...sizes });
  const parts = {
    lanes: root,
    uploads: new Gate({ limit: 3, queueMax: 3 }),
    exchange: new Bucket({ ratePerSecond: 5, queueMax: 5 }),
    upstream: new Breaker(),
    crunching: await Pool.open({
      module: new URL('./fixtures/double.ts', import.meta.url),
      workers: 1,
      ...sizes,
    }),
  };
  const panel = new Panel();
  for (const [name, part] of Object.entries(parts)) panel.watch(name, part);
  const texts = {
    stats: { texts: 7, pool: parts.crunching.stats },
    parts: { pool: parts.crunching },
  };
  panel.watch('texts', texts);
  const socket = operatorSocket(folder.path);
  const server = await createServer({ log, operator: { socket, panel } });
  server.app.get('/', async () => 'here');
  server.app.get('/orders', { config: { lane: inner } }, async () => 'here');
  await server.start();
  const act = async (action: string, part?: string, value?: number) => {
    const body = { action, part, value, by: 'ann' };
    const { status, text } = await askOperator({ socket, path: '/-/actions', body });
    return { status, ...JSON.parse(text) };
  };
  const close = async () => {
    await server.close();
    await parts.crunching.close();
    await folder.remove();
  };
  return { ...parts, inner, lines, socket, act, [Symbol.asyncDispose]: close };
}

describe('operator actions', () => {
  it('resize, pause and resume a lane inside another, and are written to the log', async () => {
    await using site = await open();
    assert.equal((await site.act('resize', 'orders', 5)).status, 200);
    assert.equal(site.inner.stats.limit, 5);
    await site.act('pause', 'orders');
    assert.equal(site.inner.tryEnter(), undefined);
    await site.act('resume', 'orders');
    site.inner.tryEnter()?.[Symbol.dispose]();
    assert.equal(site.inner.stats.finished, 1);
    assert.deepEqual(site.lines, [
      { action: 'resize', part: 'orders', value: 5, by: 'ann' },
      { action: 'pause', part: 'orders', by: 'ann' },
      { action: 'resume', part: 'orders', by: 'ann' },
    ]);
  });

  it('change a gate, a bucket, the lane of a route and a breaker', async () => {
    await using site = await open();
    await site.act('resize', 'uploads', 7);
    assert.equal(site.uploads.stats.limit, 7);
    await site.act('resize', 'exchange', 50);
    assert.equal(site.exchange.stats.ratePerSecond, 50);
    assert.equal((await site.act('resize', 'GET /', 3)).status, 200);
    const call = () => site.upstream.run(async () => 'called');
    await site.act('open', 'upstream');
    assert.equal(site.upstream.stats.state, 'open');
    await assert.rejects(call(), { code: 'BREAKER_OPEN' });
    await site.act('close', 'upstream');
    assert.equal(site.upstream.stats.held, true);
    assert.equal(await call(), 'called');
    await site.act('release', 'upstream');
    assert.equal(site.upstream.stats.held, undefined);
  });

  it('resize, pause, resume and recycle a pool', async () => {
    await using site = await open();
    await site.act('resize', 'crunching', 2);
    assert.equal(site.crunching.stats.limit, 2);
    await site.act('pause', 'crunching');
    await site.act('resume', 'crunching');
    assert.equal((await site.act('recycle', 'crunching', 0)).status, 200);
    assert.equal((await site.act('recycle', 'crunching', 7)).status, 409, 'no such worker');
    assert.equal((await site.act('resize', 'crunching', 0)).status, 409);
    assert.equal(site.lines.length, 4);
  });

  it('change a part inside another, which the console shows by its place', async () => {
    await using site = await open();
    assert.equal((await site.act('resize', 'texts / pool', 2)).status, 200);
    assert.equal(site.crunching.stats.limit, 2);
    assert.equal((await site.act('recycle', 'texts', 0)).status, 409, 'texts is no pool');
    const { text } = await askOperator({ socket: site.socket, path: '/-/stats' });
    assert.ok(JSON.parse(text).changeable.includes('texts / pool'));
  });

  it('refuse what does not fit, and change and log nothing then', async () => {
    await using site = await open();
    const cases: [string, string | undefined, number | undefined, number][] = [
      ['resize', 'nobody', 3, 404],
      ['resize', 'orders', 0, 409],
      ['resize', 'orders', undefined, 409],
      ['resize', 'exchange', -1, 400],
      ['recycle', 'orders', undefined, 409],
      ['pause', 'upstream', undefined, 409],
      ['explode', 'orders', undefined, 400],
    ];
    for (const [action, part, value, expected] of cases) {
      const { status, error } = await site.act(action, part, value);
      assert.equal(status, expected, `${action} ${part} ${value}: ${error?.message}`);
    }
    const nobody = { action: 'pause', part: 'orders' };
    const { status } = await askOperator({ socket: site.socket, path: '/-/actions', body: nobody });
    assert.equal(status, 400, 'without a name');
    const wrong: object[] = [
      { action: 'resize', part: 'orders', value: '5', by: 'ann' },
      { action: 'resize', part: 'orders', value: true, by: 'ann' },
      { action: 'pause', part: 'orders', by: 7 },
      { action: 'pause', part: 'orders', by: 'ann', dryRun: true },
      { action: 'drain', by: 'ann', dryRun: true },
    ];
    for (const body of wrong) {
      const answer = await askOperator({ socket: site.socket, path: '/-/actions', body });
      assert.equal(answer.status, 400, JSON.stringify(body));
    }
    site.inner.tryEnter()?.[Symbol.dispose]();
    assert.equal(site.inner.stats.finished, 1, 'not paused');
    assert.equal(site.inner.stats.limit, 2);
    assert.deepEqual(site.lines, []);
  });

  it('drain a process that knows how to, and no other', async () => {
    await using site = await open();
    const known = process.listeners('SIGTERM');
    process.removeAllListeners('SIGTERM');
    try {
      assert.equal((await site.act('drain')).status, 409);
      const told = once(process, 'SIGTERM');
      assert.equal((await site.act('drain', 'orders')).status, 409);
      assert.equal((await site.act('drain', undefined, 3)).status, 409);
      assert.equal((await site.act('drain')).status, 200);
      await told;
    } finally {
      for (const listener of known) process.on('SIGTERM', listener);
    }
  });
});
