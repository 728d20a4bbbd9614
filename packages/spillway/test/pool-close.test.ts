import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { Pool, type PoolOptions } from 'spillway';

type Module = typeof import('./fixtures/closing-worker.ts');

const module = new URL('./fixtures/closing-worker.ts', import.meta.url);
const open = (options: Partial<PoolOptions> = {}): Promise<Pool<Module>> =>
  Pool.open<Module>({ module, workers: 2, queueMax: 100, deadlineMs: 20_000, ...options });

const newLog = (): Int32Array => new Int32Array(new SharedArrayBuffer(64));

/** Lets every worker know the log. */
async function enter(pool: Pool<Module>, log: Int32Array): Promise<void> {
  for (let n = 0; Atomics.load(log, 5) < pool.stats.workers.length; n += 1) {
    await pool.run('enter', log, { affinity: `${n}` });
    Atomics.store(log, 5, pool.stats.workers.filter(({ tasks }) => tasks > 0).length);
  }
}

const codesOf = async (calls: readonly Promise<unknown>[]): Promise<unknown[]> =>
  (await Promise.allSettled(calls)).map((result) =>
    result.status === 'fulfilled' ? 'done' : result.reason.code,
  );

describe('closing a pool', () => {
  it('finishes what it has, tears every worker down once, and ends though timers run', async () => {
    const pool = await open();
    const log = newLog();
    await enter(pool, log);
    const calls = Array.from({ length: 10 }, () => pool.run('task', 10));
    const closed = pool.close();
    assert.equal(pool.ready, false);
    await assert.rejects(pool.run('task', 1), { code: 'POOL_CLOSED', status: 503 });
    await closed;
    assert.equal(pool.stats.lastError, undefined, 'no thread was ended by force');
    assert.deepEqual(await codesOf(calls), Array(10).fill('done'));
    assert.deepEqual([log[1], log[2]], [2, 10]);
    const { inside, waiting, workers, refused } = pool.stats;
    assert.deepEqual([inside, waiting, workers.length, refused.closed], [0, 0, 0, 1]);
  });

  it('refuses what is not done in time, sent or not, begun or not', async () => {
    const pool = await open();
    const log = newLog();
    await enter(pool, log);
    for (let i = 0; i < 20; i += 1) await pool.run('task', 0);
    const calls = Array.from({ length: 10 }, () => pool.run('task', 60_000));
    while (Atomics.load(log, 6) < 22) await new Promise((resolve) => setImmediate(resolve));
    await Promise.all([
      pool.close({ withinMs: 100 }),
      codesOf(calls).then((codes) => assert.deepEqual(codes, Array(10).fill('POOL_CLOSED'))),
    ]);
    assert.deepEqual([pool.stats.workers.length, pool.stats.refused.closed], [0, 8]);
  });

  it('closes at once with withinMs 0', async () => {
    const pool = await open();
    const calls = Array.from({ length: 5 }, () => pool.run('task', 60_000));
    const codes = codesOf(calls);
    await pool.close({ withinMs: 0 });
    assert.deepEqual(await codes, Array(5).fill('POOL_CLOSED'));
    await assert.rejects(pool.close({ withinMs: -1 }), /withinMs: must be/);
  });

  it('can be asked twice, and disposed', async () => {
    const pool = await open();
    const first = pool.close();
    const second = pool.close({ withinMs: 5 });
    await Promise.all([first, second]);
    assert.deepEqual(pool.stats.workers, []);
    await pool[Symbol.asyncDispose]();
    assert.equal(pool.publish(1), 1);
    assert.throws(() => pool.publish(() => {}), /value: must be/);
  });

  it('tears down once a worker that was leaving already', async () => {
    const pool = await open({ workers: 1, recycle: { tasksMax: 1, intervalMs: 60_000 } });
    const log = newLog();
    Atomics.store(log, 3, 200);
    await pool.run('enter', log);
    while (Atomics.load(log, 1) === 0) await new Promise((resolve) => setImmediate(resolve));
    await pool.close();
    assert.equal(Atomics.load(log, 1), 1);
    assert.equal(pool.stats.recycled, 1);
  });

  it('keeps what teardown throws, and does not wait for one that hangs', async () => {
    const pool = await open({ startMsMax: 2_000 });
    const log = newLog();
    Atomics.store(log, 4, 1);
    await enter(pool, log);
    await pool.close();
    assert.match(String(pool.stats.lastError), /teardown went wrong/);
    const other = await open();
    Atomics.store(log, 3, 60_000);
    Atomics.store(log, 5, 0);
    await enter(other, log);
    await other.close({ withinMs: 300 });
    assert.match(String(other.stats.lastError), /exited with code 1/);
  });

  it('lets the process end', async () => {
    const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
    const file = join(import.meta.dirname, 'fixtures', 'pool-main.ts');
    const options = { env, timeout: 60_000, killSignal: 'SIGKILL' } as const;
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], options);
    assert.deepEqual([stdout, stderr], ['1\nclosed\n', '']);
  });

  it('lets a worker that is about to replace another finish its setup', async () => {
    const pool = await Pool.open<typeof import('./fixtures/starting-worker.ts')>({
      module: new URL('./fixtures/starting-worker.ts', import.meta.url),
      workers: 1,
      queueMax: 1,
      deadlineMs: 20_000,
      recycle: { tasksMax: 1, intervalMs: 0 },
    });
    const log = newLog();
    pool.publish(log);
    await pool.run('noop', undefined);
    const begun = Atomics.waitAsync(log, 0, 0, 60_000);
    if (begun.async) await begun.value;
    await pool.close();
    assert.deepEqual([...log.slice(0, 2)], [1, 1]);
  });
});
