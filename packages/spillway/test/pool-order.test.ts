// Slow: starts many worker threads.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Pool, type PoolOptions, type PoolRunOptions } from 'spillway';

type Module = typeof import('./fixtures/pool-worker.ts');

const module = new URL('./fixtures/pool-worker.ts', import.meta.url);
const open = (options: Partial<PoolOptions> = {}): Promise<Pool<Module>> =>
  Pool.open<Module>({ module, workers: 2, queueMax: 10_000, deadlineMs: 20_000, ...options });

const newLog = (length: number): Int32Array =>
  new Int32Array(new SharedArrayBuffer(length * Int32Array.BYTES_PER_ELEMENT));

/** Lets the pool learn that a handler takes no time. */
async function warmUp(pool: Pool<Module>): Promise<void> {
  for (let i = 0; i < 20; i += 1) {
    await Promise.all(Array.from({ length: 100 }, () => pool.run('hog', 0)));
  }
}

/** Occupies a worker until it is released; resolves when it is occupied. */
async function occupy(pool: Pool<Module>, options: PoolRunOptions = {}) {
  const begun = newLog(1);
  const released = newLog(1);
  const done = pool.run('until', { log: begun, release: released }, options);
  await Atomics.waitAsync(begun, 0, 0).value;
  return { done, release: () => openGate(released) };
}

/** Lets the handler of this gate end. */
function openGate(gate: Int32Array): void {
  Atomics.store(gate, 0, 1);
  Atomics.notify(gate, 0);
}

const codeOf = (error: unknown): unknown => (error as { code?: string }).code;

describe('the queue of a pool', () => {
  it('refuses exactly the first that is one too many, also after tiny tasks', async () => {
    await using pool = await open({ queueMax: 5, concurrency: 2 });
    for (let round = 0; round < 300; round += 1) {
      await Promise.all(Array.from({ length: 9 }, () => pool.run('hog', 0)));
    }
    for (const ms of [0, 20]) {
      const calls = Array.from({ length: 10 }, () => pool.run('hog', ms));
      const results = await Promise.allSettled(calls);
      const codes = results.map((result) => result.status === 'rejected' && codeOf(result.reason));
      assert.deepEqual(codes, [...Array(9).fill(false), 'POOL_FULL']);
    }
    assert.equal(pool.stats.refused.full, 2);
  });

  it('says when to come back, by how fast it has been', async () => {
    await using pool = await open({ queueMax: 4 });
    await Promise.all(Array.from({ length: 6 }, () => pool.run('spin', 20)));
    const calls = Array.from({ length: 7 }, () => pool.run('spin', 20));
    const [refused] = (await Promise.allSettled(calls)).filter(
      ({ status }) => status === 'rejected',
    );
    const { retryAfterMs, status, headers } = (refused as PromiseRejectedResult).reason;
    assert.ok(retryAfterMs >= 40, `${retryAfterMs} ms`);
    const seconds = `${Math.ceil(retryAfterMs / 1_000)}`;
    assert.deepEqual([status, headers], [503, { 'retry-after': seconds }]);
  });

  it('runs thousands at once, each exactly once', async () => {
    await using pool = await open();
    for (let round = 0; round < 3; round += 1) {
      const calls = Array.from({ length: 5_000 }, (_, n) =>
        pool.run('echo', n % 3 === 0 ? { n } : n),
      );
      const results = await Promise.all(calls);
      assert.deepEqual(
        results.map((result) =>
          typeof result === 'number' ? result : (result as { n: number }).n,
        ),
        [...Array(5_000).keys()],
      );
    }
    assert.equal(pool.stats.finished, 15_000);
  });

  it('lets keys take turns', async () => {
    // Chance decides which of 256 sub-queues a key is in: here the two have different ones.
    await using pool = await open({ workers: 1, random: () => 0.5 });
    const log = newLog(64);
    const busy = pool.run('hog', 30);
    const greedy = Array.from({ length: 20 }, () =>
      pool.run('note', { log, item: 1 }, { key: 'greedy' }),
    );
    const modest = Array.from({ length: 3 }, () =>
      pool.run('note', { log, item: 2 }, { key: 'modest' }),
    );
    await Promise.all([busy, ...greedy, ...modest]);
    const places = [...log.slice(1, 24)].flatMap((item, at) => (item === 2 ? at : []));
    assert.ok((places.at(-1) ?? 99) <= 7, places.join());
  });

  it('serves a higher priority first', async () => {
    await using pool = await open({ workers: 1 });
    const log = newLog(16);
    const busy = pool.run('hog', 30);
    const calls = [0, 3, 7, 1, 7, 0].map((priority) =>
      pool.run('note', { log, item: priority }, { priority }),
    );
    await Promise.all([busy, ...calls]);
    assert.deepEqual([...log.slice(1, 7)], [7, 7, 3, 1, 0, 0]);
  });

  it('keeps tasks of one affinity in order on one worker', async () => {
    await using pool = await open({ workers: 3 });
    const logs = ['a', 'b', 'c', 'd'].map((affinity) => ({ affinity, log: newLog(64) }));
    const calls = Array.from({ length: 50 }, (_, item) =>
      logs.map(({ affinity, log }) => pool.run('note', { log, item }, { affinity })),
    );
    const threads = await Promise.all(calls.map((round) => Promise.all(round)));
    for (const { log } of logs) assert.deepEqual([...log.slice(1, 51)], [...Array(50).keys()]);
    const [first] = threads;
    for (const round of threads) assert.deepEqual(round, first);
  });

  it('gives them to workers by chance, so that nobody can fill one on purpose', async () => {
    const keys = Array.from({ length: 16 }, (_, n) => `key ${n}`);
    const places: string[] = [];
    for (const chance of [0.1, 0.6]) {
      await using pool = await open({ random: () => chance });
      const calls = keys.map((affinity) => pool.run('who', undefined, { affinity }));
      const threads = (await Promise.all(calls)).map(({ thread }) => thread);
      places.push(threads.map((thread) => (thread === threads[0] ? 'a' : 'b')).join(''));
    }
    assert.notEqual(places[0], places[1]);
  });

  it('keeps them in order though their worker was lost', async () => {
    await using pool = await open();
    const log = newLog(64);
    const options = { affinity: 'a' };
    const lost = assert.rejects(pool.run('exit', 1, options), { code: 'WORKER_LOST' });
    const calls = Array.from({ length: 50 }, (_, item) => pool.run('note', { log, item }, options));
    await lost;
    const threads = new Set(await Promise.all(calls));
    assert.deepEqual([...log.slice(1, 51)], [...Array(50).keys()]);
    assert.equal(threads.size, 1);
  });
});

