import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { Pool, type PoolOptions, Service, type Threads } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import type * as mortal from './fixtures/mortal-worker.ts';
import { SimulatedThreads } from './fixtures/simulated-threads.ts';

type Module = typeof import('./fixtures/pool-worker.ts');

const module = new URL('./fixtures/pool-worker.ts', import.meta.url);
const open = (options: Partial<PoolOptions> = {}): Promise<Pool<Module>> =>
  Pool.open<Module>({ module, workers: 1, queueMax: 100, deadlineMs: 20_000, ...options });

const newLog = (): Int32Array => new Int32Array(new SharedArrayBuffer(64));

/** Waits until somebody has written there. */
async function written(log: Int32Array, at: number): Promise<void> {
  const { value } = Atomics.waitAsync(log, at, 0, 20_000);
  assert.notEqual(await value, 'timed-out');
}

describe('the workers of a pool', () => {
  it('are given data, environment and limits at the start, each the same', async () => {
    type Given = typeof import('./fixtures/given-worker.ts');
    const workerData = { name: 'model', size: [1, 2] };
    const env: NodeJS.ProcessEnv = { ...process.env, POOL_TEST: 'yes' };
    await using pool = await Pool.open<Given>({
      module: new URL('./fixtures/given-worker.ts', import.meta.url),
      workers: 1,
      queueMax: 4,
      deadlineMs: 20_000,
      workerData,
      env,
      resourceLimits: { maxOldGenerationSizeMb: 77 },
    });
    const expected = { data: { name: 'model', size: [1, 2] }, variable: 'yes', heapMb: 77 };
    assert.deepEqual(await pool.run('given', undefined), expected);
    // What the caller does with its objects later reaches no replacement.
    Object.assign(workerData, { size: () => 1 });
    env.POOL_TEST = 'no';
    await assert.rejects(pool.run('exit', undefined), { code: 'WORKER_LOST' });
    assert.deepEqual(await pool.run('given', undefined), expected);
  });

  it('let the process end while they are idle, if that is asked for', async () => {
    const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
    const file = join(import.meta.dirname, 'fixtures', 'pool-unref.ts');
    const options = { env, timeout: 60_000, killSignal: 'SIGKILL' } as const;
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], options);
    // Two threads on a busy machine may end in any order.
    const lines = stdout.trim().split('\n').sort();
    assert.deepEqual([lines, stderr], [['100', '200', 'again'], '']);
  });

  it('are tried again when the system has no thread to give', async () => {
    const clock = new VirtualClock();
    const simulated = new SimulatedThreads({ clock });
    let failures = 0;
    const threads: Threads = (...args) => {
      if (failures > 0) {
        failures -= 1;
        throw new Error('no thread to give');
      }
      return simulated.start(...args);
    };
    const url = new URL('./fixtures/mortal-worker.ts', import.meta.url);
    const settings = { module: url, workers: 2, queueMax: 8, deadlineMs: 60_000, clock, threads };
    const pool = await clock.run(Pool.open<typeof mortal>(settings));
    failures = 3;
    simulated.crash();
    simulated.crash();
    const call = pool.run('live', undefined);
    await clock.advance(5_000);
    assert.equal(await call, 'alive');
    assert.match(String(pool.stats.lastError), /no thread to give/);
    assert.equal(pool.stats.workers.length, 2);
    await clock.run(pool.close());
    failures = 1;
    const failing = clock.run(Pool.open<typeof mortal>(settings));
    await assert.rejects(failing, { code: 'POOL_START', message: /no thread to give/ });
    assert.deepEqual([clock.pending, simulated.size], [0, 0]);
  });
});

describe('a pool whose workers are all stuck', () => {
  it('is not ready until one takes tasks again', async () => {
    const clock = new VirtualClock();
    await using pool = await open({ killAfterMs: Infinity, deadlineMs: 300, clock });
    const [log, release] = [newLog(), newLog()];
    assert.equal(pool.ready, true);
    const stuck = assert.rejects(pool.run('until', { log, release }), { code: 'DEADLINE' });
    await written(log, 0);
    assert.equal(pool.ready, true);
    await clock.advance(300);
    await stuck;
    assert.equal(pool.ready, false);
    Atomics.store(release, 0, 1);
    Atomics.notify(release, 0);
    while (!pool.ready) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(pool.stats.lost, 0);
  });

  it('ends their threads after ten seconds, with nothing configured', async () => {
    const clock = new VirtualClock();
    const threads = new SimulatedThreads({ clock });
    const url = new URL('./fixtures/mortal-worker.ts', import.meta.url);
    const pool = await clock.run(
      Pool.open<typeof mortal>({
        module: url,
        workers: 1,
        queueMax: 8,
        deadlineMs: 1_000,
        clock,
        threads: threads.start,
      }),
    );
    const stuck = assert.rejects(pool.run('never', undefined), { code: 'DEADLINE' });
    await clock.advance(1_000);
    await stuck;
    await clock.advance(9_900);
    assert.deepEqual([pool.ready, pool.stats.lost], [false, 0]);
    await clock.advance(200);
    assert.deepEqual([pool.ready, pool.stats.lost], [true, 1]);
    assert.equal(await clock.run(pool.run('live', undefined)), 'alive');
    await clock.run(pool.close());
  });
});

describe('a task that is cancelled only while it is queued', () => {
  it('leaves the queue, or a busy worker, like any other', async () => {
    await using pool = await open();
    const controller = new AbortController();
    const [log, release] = [newLog(), newLog()];
    const busy = pool.run('until', { log, release });
    await written(log, 0);
    const options = { signal: controller.signal, cancel: 'queued' } as const;
    const calls = [1, 2, 3].map((n) => pool.run('echo', n, options));
    await new Promise((resolve) => setImmediate(resolve));
    controller.abort();
    for (const call of calls) await assert.rejects(call, { name: 'AbortError' });
    Atomics.store(release, 0, 1);
    Atomics.notify(release, 0);
    await busy;
    assert.equal(pool.stats.refused.aborted, 3);
  });

  it('runs to its end once it has begun, and gives its result', async () => {
    await using pool = await open();
    const controller = new AbortController();
    const [log, release] = [newLog(), newLog()];
    const options = { signal: controller.signal, cancel: 'queued' } as const;
    const call = pool.run('until', { log, release }, options);
    await written(log, 0);
    controller.abort();
    await new Promise((resolve) => setImmediate(resolve));
    Atomics.store(release, 0, 1);
    Atomics.notify(release, 0);
    assert.equal(await call, 'released');
    assert.equal(pool.stats.outcomes.ok, 1);
  });
});

describe('a pool as a part of a service', () => {
  it('needs no wrapper: it has a name, says whether it is ready, and is closed', async () => {
    await using pool = await open({ name: 'scorers' });
    const service = new Service({ parts: [pool] });
    await service.start();
    assert.deepEqual([pool.name, pool.stats.name, pool.stats.kind], ['scorers', 'scorers', 'pool']);
    assert.equal(service.ready, true);
    await service.close();
    assert.equal(pool.ready, false);
    assert.deepEqual(pool.stats.workers, []);
    await using other = await open();
    assert.equal(other.name, 'pool');
  });

  it('is closed early by a signal', async () => {
    await using pool = await open();
    const log = newLog();
    const lost = assert.rejects(pool.run('stuck', log), { code: 'POOL_CLOSED' });
    await written(log, 0);
    await pool.close({ withinMs: 60_000, signal: AbortSignal.timeout(50) });
    await lost;
    assert.deepEqual(pool.stats.workers, []);
  });
});
