import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Pool, type PoolOptions } from 'spillway';
import type { State } from './fixtures/snapshot-worker.ts';

type Module = typeof import('./fixtures/snapshot-worker.ts');

const module = new URL('./fixtures/snapshot-worker.ts', import.meta.url);
const open = (options: Partial<PoolOptions> = {}): Promise<Pool<Module>> =>
  Pool.open<Module>({ module, workers: 3, queueMax: 1_000, deadlineMs: 20_000, ...options });

const state = (version: number): State => ({
  version,
  copies: Array(50).fill(version),
  shared: new Float64Array(new SharedArrayBuffer(64)),
});

const newGate = (): Int32Array => new Int32Array(new SharedArrayBuffer(4));

/** Waits until no worker reads a version older than this one, and one still reads it. */
async function oldest(pool: Pool<Module>, version: number): Promise<void> {
  const now = () => Math.min(...pool.stats.workers.map((worker) => worker.version));
  for (const limit = performance.now() + 20_000; now() !== version; await turn()) {
    assert.ok(performance.now() < limit, `it is ${now()}`);
    Atomics.wait(newGate(), 0, 0, 1);
  }
}

describe('the snapshot of a pool', () => {
  it('reaches every worker, and is there for the very next task', async () => {
    await using pool = await open();
    assert.equal(await pool.run('version', undefined), 0);
    for (let version = 1; version <= 50; version += 1) {
      assert.equal(pool.publish(state(version)), version);
      const calls = ['a', 'b', 'c', 'd', 'e'].map((affinity) =>
        pool.run('version', undefined, { affinity }),
      );
      assert.deepEqual(await Promise.all(calls), Array(5).fill(version));
    }
    // @ts-expect-error: the handlers expect another state.
    assert.equal(pool.publish({ version: 'one' }), 51);
  });

  it('stays the same for a task that runs, while later ones see the new', async () => {
    await using pool = await open({ workers: 1, concurrency: 2 });
    pool.publish(state(1));
    const gate = newGate();
    const early = pool.run('hold', gate);
    assert.equal(await pool.run('version', undefined), 1);
    pool.publish(state(2));
    assert.equal(await pool.run('version', undefined), 2);
    await oldest(pool, 1);
    assert.equal(pool.stats.version, 2);
    Atomics.store(gate, 0, 1);
    assert.equal(await early, 1);
    await oldest(pool, 2);
  });

  it('is never a mix of two, however often it changes under load', async () => {
    await using pool = await open({ concurrency: 4 });
    let version = 0;
    let tasks = 0;
    const isOn = () => version < 500 || tasks < 2_000;
    const publisher = (async () => {
      while (isOn()) {
        version += 1;
        pool.publish(state(version));
        await turn();
      }
    })();
    const callers = Array.from({ length: 24 }, async (_, n) => {
      while (isOn()) {
        const least = version;
        const seen = await pool.run('watch', n % 4);
        assert.equal(seen.length, 1, `saw ${seen.join()}`);
        assert.ok((seen[0] as number) >= least, 'older than what was published before the call');
        tasks += 1;
      }
    });
    await Promise.all([publisher, ...callers]);
    await oldest(pool, version);
    assert.equal(pool.stats.version, version);
  });

  it('does not copy what is in shared memory', async () => {
    await using pool = await open();
    const value = state(1);
    pool.publish(value);
    value.shared[3] = 42.5;
    const calls = ['a', 'b', 'c', 'd'].map((affinity) => pool.run('shared', 3, { affinity }));
    assert.deepEqual(await Promise.all(calls), Array(4).fill(42.5));
    assert.ok(await pool.run('isShared', undefined));
  });

  it('that cannot be copied is refused, and nothing changes', async () => {
    await using pool = await open();
    pool.publish(state(1));
    const wrong = { ...state(2), copies: [() => 2] as unknown as number[] };
    assert.throws(() => pool.publish(wrong), /value: must be a value that can be copied/);
    assert.equal(pool.stats.version, 1);
    const calls = ['a', 'b', 'c', 'd'].map((affinity) => pool.run('watch', 0, { affinity }));
    assert.deepEqual(await Promise.all(calls), Array(4).fill([1]));
    assert.equal(pool.publish(state(2)), 2);
    assert.deepEqual(await pool.run('watch', 1), [2]);
  });

  it('is there for a replacement from its setup on', async () => {
    await using pool = await open({ workers: 1 });
    assert.deepEqual(await pool.run('seenBySetup', undefined), { seen: 0, at: 0 });
    pool.publish(state(1));
    pool.publish(state(2));
    await assert.rejects(pool.run('exit', undefined), { code: 'WORKER_LOST' });
    assert.deepEqual(await pool.run('seenBySetup', undefined), { seen: 2, at: 2 });
    assert.deepEqual(await pool.run('watch', 1), [2]);
    await oldest(pool, 2);
  });

  it('reaches one that is just starting', async () => {
    await using pool = await open({ workers: 1 });
    pool.publish(state(1));
    await assert.rejects(pool.run('exit', undefined), { code: 'WORKER_LOST' });
    while (!pool.stats.workers.some(({ state: now }) => now === 'starting')) await turn();
    pool.publish(state(2));
    assert.deepEqual(await pool.run('watch', 1), [2]);
    await oldest(pool, 2);
  });
});