describe('tasks of one affinity', () => {
  it('stay in order though one with moved buffers cannot be taken back by a pause', async () => {
    await using pool = await open({ workers: 1 });
    const log = newLog(300);
    for (let item = 0; item < 200; item += 1) await pool.run('note', { log, item });
    const busy = await occupy(pool);
    const first = pool.run('note', { log, item: -1 }, { affinity: 'a' });
    const buffer = new ArrayBuffer(8);
    const moved = { log, item: -2, buffer };
    const second = pool.run('note', moved, { affinity: 'a', transfer: [buffer] });
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(buffer.detached, 'it was sent ahead');
    pool.pause();
    busy.release();
    await second;
    pool.resume();
    await first;
    assert.deepEqual([...log.slice(201, 203)], [-1, -2]);
  });

  it('stay in order when a smaller pool gives them to another worker', async () => {
    // Chance decides which worker runs an affinity: here each has some of these.
    await using pool = await open({ workers: 1, random: () => 0.5 });
    const { thread: stays } = await pool.run('who', undefined);
    pool.resize(2);
    const threadOf = async (affinity: string): Promise<number> =>
      (await pool.run('who', undefined, { affinity })).thread;
    const keys = ['a', 'b', 'c', 'd', 'e', 'f'];
    const threads = await Promise.all(keys.map(threadOf));
    const moving = keys[threads.findIndex((thread) => thread !== stays)] ?? '';
    const older = await occupy(pool, { affinity: moving });
    pool.resize(1);
    const log = newLog(8);
    const newer = pool.run('note', { log, item: 5 }, { affinity: moving });
    for (let n = 0; n < 20; n += 1) assert.equal((await pool.run('who', undefined)).thread, stays);
    assert.equal(log[0], 0, 'it waits for the older one');
    older.release();
    assert.equal(await older.done, 'released');
    assert.equal(await newer, stays);
  });
});

