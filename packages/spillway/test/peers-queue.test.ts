// Behaviours that the test suite of p-queue asserts; the table with those that are refused is
// docs/decisions/peers-behaviours.md.
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, it } from 'node:test';
import { Backlog, Bucket, Gate } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { gateOf, laneOf, ticks, wait } from './fixtures/peers.ts';

describe('p-queue', () => {
  it('serves higher priorities first, and equal ones in order', async () => {
    const lane = laneOf();
    const inside = await lane.enter();
    const order: string[] = [];
    const task = (name: string, priority: number) =>
      lane.run(async () => void order.push(name), { priority });
    const all = [task('low', 0), task('high', 5), task('low too', 0), task('high too', 5)];
    inside[Symbol.dispose]();
    await Promise.all(all);
    assert.deepEqual(order, ['high', 'high too', 'low', 'low too']);
  });

  it('can be paused and resumed', async () => {
    const lane = laneOf({ limit: { fixed: 2 } });
    lane.pause();
    let done = 0;
    const task = async (): Promise<void> => {
      done += 1;
    };
    const all = [1, 2, 3].map(() => lane.run(task));
    await ticks();
    assert.equal(done, 0);
    lane.resume();
    await Promise.all(all);
    assert.equal(done, 3);
  });

  it('lets a task that waits be aborted, and its place is free', async () => {
    const gate = gateOf(1);
    const inside = await gate.enter();
    const abort = new AbortController();
    const call = gate.run(ticks, { signal: abort.signal });
    abort.abort(new Error('no longer wanted'));
    await assert.rejects(call, /no longer wanted/);
    assert.equal(gate.stats.waiting, 0);
    inside[Symbol.dispose]();
    await gate.run(ticks);
  });

  it('gives a task that runs its signal', async () => {
    const abort = new AbortController();
    const call = gateOf(1).run(
      (signal) => new Promise((_, reject) => signal.addEventListener('abort', reject)),
      { signal: abort.signal },
    );
    abort.abort(new Error('enough'));
    await assert.rejects(call, /enough/);
  });

  it('ends a task at its time limit, and holds its place until it has really ended', async () => {
    const clock = new VirtualClock();
    const lane = laneOf({ deadlineMs: 100, clock });
    const call = assert.rejects(
      lane.run(() => wait(clock, 500)),
      { code: 'DEADLINE' },
    );
    await clock.advance(100);
    await call;
    assert.equal(lane.stats.inside, 1);
    await clock.advance(400);
    assert.equal(lane.stats.inside, 0);
  });

  it('bounds the queue, and refuses one more', async () => {
    const gate = new Gate({ limit: 1, queueMax: 1 });
    const held = gate.run(ticks);
    const waits = gate.run(ticks);
    await assert.rejects(gate.run(ticks), { code: 'GATE_FULL' });
    await Promise.all([held, waits]);
  });

  it('resolves a promise when it is idle, and at once if it is idle already', async () => {
    const backlog = new Backlog<number>({ queueMax: 9, consume: ticks });
    await backlog.idle();
    backlog.add(1);
    backlog.add(2);
    await backlog.idle();
    assert.equal(backlog.stats.done, 2);
  });

  it('starts no more than a number in each interval', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 4, burst: 1, queueMax: 100, clock });
    const startedAt: number[] = [];
    const all = Array.from({ length: 12 }, () =>
      bucket.run(async () => void startedAt.push(clock.now())),
    );
    await clock.run(Promise.all(all));
    for (const from of startedAt) {
      const within = startedAt.filter((at) => at >= from && at < from + 1_000).length;
      assert.ok(within <= 5, `${within} in a second`);
    }
  });

  it('has a backlog that is paused, resumed, resized and cleared', async () => {
    const dropped: unknown[] = [];
    let most = 0;
    const backlog = new Backlog<number>({
      queueMax: 100,
      consume: async () => {
        most = Math.max(most, backlog.stats.running);
        await ticks();
      },
      onDrop: (item, reason) => dropped.push(item, reason),
    });
    backlog.pause();
    for (const item of [1, 2, 3, 4]) backlog.add(item);
    await ticks();
    assert.deepEqual([backlog.stats.running, backlog.stats.waiting], [0, 4]);
    backlog.resize(2);
    backlog.resume();
    await backlog.idle();
    assert.deepEqual([most, backlog.stats.done], [2, 4]);
    backlog.pause();
    backlog.add(5);
    backlog.clear();
    assert.deepEqual(dropped, [5, 'cleared']);
    await backlog.idle();
    backlog.add(6);
    await backlog.close();
    assert.equal(backlog.stats.done, 5, 'closing finishes what a pause has kept');
  });

  it('clears items that wait to be tried again, and those behind a running key', async () => {
    const clock = new VirtualClock();
    const holding = Promise.withResolvers<void>();
    const backlog = new Backlog<string>({
      queueMax: 9,
      consumers: 2,
      key: (item) => item[0] ?? '',
      consume: async (item) => {
        if (item[0] === 'x') throw new Error('fails');
        await holding.promise;
      },
      clock,
    });
    backlog.add('a1');
    backlog.add('x1');
    await ticks();
    backlog.add('a2');
    await ticks();
    assert.deepEqual([backlog.stats.retrying, backlog.stats.waiting], [1, 1]);
    backlog.clear();
    assert.deepEqual([backlog.stats.retrying, backlog.stats.waiting], [0, 0]);
    assert.equal(clock.pending, 0);
    holding.resolve();
    await backlog.idle();
    assert.equal(backlog.stats.dropped.cleared, 2);
  });

  it('runs each item of a backlog in the AsyncLocalStorage context of its caller', async () => {
    const storage = new AsyncLocalStorage<number>();
    const seen: unknown[] = [];
    const consume = (): void => void seen.push(storage.getStore());
    const backlog = new Backlog<number>({ queueMax: 9, consume });
    for (const n of [1, 2]) storage.run(n, () => backlog.add(n));
    await backlog.idle();
    assert.deepEqual(seen, [1, 2]);
  });
});
