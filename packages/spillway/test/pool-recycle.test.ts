// Slow: starts many worker threads.

import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool, type PoolOptions, type PoolRunOptions, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { SimulatedThreads } from './fixtures/simulated-threads.ts';
import * as simulated from './fixtures/simulated-worker.ts';

type Module = typeof import('./fixtures/recycled-worker.ts');

const module = new URL('./fixtures/recycled-worker.ts', import.meta.url);
const open = (options: Partial<PoolOptions> = {}): Promise<Pool<Module>> =>
  Pool.open<Module>({ module, workers: 2, queueMax: 1_000, deadlineMs: 20_000, ...options });

interface Load {
  calls: number;
  readonly threads: Set<number>;
}

/** Waits for what must come, though the machine may be slow. */
async function until(holds: () => boolean): Promise<void> {
  for (const limit = performance.now() + 20_000; !holds(); await sleep(5)) {
    assert.ok(performance.now() < limit, 'it never came');
  }
}

/** Occupies a worker until it is released; resolves when it is occupied. */
async function block(pool: Pool<Module>, options: PoolRunOptions = {}) {
  const gate = new Int32Array(new SharedArrayBuffer(8));
  const done = pool.run('block', gate, options);
  await Atomics.waitAsync(gate, 1, 0).value;
  const release = (): void => {
    Atomics.store(gate, 0, 1);
    Atomics.notify(gate, 0);
  };
  return { done, release };
}

/**
 * Keeps the pool busy for a while, for 100 calls, and until so many workers were replaced; every
 * call must succeed, with one version and a resource of its own.
 */
async function load(pool: Pool<Module>, forMs: number, recycledMin: number): Promise<Load> {
  const endsAt = performance.now() + forMs;
  const result: Load = { calls: 0, threads: new Set() };
  const isShort = () => result.calls < 100 || pool.stats.recycled < recycledMin;
  const isOn = () => performance.now() < endsAt || isShort();
  let version = 0;
  const publisher = (async () => {
    while (isOn()) {
      version += 1;
      pool.publish({ version, copies: Array(20).fill(version) });
      await sleep(25);
    }
  })();
  const caller = async (_: unknown, n: number) => {
    while (isOn()) {
      const { thread, seen } = await pool.run('work', n % 3);
      assert.equal(seen.length, 1, `saw ${seen.join()}`);
      result.calls += 1;
      result.threads.add(thread);
      const { workers, limit } = pool.stats;
      assert.ok(workers.length <= limit + 1, 'more than one is being replaced');
      const ready = workers.filter(({ state }) => state === 'ready').length;
      assert.equal(ready, limit, 'the replacement was not warm first');
    }
  };
  await Promise.all([publisher, ...Array.from({ length: 12 }, caller)]);
  return result;
}

describe('recycling', () => {
  it('on request replaces one worker or all under load, and no call fails', async () => {
    await using pool = await open({ recycle: { intervalMs: 3_600_000 } });
    pool.recycle(1);
    await until(() => pool.stats.recycled === 1);
    pool.recycle();
    await load(pool, 0, 3);
    assert.equal(pool.stats.recycled, 3);
    assert.throws(() => pool.recycle(2), /index: must be that of a worker that is ready/);
  });

  it('by age replaces every worker, and no call fails', async () => {
    await using pool = await open({ recycle: { ageMsMax: 200, intervalMs: 0 } });
    const { threads } = await load(pool, 500, 4);
    assert.ok(threads.size >= 4, `${threads.size} threads`);
    assert.equal(pool.stats.lost, 0);
  });

  it('by age happens also when there is nothing to do, and is told', async (t) => {
    const told: unknown[] = [];
    const listen = (message: unknown) => told.push(message);
    subscribe('spillway:recycled', listen);
    t.after(() => unsubscribe('spillway:recycled', listen));
    await using pool = await open({ recycle: { ageMsMax: 100, intervalMs: 0 } });
    await until(() => pool.stats.recycled >= 3);
    assert.deepEqual(told, Array(pool.stats.recycled).fill({ part: pool }));
    assert.equal(pool.stats.lost, 0);
  });

  it('by tasks replaces those that have done enough, not sooner than the interval', async () => {
    await using pool = await open({ recycle: { tasksMax: 30, intervalMs: 300 } });
    const startedAt = performance.now();
    await load(pool, 500, 3);
    const { recycled, lost, workers } = pool.stats;
    const most = 1 + Math.ceil((performance.now() - startedAt) / 300);
    assert.ok(recycled <= most, `${recycled} recycled`);
    assert.ok(workers.length <= 3);
    assert.equal(lost, 0);
  });

  it('by memory replaces one that hoards', async () => {
    await using pool = await open({ recycle: { heapMbMax: 100, intervalMs: 0 } });
    const thread = await pool.run('hoard', 150, { affinity: 'a' });
    const limit = performance.now() + 20_000;
    while (pool.stats.recycled === 0 && performance.now() < limit) {
      await pool.run('work', 1);
      await pool.run('work', 1, { affinity: 'a' });
    }
    assert.equal(pool.stats.recycled, 1);
    assert.notEqual((await pool.run('work', 0, { affinity: 'a' })).thread, thread);
    const ready = pool.stats.workers.filter(({ state }) => state === 'ready');
    assert.ok(ready.every(({ heapBytes }) => heapBytes < 100 * 2 ** 20));
  });

  it('never ends a task, but takes what waits behind it', async () => {
    await using pool = await open({ workers: 1 });
    const long = await block(pool);
    pool.recycle(0);
    const [shortThread, boundThread] = await Promise.all([
      pool.run('hog', 1),
      pool.run('hog', 1, { affinity: 'a' }),
    ]);
    long.release();
    assert.notEqual(await long.done, shortThread);
    assert.equal(boundThread, shortThread);
    assert.deepEqual([pool.stats.recycled, pool.stats.lost], [1, 0]);
  });

  it('waits with tasks of one affinity until the leaving worker has done its own', async () => {
    await using pool = await open({ workers: 1 });
    const affinity = 'a';
    const first = await block(pool, { affinity });
    pool.recycle(0);
    await until(() => pool.stats.recycled === 1);
    let isDone = false;
    const second = pool.run('hog', 1, { affinity }).then(() => {
      isDone = true;
    });
    await pool.run('hog', 1);
    assert.equal(isDone, false, 'the new worker has done another task, but not this one');
    first.release();
    await Promise.all([first.done, second]);
  });
});

