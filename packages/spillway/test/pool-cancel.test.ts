// Slow: starts many worker threads.

import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { Pool, type PoolOptions } from 'spillway';
import { VirtualClock } from 'spillway/testing';

type Module = typeof import('./fixtures/pool-worker.ts');

const module = new URL('./fixtures/pool-worker.ts', import.meta.url);
const open = (options: Partial<PoolOptions> = {}): Promise<Pool<Module>> =>
  Pool.open<Module>({ module, workers: 1, queueMax: 100, deadlineMs: 20_000, ...options });

const newLog = (): Int32Array => new Int32Array(new SharedArrayBuffer(64));

/** Waits until somebody has written there. */
async function written(log: Int32Array, at: number): Promise<number> {
  const { value } = Atomics.waitAsync(log, at, 0, 20_000);
  assert.notEqual(await value, 'timed-out');
  return Atomics.load(log, at);
}

/** Occupies a worker, or one of its places, until it is released; resolves when it is occupied. */
async function occupy(pool: Pool<Module>, way: 'until' | 'dwell' = 'until') {
  const log = newLog();
  const gate = newLog();
  const done = pool.run(way, { log, release: gate });
  // What becomes of it is looked at later, or not at all.
  done.catch(() => {});
  await written(log, 0);
  const release = (): void => {
    Atomics.store(gate, 0, 1);
    Atomics.notify(gate, 0);
  };
  return { done, release };
}

describe('the deadline of a pool', () => {
  it('ends what waits, what was sent and what runs, and the worker goes on', async () => {
    const clock = new VirtualClock();
    await using pool = await open({ deadlineMs: 300, clock });
    const log = newLog();
    const running = await occupy(pool);
    const waiting = [1, 2, 3].map((item) => pool.run('note', { log, item }));
    const late = { code: 'DEADLINE', status: 504, retryable: true };
    const ended = [running.done, ...waiting].map((call) => assert.rejects(call, late));
    await clock.advance(299);
    assert.equal(pool.stats.refused.deadline, 0);
    await clock.advance(1);
    await Promise.all(ended);
    assert.deepEqual([pool.stats.inside, pool.stats.waiting], [1, 0]);
    assert.equal(pool.stats.refused.deadline, 3);
    running.release();
    while (pool.stats.inside > 0) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(await pool.run('echo', 1), 1);
    assert.equal(log[0], 0);
    assert.equal(pool.stats.lost, 0);
  });

  it('reaches the handler', async () => {
    const clock = new VirtualClock();
    await using pool = await open({ deadlineMs: 200, clock });
    const log = newLog();
    const late = assert.rejects(pool.run('linger', log), { code: 'DEADLINE' });
    await written(log, 0);
    await clock.advance(200);
    await late;
    assert.equal(await written(log, 1), 2);
    assert.equal(await pool.run('echo', 1), 1);
  });
});

describe('an abort', () => {
  it('is refused at once when it came before the call', async () => {
    await using pool = await open();
    const signal = AbortSignal.abort(new Error('too late'));
    await assert.rejects(pool.run('echo', 1, { signal }), /too late/);
    assert.deepEqual(getEventListeners(signal, 'abort'), []);
    assert.equal(pool.stats.refused.aborted, 1);
  });

  it('takes a task away before it has begun, queued or already sent', async () => {
    await using pool = await open();
    const log = newLog();
    const controller = new AbortController();
    const { signal } = controller;
    const busy = await occupy(pool);
    const calls = [1, 2, 3].map((item) => pool.run('note', { log, item }, { signal }));
    const settled = Promise.allSettled(calls);
    await new Promise((resolve) => setImmediate(resolve));
    controller.abort();
    assert.deepEqual([pool.stats.inside, pool.stats.waiting], [1, 0]);
    for (const result of await settled) {
      assert.equal((result as PromiseRejectedResult).reason, signal.reason);
    }
    busy.release();
    await busy.done;
    await pool.run('echo', 1);
    assert.equal(log[0], 0);
    assert.deepEqual(getEventListeners(signal, 'abort'), []);
  });

  it('answers the caller at once, and tells the handler why', async () => {
    await using pool = await open();
    const log = newLog();
    const controller = new AbortController();
    const call = pool.run('linger', log, { signal: controller.signal });
    await written(log, 0);
    controller.abort(new Error('enough'));
    await assert.rejects(call, /enough/);
    assert.equal(await written(log, 1), 2);
    assert.equal(await pool.run('echo', 1), 1);
  });

  it('can have a reason that cannot be copied', async () => {
    await using pool = await open();
    const log = newLog();
    const controller = new AbortController();
    const call = pool.run('linger', log, { signal: controller.signal });
    await written(log, 0);
    const reason = () => 'a function';
    controller.abort(reason);
    await assert.rejects(call, (error) => error === reason);
    assert.equal(await written(log, 1), 1);
  });

  it('is seen in the middle of synchronous work', async () => {
    await using pool = await open({ killAfterMs: 60_000 });
    const controller = new AbortController();
    const log = newLog();
    const call = pool.run('spinOn', log, { signal: controller.signal });
    const other = pool.run('echo', 'soon');
    await written(log, 0);
    controller.abort();
    await assert.rejects(call, { name: 'AbortError' });
    assert.equal(await other, 'soon');
    assert.equal(pool.stats.lost, 0);
  });

  it('after the end changes nothing', async () => {
    await using pool = await open();
    const controller = new AbortController();
    assert.equal(await pool.run('echo', 1, { signal: controller.signal }), 1);
    assert.deepEqual(getEventListeners(controller.signal, 'abort'), []);
    controller.abort();
    assert.equal(await pool.run('echo', 2), 2);
  });
});

describe('a task that does not stop', () => {
  it('loses its thread, and what had not begun there runs elsewhere', async () => {
    await using pool = await open({ killAfterMs: 100 });
    const controller = new AbortController();
    const log = newLog();
    const stuck = pool.run('stuck', log, { signal: controller.signal });
    const [before] = pool.stats.workers;
    const next = [1, 2, 3].map((n) => pool.run('echo', n));
    await written(log, 0);
    controller.abort();
    await assert.rejects(stuck, { name: 'AbortError' });
    assert.deepEqual(await Promise.all(next), [1, 2, 3]);
    assert.equal(pool.stats.lost, 1);
    assert.notDeepEqual(pool.stats.workers[0]?.ageMs, before?.ageMs);
  });

  it('leaves as long again to those that run beside it', async () => {
    const clock = new VirtualClock();
    await using pool = await open({ killAfterMs: 100, concurrency: 2, clock });
    const controller = new AbortController();
    const log = newLog();
    const deaf = pool.run('deaf', log, { signal: controller.signal });
    await written(log, 0);
    const beside = await occupy(pool, 'dwell');
    controller.abort();
    await assert.rejects(deaf, { name: 'AbortError' });
    await clock.advance(199);
    beside.release();
    assert.equal(await beside.done, 'released');
    await clock.advance(1);
    while (pool.stats.lost === 0) await new Promise((resolve) => setImmediate(resolve));
    await clock.advance(0);
    assert.equal(await pool.run('echo', 1), 1);
    assert.equal(pool.stats.lost, 1);
  });

  it('keeps its thread when it stops in time', async () => {
    await using pool = await open({ killAfterMs: 60_000 });
    const controller = new AbortController();
    const log = newLog();
    const call = pool.run('spinOn', log, { signal: controller.signal });
    await written(log, 0);
    controller.abort();
    await assert.rejects(call, { name: 'AbortError' });
    assert.equal(await pool.run('echo', 1), 1);
    assert.equal(pool.stats.lost, 0);
  });
});
