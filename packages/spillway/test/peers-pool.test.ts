// Slow: starts many worker threads.

// Behaviours that the test suites of piscina and poolifier assert; the table with those that are
// refused is docs/decisions/peers-behaviours.md.
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { after, describe, it } from 'node:test';
import { Pool, type PoolOptions } from 'spillway';

type Module = typeof import('./fixtures/pool-worker.ts');
type Given = typeof import('./fixtures/given-worker.ts');

const base = { workers: 1, queueMax: 100, deadlineMs: 30_000 };
const module = new URL('./fixtures/pool-worker.ts', import.meta.url);
const open = (options: Partial<PoolOptions> = {}): Promise<Pool<Module>> =>
  Pool.open<Module>({ ...base, module, ...options });
/** One pool for all that leave it as it was. */
const shared = open();
after(async () => (await shared).close());

const newLog = (): Int32Array => new Int32Array(new SharedArrayBuffer(64));

/** Occupies the worker until it is told to go on. */
async function occupy(pool: Pool<Module>) {
  const log = newLog();
  const release = newLog();
  const done = pool.run('until', { log, release });
  await Atomics.waitAsync(log, 0, 0).value;
  const end = (): Promise<string> => {
    Atomics.store(release, 0, 1);
    Atomics.notify(release, 0);
    return done;
  };
  return { end };
}

describe('piscina', () => {
  it('gives what the handler returns, and rejects with what it throws', async () => {
    const pool = await shared;
    assert.equal(await pool.run('add', { a: 1, b: 2 }), 3);
    await assert.rejects(pool.run('fail', 'error'), Error);
  });

  it('cancels a task that waits, and one that runs, without ending the thread', async () => {
    const pool = await shared;
    const { thread } = await pool.run('who', undefined);
    const abort = new AbortController();
    const spinning = pool.run('spin', 20_000, { signal: abort.signal });
    const waiting = pool.run('echo', 1, { signal: abort.signal });
    abort.abort(new Error('enough'));
    await assert.rejects(spinning, /enough/);
    await assert.rejects(waiting, /enough/);
    assert.equal((await pool.run('who', undefined)).thread, thread);
  });

  it('can cancel only what has not begun', async () => {
    const pool = await shared;
    const abort = new AbortController();
    const options = { signal: abort.signal, cancel: 'queued' } as const;
    const log = newLog();
    const release = newLog();
    const running = pool.run('until', { log, release }, options);
    const waiting = pool.run('echo', 1, options);
    await Atomics.waitAsync(log, 0, 0).value;
    abort.abort(new Error('too late'));
    await assert.rejects(waiting, /too late/);
    Atomics.store(release, 0, 1);
    Atomics.notify(release, 0);
    await running;
  });

  it('refuses when the queue is full', async () => {
    await using pool = await open({ queueMax: 0 });
    const busy = await occupy(pool);
    await assert.rejects(pool.run('echo', 1), { code: 'POOL_FULL', status: 503 });
    await busy.end();
  });

  it('moves buffers instead of copying them', async () => {
    const pool = await shared;
    const buffer = new Uint8Array([1, 2, 3]).buffer;
    const back = await pool.run('reverse', buffer, { transfer: [buffer] });
    assert.deepEqual([...new Uint8Array(back)], [3, 2, 1]);
    assert.equal(buffer.byteLength, 0);
  });

  it('gives workers data, environment and memory limits', async () => {
    await using pool = await Pool.open<Given>({
      ...base,
      module: new URL('./fixtures/given-worker.ts', import.meta.url),
      workerData: { name: 'given' },
      env: { POOL_TEST: 'yes' },
      resourceLimits: { maxOldGenerationSizeMb: 64 },
    });
    const given = { data: { name: 'given' }, variable: 'yes', heapMb: 64 };
    assert.deepEqual(await pool.run('given', undefined), given);
  });

  it('replaces a worker that exits, and fails only its task', async () => {
    await using pool = await open();
    await assert.rejects(pool.run('exit', 3), { code: 'WORKER_LOST' });
    assert.equal(await pool.run('echo', 1), 1);
    assert.equal(pool.stats.lost, 1);
  });

  it('finishes what it has when it is closed, and takes nothing more', async () => {
    const pool = await open();
    const busy = await occupy(pool);
    const last = pool.run('echo', 'last');
    const closed = pool.close();
    await assert.rejects(pool.run('echo', 1), { code: 'POOL_CLOSED' });
    await busy.end();
    assert.equal(await last, 'last');
    await closed;
  });

  it('changes the number of threads while tasks wait', async () => {
    await using pool = await open();
    const first = await occupy(pool);
    const second = occupy(pool);
    pool.resize(2);
    pool.resize(2);
    assert.equal(pool.stats.workers.length, 2, 'no more are started than were asked for');
    const busy = await second;
    assert.deepEqual([pool.stats.limit, pool.stats.inside, pool.ready], [2, 2, true]);
    pool.resize(1);
    assert.deepEqual(await Promise.all([first.end(), busy.end()]), ['released', 'released']);
    assert.equal(await pool.run('echo', 'one is left'), 'one is left');
    while (pool.stats.workers.length > 1) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([pool.stats.limit, pool.stats.lost, pool.stats.recycled], [1, 0, 0]);
    for (const wrong of [0, 100_000]) {
      assert.throws(() => pool.resize(wrong), /workers: must be an integer from 1 to 1024/);
    }
  });

  it('serves urgent tasks first', async () => {
    const pool = await shared;
    const busy = await occupy(pool);
    const log = newLog();
    const tasks = [
      pool.run('note', { log, item: 1 }),
      pool.run('note', { log, item: 2 }, { priority: 5 }),
    ];
    await busy.end();
    await Promise.all(tasks);
    assert.deepEqual([log[1], log[2]], [2, 1]);
  });

  it('counts tasks, waits and run times', async () => {
    const pool = await shared;
    await pool.run('echo', 1);
    const { finished, waitMs, serviceMs } = pool.stats;
    assert.ok(finished > 0 && waitMs.count > 0 && serviceMs.count > 0);
  });

  it('keeps the AsyncLocalStorage context of the caller behind the call', async () => {
    const pool = await shared;
    const storage = new AsyncLocalStorage<string>();
    const seen = await storage.run('caller', async () => {
      await pool.run('echo', 1);
      return storage.getStore();
    });
    assert.equal(seen, 'caller');
  });
});