describe('a worker that is busy for long', () => {
  it('keeps no short task from a worker that is idle', async () => {
    await using pool = await open();
    await warmUp(pool);
    const gate = newLog(1);
    const long = pool.run('hog', gate);
    const shorts = Array.from({ length: 200 }, () => pool.run('hog', 0));
    await Promise.all(shorts);
    openGate(gate);
    await long;
  });

  it('keeps none that come while it is busy, either', async () => {
    await using pool = await open();
    await warmUp(pool);
    const gate = newLog(1);
    const long = pool.run('hog', gate);
    for (let round = 0; round < 50; round += 1) {
      await Promise.all(Array.from({ length: 5 }, () => pool.run('hog', 0)));
    }
    openGate(gate);
    await long;
  });

  it('keeps none with buffers that are moved, if its task is known to be long', async () => {
    await using pool = await open();
    for (let i = 0; i < 200; i += 1) await pool.run('reverse', new ArrayBuffer(1));
    for (let i = 0; i < 5; i += 1) await pool.run('spin', 20);
    const controller = new AbortController();
    const long = pool.run('spin', 60_000, { signal: controller.signal });
    const shorts = Array.from({ length: 20 }, () => {
      const buffer = new ArrayBuffer(8);
      return pool.run('reverse', buffer, { transfer: [buffer] });
    });
    await Promise.all(shorts);
    controller.abort();
    await assert.rejects(long, { name: 'AbortError' });
  });

  it('lets one with moved buffers leave at once when its caller aborts', async () => {
    await using pool = await open({ workers: 1 });
    await warmUp(pool);
    for (let i = 0; i < 200; i += 1) await pool.run('reverse', new ArrayBuffer(1));
    const gate = newLog(1);
    const long = pool.run('hog', gate);
    const controller = new AbortController();
    const buffer = new ArrayBuffer(8);
    const options = { transfer: [buffer], signal: controller.signal };
    const moved = assert.rejects(pool.run('reverse', buffer, options), { name: 'AbortError' });
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(buffer.detached, 'it was sent ahead');
    controller.abort();
    await moved;
    openGate(gate);
    await long;
  });

  it('mixes up no bytes that were moved to it', async () => {
    await using pool = await open();
    await warmUp(pool);
    for (let round = 0; round < 20; round += 1) {
      const long = pool.run('hog', 20);
      const calls = Array.from({ length: 60 }, (_, number) => {
        const bytes = new Uint8Array(1_024).fill(round * 60 + number);
        return pool.run('echo', bytes, { transfer: [bytes.buffer] });
      });
      for (const [number, result] of (await Promise.all(calls)).entries()) {
        assert.deepEqual(result, new Uint8Array(1_024).fill(round * 60 + number));
      }
      await long;
    }
  });

  it('keeps none in a pool whose workers may run several at once', async () => {
    await using pool = await open({ concurrency: 8 });
    await warmUp(pool);
    const gate = newLog(1);
    const long = pool.run('hog', gate);
    await Promise.all(Array.from({ length: 10 }, () => pool.run('hog', 0)));
    openGate(gate);
    await long;
  });

  it('hands over results from before that it has not told of', async () => {
    await using pool = await open({ workers: 1 });
    for (let i = 0; i < 200; i += 1) await pool.run('echo', i);
    await warmUp(pool);
    const gate = newLog(1);
    const before = Array.from({ length: 30 }, (_, number) => pool.run('echo', number));
    const long = pool.run('hog', gate);
    assert.deepEqual(await Promise.all(before), [...Array(30).keys()]);
    openGate(gate);
    await long;
  });

  it('hands over results from before, also of those that it may run at once', async () => {
    await using pool = await open({ workers: 1, concurrency: 8 });
    await warmUp(pool);
    for (let round = 0; round < 20; round += 1) {
      const gate = newLog(1);
      const before = Array.from({ length: 7 }, () => pool.run('hog', 0.02));
      const long = pool.run('hog', gate);
      await Promise.all(before);
      openGate(gate);
      await long;
    }
  });

  it('hands over results from before, of any kind, though it goes on without a pause', async () => {
    await using pool = await open({ workers: 1 });
    for (let i = 0; i < 200; i += 1) await pool.run('echo', { warm: i });
    // Results that go through shared memory, then such that need a message of their own.
    for (const values of [
      [1, undefined, true],
      [{ two: 2 }, 'three'],
    ]) {
      await warmUp(pool);
      const gate = newLog(1);
      const before = values.map((value) => pool.run('echo', value));
      const long = pool.run('hog', gate);
      assert.deepEqual(await Promise.all(before), values);
      openGate(gate);
      await long;
    }
  });
});

describe('a worker that may run several tasks at once', () => {
  it('does, and never more', async () => {
    await using pool = await open({ workers: 1, concurrency: 4 });
    const log = newLog(2);
    await Promise.all(Array.from({ length: 40 }, () => pool.run('visit', log)));
    assert.deepEqual([...log], [0, 4]);
    assert.equal(pool.stats.limit, 4);
  });
});
