// Slow: starts many worker threads.

import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, it } from 'node:test';
import { Pool, type PoolOptions } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import * as mortal from './fixtures/mortal-worker.ts';
import { SimulatedThreads } from './fixtures/simulated-threads.ts';

type Module = typeof import('./fixtures/pool-worker.ts');

const module = new URL('./fixtures/pool-worker.ts', import.meta.url);
const open = (options: Partial<PoolOptions> = {}): Promise<Pool<Module>> =>
  Pool.open<Module>({ module, workers: 2, queueMax: 100, deadlineMs: 20_000, ...options });

describe('a worker that ends by itself', () => {
  it('takes only its own task with it, and is told', async (t) => {
    const told: unknown[] = [];
    const listen = (message: unknown) => told.push(message);
    subscribe('spillway:lost', listen);
    t.after(() => unsubscribe('spillway:lost', listen));
    await using pool = await open();
    const lost = assert.rejects(pool.run('exit', 3), {
      code: 'WORKER_LOST',
      status: 502,
      message: /exited with code 3/,
    });
    const others = Array.from({ length: 50 }, (_, n) => pool.run('echo', n));
    await lost;
    assert.deepEqual(await Promise.all(others), [...Array(50).keys()]);
    assert.equal(pool.stats.lost, 1);
    assert.match(String(pool.stats.lastError), /exited with code 3/);
    assert.deepEqual(told, [{ part: pool, error: pool.stats.lastError }]);
  });

  it('does so also when it was the only one', async () => {
    await using pool = await open({ workers: 1 });
    const lost = assert.rejects(pool.run('exit', 0), { message: /ended by itself/ });
    const others = Array.from({ length: 50 }, (_, n) => pool.run('echo', { n }));
    await lost;
    assert.equal((await Promise.all(others)).length, 50);
    assert.ok(pool.ready);
  });

  it('does so when a timer throws in it', async () => {
    await using pool = await open();
    const error = { code: 'WORKER_LOST', message: /in a timer/ };
    await assert.rejects(pool.run('explode', undefined), error);
    assert.equal(await pool.run('echo', 1), 1);
  });

  it('does so when its heap is full', async () => {
    await using pool = await open({ resourceLimits: { maxOldGenerationSizeMb: 32 } });
    const lost = assert.rejects(pool.run('devour', undefined), { code: 'WORKER_LOST' });
    assert.equal(await pool.run('echo', 1), 1);
    await lost;
    assert.equal(await pool.run('echo', 2), 2);
    assert.match(String(pool.stats.lastError), /memory/);
  });

  it('gives what had ended before, of any kind', async () => {
    await using pool = await open({ workers: 1 });
    for (let i = 0; i < 200; i += 1) await pool.run('echo', 1);
    const before = [1, { two: 2 }, 'three'].map((value) => pool.run('echo', value));
    const lost = assert.rejects(pool.run('exit', 1), { code: 'WORKER_LOST' });
    assert.deepEqual(await Promise.all(before), [1, { two: 2 }, 'three']);
    await lost;
  });

  it('is lost with a task whose buffer was moved there', async () => {
    await using pool = await open({ workers: 1 });
    const buffer = new ArrayBuffer(8);
    const lost = assert.rejects(pool.run('exit', 1), { code: 'WORKER_LOST' });
    const moved = pool.run('reverse', buffer, { transfer: [buffer] });
    await lost;
    assert.equal((await moved).byteLength, 8);
  });
});

const { fate } = mortal;

describe('workers that die again and again', () => {
  const simulated = new URL('./fixtures/mortal-worker.ts', import.meta.url);

  it('are replaced at once at first, then after pauses that grow to two seconds', async () => {
    const clock = new VirtualClock();
    const threads = new SimulatedThreads({ clock });
    const settings = { module: simulated, workers: 1, queueMax: 1, deadlineMs: 60_000 };
    const pool = await clock.run(Pool.open({ ...settings, clock, threads: threads.start }));
    const pauses: number[] = [];
    for (let round = 0; round < 12; round += 1) {
      threads.crash();
      const diedAt = clock.now();
      while (!pool.ready) await clock.advance(1);
      pauses.push(clock.now() - diedAt);
    }
    assert.equal(pool.stats.lost, 12);
    assert.ok((pauses[0] ?? 99) <= 1, pauses.join());
    assert.ok((pauses[1] ?? 0) >= 49 && (pauses[1] ?? 999) <= 101, pauses.join());
    assert.ok(
      pauses.slice(-4).every((ms) => ms >= 999 && ms <= 2_001),
      pauses.join(),
    );
    await clock.advance(10_000);
    threads.crash();
    await clock.advance(1);
    assert.ok(pool.ready, 'one that has lived long enough is replaced at once');
    await clock.run(pool.close());
    assert.deepEqual([clock.pending, threads.size], [0, 0]);
  });

  it('and cannot start again are tried ever more rarely, and tasks wait meanwhile', async () => {
    const clock = new VirtualClock();
    const threads = new SimulatedThreads({ clock });
    const settings = { module: simulated, workers: 1, queueMax: 1, deadlineMs: 3_600_000 };
    const pool = await clock.run(
      Pool.open<typeof mortal>({ ...settings, clock, threads: threads.start }),
    );
    fate.canStart = false;
    fate.starts = 0;
    threads.crash();
    const call = pool.run('live', undefined);
    await clock.advance(600_000);
    assert.ok(fate.starts >= 25 && fate.starts <= 55, `${fate.starts} starts`);
    assert.match(String(pool.stats.lastError), /not today/);
    assert.deepEqual([pool.ready, pool.stats.waiting], [false, 1]);
    assert.throws(() => pool.publish(() => {}), /value: must be a value that can be copied/);
    fate.canStart = true;
    assert.equal(await clock.run(call), 'alive');
    await clock.run(pool.close());
    assert.deepEqual([clock.pending, threads.size], [0, 0]);
  });
});