describe('six workers with a private resource, one recycled a minute, for an hour', () => {
  it('fail no call and mix no versions, on real threads a thousand times as fast', async () => {
    const recycle = { ageMsMax: 600, intervalMs: 60 };
    await using pool = await open({ workers: 6, recycle });
    const startedAt = performance.now();
    await load(pool, 3_600, 10);
    const { recycled, lost, refused } = pool.stats;
    assert.ok(recycled <= (performance.now() - startedAt) / 60 + 1, `${recycled} recycled`);
    assert.equal(lost, 0);
    assert.deepEqual(refused, {
      aborted: 0,
      cleared: 0,
      closed: 0,
      deadline: 0,
      full: 0,
      late: 0,
      stale: 0,
    });
  });

  it('fail no call and mix no versions, in an hour of virtual time', async () => {
    const clock = new VirtualClock();
    const random = seededRandom(7);
    const minute = 60_000;
    const world = {
      clock,
      begun: new Map<number, number>(),
      inside: new Set<number>(),
      latest: new Map<string, number>(),
      overtakings: 0,
      overlaps: 0,
      sleeping: 0,
      setupMs: 5_000,
      workers: 0,
      mixes: 0,
    };
    simulated.simulate(world);
    const threads = new SimulatedThreads({ clock, random, delayMsMax: 2 });
    const url = new URL('./fixtures/simulated-worker.ts', import.meta.url);
    const recycle = { ageMsMax: 10 * minute, intervalMs: minute };
    const settings = { module: url, workers: 6, queueMax: 20, deadlineMs: minute, recycle };
    const pool = await clock.run(
      Pool.open<typeof simulated>({ ...settings, clock, random, threads: threads.start }),
    );
    let calls = 0;
    let oldestMs = 0;
    const caller = async () => {
      while (clock.now() < 60 * minute) {
        const id = calls;
        calls += 1;
        const ms = random() * 6_000;
        assert.match(await pool.run('work', { id, ms }), new RegExp(`^${id} with`));
        const { workers, version: newest } = pool.stats;
        oldestMs = Math.max(oldestMs, ...workers.map(({ ageMs }) => ageMs));
        assert.ok(workers.length <= 7);
        assert.equal(workers.filter(({ state }) => state === 'ready').length, 6);
        const version = newest + 1;
        if (random() < 0.1) pool.publish({ version, copy: version });
      }
    };
    await clock.run(Promise.all(Array.from({ length: 9 }, caller)));
    const { recycled, lost, finished } = pool.stats;
    assert.ok(calls > 6_000, `${calls} calls`);
    assert.equal(finished, calls);
    assert.ok(recycled >= 29 && recycled <= 31, `${recycled} recycled`);
    assert.equal(world.workers, 6 + recycled);
    assert.ok(oldestMs < 17 * minute, `${oldestMs / minute} minutes old`);
    assert.deepEqual([lost, world.mixes, world.inside.size], [0, 0, 0]);
    await clock.run(pool.close());
    assert.deepEqual([clock.pending, threads.size], [0, 0]);
  });
});