describe('poolifier', () => {
  it('keeps tasks of one key on one worker', async () => {
    await using pool = await open({ workers: 2 });
    const asked = Array.from({ length: 10 }, () =>
      pool.run('who', undefined, { affinity: 'session' }),
    );
    const threads = (await Promise.all(asked)).map(({ thread }) => thread);
    assert.equal(new Set(threads).size, 1);
  });

  it('runs several tasks at once in a worker', async () => {
    await using pool = await open({ concurrency: 4 });
    const log = newLog();
    await Promise.all([1, 2, 3, 4].map(() => pool.run('visit', log)));
    assert.equal(log[1], 4);
  });

  it('can be paused, resumed and cleared', async () => {
    await using pool = await open();
    const busy = await occupy(pool);
    const sent = pool.run('echo', 'sent');
    await new Promise((resolve) => setImmediate(resolve));
    pool.pause();
    await busy.end();
    const later = pool.run('echo', 'later');
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([pool.stats.inside, pool.stats.waiting], [0, 2]);
    assert.equal(pool.ready, true);
    pool.resume();
    assert.deepEqual(await Promise.all([sent, later]), ['sent', 'later']);
    pool.pause();
    const cleared = pool.run('echo', 1);
    pool.clear();
    await assert.rejects(cleared, { code: 'CLEARED' });
    assert.equal(pool.stats.refused.cleared, 1);
    const kept = pool.run('echo', 'kept');
    await pool.close();
    assert.equal(await kept, 'kept', 'closing finishes what a pause has kept');
  });

  it('starts warm, and rejects when a worker cannot start', async () => {
    const bad = new URL('./fixtures/bad-worker.ts?way=throw', import.meta.url);
    await assert.rejects(Pool.open({ ...base, module: bad }), { code: 'POOL_START' });
  });

  it('names the missing handler in its error', async () => {
    const pool = await shared;
    await assert.rejects(pool.run('missing' as never, 1 as never), /one of the module's handlers/);
  });
});
