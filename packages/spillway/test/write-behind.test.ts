import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { WriteBehind, type WriteBehindOptions } from 'spillway';
import { VirtualClock } from 'spillway/testing';

type Options = WriteBehindOptions<string, number>;

/** A cache over a map that stands for the disk, with flushes that a test can hold up. */
function harness(options: Partial<Options> = {}) {
  const clock = new VirtualClock();
  const disk = new Map<string, number>();
  const flushed: string[][] = [];
  const loads: string[] = [];
  const cache = new WriteBehind<string, number>({
    sizeMax: 10,
    clock,
    random: () => 0.5,
    load: async (key) => {
      loads.push(key);
      return disk.get(key) ?? 0;
    },
    flush: async (records) => {
      flushed.push([...records.keys()]);
      for (const [key, value] of records) disk.set(key, value);
    },
    ...options,
  });
  return { clock, disk, flushed, loads, cache };
}

const plus = (n: number) => (value: number) => value + n;
const wait = (clock: VirtualClock, ms: number) =>
  new Promise<void>((resolve) => clock.after(ms, resolve));

describe('WriteBehind', () => {
  it('changes memory at once and flushes within its time, in groups', async () => {
    const { clock, disk, flushed, cache } = harness({ flushMsMax: 500 });
    assert.equal(await cache.update('a', plus(1)), 1);
    void cache.update('a', plus(1));
    assert.equal(await cache.get('a'), 2);
    await clock.advance(300);
    await cache.update('b', plus(5));
    assert.equal(cache.stats.oldestDirtyMs, 300);
    await clock.advance(199);
    assert.deepEqual([disk.size, cache.stats.dirty], [0, 2]);
    await clock.advance(1);
    assert.deepEqual([...disk], [...Object.entries({ a: 2, b: 5 })]);
    assert.deepEqual(flushed, [['a', 'b']]);
    assert.deepEqual(cache.stats, {
      size: 2,
      dirty: 0,
      flushing: 0,
      flushes: 1,
      failures: 0,
      lastFailure: undefined,
      oldestDirtyMs: 0,
    });
    assert.equal(clock.pending, 0);
  });

  it('tells a caller when its own change is durable, and hastens that for all', async () => {
    const { clock, disk, flushed, cache } = harness();
    await cache.update('a', plus(1));
    await cache.update('b', plus(1));
    await Promise.all([cache.durable('a'), cache.durable('b'), cache.durable('unknown')]);
    assert.deepEqual(flushed, [['a', 'b']]);
    assert.equal(disk.get('a'), 1);
    assert.equal(clock.pending, 0);
    await cache.durable('a');
  });

  it('leaves changes made during a flush for the next one, one flush at a time', async () => {
    let running = 0;
    const seen: number[] = [];
    const { clock, cache } = harness({
      flush: async (records) => {
        running += 1;
        assert.equal(running, 1);
        seen.push(records.get('a') ?? -1);
        await wait(clock, 100);
        running -= 1;
      },
    });
    await cache.update('a', plus(1));
    const first = cache.durable('a');
    await clock.advance(50);
    assert.equal(cache.stats.flushing, 1);
    await cache.update('a', plus(1));
    let secondDone = false;
    const second = cache.durable('a').then(() => {
      secondDone = true;
    });
    await clock.advance(50);
    await first;
    assert.equal(secondDone, false);
    await clock.advance(100);
    await second;
    assert.deepEqual(seen, [1, 2]);
    assert.equal(cache.stats.dirty, 0);
    assert.equal(clock.pending, 0);
  });

  it('tries a failed flush again, with the newest values, until it succeeds', async () => {
    let broken = true;
    const disk = new Map<string, number>();
    const { clock, cache } = harness({
      flush: (records) => {
        if (broken) throw new Error('the disk is full');
        for (const [key, value] of records) disk.set(key, value);
      },
    });
    await cache.update('a', plus(1));
    const quitter = new AbortController();
    const impatient = cache.durable('a', quitter.signal);
    const patient = cache.durable('a');
    await clock.advance(1_000);
    await cache.update('a', plus(1));
    quitter.abort();
    await assert.rejects(impatient, { name: 'AbortError' });
    const { failures, lastFailure, dirty } = cache.stats;
    assert.ok(failures > 3 && dirty === 1, `${failures} failures`);
    assert.equal(lastFailure, 'the disk is full');
    broken = false;
    await clock.run(patient);
    assert.equal(disk.get('a'), 2);
    assert.equal(cache.stats.lastFailure, undefined);
    assert.equal(clock.pending, 0);
  });

  it('evicts what was used least recently, and never what is dirty', async () => {
    const { clock, loads, cache } = harness({ sizeMax: 3, dirtyMax: 2, flushMsMax: 100 });
    for (const key of ['a', 'b', 'c', 'a', 'd']) await cache.get(key);
    assert.deepEqual(loads, ['a', 'b', 'c', 'd']);
    await cache.get('b');
    assert.equal(loads.length, 5);
    assert.equal(cache.stats.size, 3);
    await clock.advance(0);
    await cache.close();
    assert.equal(clock.pending, 0);
  });

  it('refuses when too much is not durable yet, and recovers', async () => {
    const { cache, clock } = harness({
      sizeMax: 2,
      dirtyMax: 2,
      flush: () => wait(clock, 100),
    });
    await cache.update('a', plus(1));
    await cache.update('b', plus(1));
    const full = { code: 'WRITE_BEHIND_FULL', status: 503, retryable: true };
    await assert.rejects(cache.update('c', plus(1)), full);
    await assert.rejects(cache.get('c'), full);
    await cache.update('a', plus(1));
    assert.deepEqual([cache.stats.size, cache.stats.dirty], [2, 2]);
    await clock.run(cache.durable('b'));
    assert.equal(await cache.update('c', plus(1)), 1);
    await clock.run(cache.close());
    assert.equal(cache.stats.dirty, 0);
    assert.equal(clock.pending, 0);
  });

  it('makes one load of many, and keeps nothing of one that fails', async () => {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const answers = [promise, Promise.resolve(7)];
    const { cache, clock } = harness({ load: () => answers.shift() ?? 0 });
    const quitter = new AbortController();
    const both = [cache.get('a'), cache.update('a', plus(1))];
    const gone = cache.get('a', quitter.signal);
    quitter.abort();
    await assert.rejects(gone, { name: 'AbortError' });
    reject(new Error('unreachable'));
    resolve(0);
    for (const one of both) await assert.rejects(one, /unreachable/);
    assert.equal(cache.stats.size, 0);
    assert.deepEqual(await Promise.all([cache.get('a'), cache.update('a', plus(1))]), [7, 8]);
    assert.equal(answers.length, 0);
    await cache.close();
    assert.equal(clock.pending, 0);
  });

  it('changes nothing when the change throws', async () => {
    const { cache, clock } = harness();
    const bad = cache.update('a', () => {
      throw new Error('no');
    });
    await assert.rejects(bad, /no/);
    assert.deepEqual([await cache.get('a'), cache.stats.dirty], [0, 0]);
    assert.equal(clock.pending, 0);
  });

  it('aborts a load or a flush that takes too long', async () => {
    const stuck = (_: unknown, signal: AbortSignal) =>
      new Promise<never>((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    const loading = harness({ load: stuck, attemptMsMax: 50 });
    const get = assert.rejects(loading.cache.get('a'), { code: 'DEADLINE' });
    await loading.clock.advance(50);
    await get;
    const { cache, clock } = harness({ flush: stuck, attemptMsMax: 50 });
    await cache.update('a', plus(1));
    const left = assert.rejects(cache.close({ withinMs: 500 }), { code: 'WRITE_BEHIND_LEFT' });
    await clock.advance(500);
    await left;
    assert.ok(cache.stats.failures > 1);
    assert.equal(clock.pending + loading.clock.pending, 0);
  });

  it('flushes all when it is closed, and takes nothing more', async () => {
    const { cache, clock, disk } = harness({
      load: (key) => wait(clock, 5).then(() => key.length),
    });
    const slow = cache.update('slow', plus(1));
    await clock.advance(5);
    await slow;
    const never = cache.update('never', plus(1));
    await cache.close();
    assert.deepEqual([...disk], [['slow', 5]]);
    const refusal = { code: 'WRITE_BEHIND_CLOSED' };
    await assert.rejects(never, refusal);
    await assert.rejects(cache.update('a', plus(1)), refusal);
    await assert.rejects(cache.get('a'), refusal);
    await cache.close();
    await clock.advance(10);
    assert.equal(clock.pending, 0);
  });

  it('tells whoever awaits when it is closed before it could flush', async () => {
    const { cache, clock } = harness({ flush: () => Promise.reject(new Error('down')) });
    await cache.update('a', plus(1));
    const awaiting = assert.rejects(cache.durable('a'), { code: 'WRITE_BEHIND_LEFT' });
    const closing = assert.rejects(cache.close({ withinMs: 300 }), {
      code: 'WRITE_BEHIND_LEFT',
      message: '1 changed records were not flushed',
    });
    await clock.advance(300);
    await Promise.all([awaiting, closing]);
    await assert.rejects(cache.durable('a'), { code: 'WRITE_BEHIND_LEFT' });
    assert.equal(clock.pending, 0);
  });

  it('checks its options', () => {
    assert.throws(() => harness({ sizeMax: 0 }), /sizeMax: must be an integer from 1/);
    assert.throws(() => harness({ dirtyMax: 11 }), /dirtyMax: must be an integer from 1 to 10/);
    assert.throws(() => harness({ flushMsMax: -1 }), /flushMsMax: must be a number from 0/);
    assert.throws(() => harness({ attemptMsMax: 0 }), /attemptMsMax: must be a number from 1/);
    assert.throws(() => harness({ backoffMsMax: 1 }), /backoffMsMax: must be a number from 100/);
    assert.throws(() => harness({ load: 1 as never }), /load: must be a function/);
    assert.throws(() => harness({ flush: 1 as never }), /flush: must be a function/);
  });
});
