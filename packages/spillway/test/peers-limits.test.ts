// Behaviours that the test suites of other limiters assert; the table with those that are refused
// is docs/decisions/peers-behaviours.md.
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Bucket, Keyed, map } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { entering } from './fixtures/entering.ts';
import { gateOf, laneOf, ticks, wait } from './fixtures/peers.ts';

describe('p-limit', () => {
  it('runs at most n tasks at once', async () => {
    const gate = gateOf(3);
    let most = 0;
    const task = async (): Promise<void> => {
      most = Math.max(most, gate.stats.inside);
      await ticks();
    };
    await Promise.all(Array.from({ length: 20 }, () => gate.run(task)));
    assert.equal(most, 3);
  });

  it('begins tasks in the order in which they came', async () => {
    const gate = gateOf(1);
    const order: number[] = [];
    const task = (n: number) => gate.run(async () => void order.push(n));
    await Promise.all([1, 2, 3, 4].map(task));
    assert.deepEqual(order, [1, 2, 3, 4]);
  });

  it('goes on after a task that rejects, and one that throws at once', async () => {
    const gate = gateOf(1);
    const thrown = (): never => {
      throw new Error('at once');
    };
    const all = [async () => thrown(), thrown, async () => 'fine'];
    const ended = await Promise.allSettled(all.map((task) => gate.run(task)));
    assert.deepEqual(
      ended.map(({ status }) => status),
      ['rejected', 'rejected', 'fulfilled'],
    );
    assert.equal(gate.stats.inside, 0);
  });

  it('counts running and waiting callers', async () => {
    const gate = gateOf(1);
    const all = Promise.all([gate.run(ticks), gate.run(ticks), gate.run(ticks)]);
    assert.deepEqual([gate.stats.inside, gate.stats.waiting], [1, 2]);
    await all;
    assert.deepEqual([gate.stats.inside, gate.stats.waiting], [0, 0]);
  });

  it('settles the promise of every waiter when the queue is cleared', async () => {
    const lane = laneOf();
    for (const way of [gateOf(1), lane]) {
      const inside = entering(way);
      const waiting = [way.run(ticks), way.run(ticks)];
      way.clear();
      for (const call of waiting) await assert.rejects(call, { code: 'CLEARED', retryable: true });
      assert.equal(way.stats.waiting, 0);
      (await inside)[Symbol.dispose]();
      await way.run(ticks);
    }
    assert.equal(lane.stats.refused.cleared, 2);
  });

  it('lets waiters in at once when the limit grows', async () => {
    const gate = gateOf(1);
    const entered = [1, 2, 3].map(() => entering(gate));
    gate.resize(3);
    await Promise.all(entered);
  });

  it('maps a list with a limit, in order, and stops at the first error', async () => {
    const doubled = await map([1, 2, 3], async (n) => n * 2, { limit: 2 });
    assert.deepEqual(doubled, [2, 4, 6]);
    const begun: number[] = [];
    const task = async (n: number): Promise<void> => {
      begun.push(n);
      if (n === 1) throw new Error('the first');
      await ticks();
    };
    await assert.rejects(map([1, 2, 3, 4], task, { limit: 2 }), /the first/);
    await ticks();
    assert.deepEqual(begun, [1, 2]);
  });

  it('runs each task in the AsyncLocalStorage context of its caller', async () => {
    const gate = gateOf(1);
    const storage = new AsyncLocalStorage<number>();
    const seen = [1, 2, 3].map((n) =>
      storage.run(n, () => gate.run(async () => storage.getStore())),
    );
    assert.deepEqual(await Promise.all(seen), [1, 2, 3]);
  });
});

describe('bottleneck', () => {
  it('spaces starts evenly', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 10, burst: 1, queueMax: 9, clock });
    const at: number[] = [];
    const task = async (): Promise<void> => void at.push(Math.round(clock.now()));
    await clock.run(Promise.all([1, 2, 3].map(() => bucket.run(task))));
    assert.deepEqual(at, [0, 100, 200]);
  });

  it('lets heavy tasks weigh more than others', async () => {
    const lane = laneOf({ limit: { fixed: 3 } });
    using _heavy = await lane.enter({ weight: 2 });
    assert.equal(lane.tryEnter({ weight: 2 }), undefined);
    using _light = lane.tryEnter();
    assert.equal(lane.stats.inside, 3);
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 10, burst: 5, queueMax: 9, clock });
    assert.equal(bucket.tryTake(5), true);
    assert.equal(bucket.tryTake(1), false);
  });

  it('has a limiter for each key, made when first asked for and forgotten when idle', async () => {
    const clock = new VirtualClock();
    const make = () => new Bucket({ ratePerSecond: 1, burst: 1, queueMax: 0, clock });
    const buckets = new Keyed({ make, keysMax: 2, idleMs: 1_000, clock });
    assert.equal(buckets.for('a').tryTake(), true);
    assert.equal(buckets.for('a').tryTake(), false);
    assert.equal(buckets.for('b').tryTake(), true);
    await clock.advance(5_000);
    buckets.for('c');
    assert.equal(buckets.stats.keys, 2);
  });

  it('changes its rate while tasks wait', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 1, burst: 1, queueMax: 9, clock });
    bucket.tryTake();
    const taken = bucket.take();
    bucket.resize({ ratePerSecond: 10 });
    await clock.advance(101);
    await taken;
  });

  it('holds tokens back while it is paused, and gives them when it is resumed', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 10, burst: 1, queueMax: 9, clock });
    bucket.pause();
    assert.equal(bucket.tryTake(), false);
    let taken = false;
    const take = bucket.take().then(() => {
      taken = true;
    });
    await clock.advance(10_000);
    assert.equal(taken, false);
    assert.equal(clock.pending, 0, 'no timer runs meanwhile');
    bucket.resume();
    await take;
    const waits = bucket.take();
    bucket.clear();
    await assert.rejects(waits, { code: 'CLEARED' });
  });

  it('reports whether a task would run now', () => {
    const lane = laneOf();
    using _place = lane.tryEnter();
    assert.equal(lane.tryEnter(), undefined);
  });

  it('stops: takes no more, and either finishes what waits or drops it', async () => {
    const lane = laneOf();
    const inside = await lane.enter();
    const waits = lane.run(ticks);
    const closed = lane.close({ withinMs: 0 });
    await assert.rejects(waits, { code: 'LANE_CLOSED' });
    await assert.rejects(lane.run(ticks), { code: 'LANE_CLOSED' });
    inside[Symbol.dispose]();
    await closed;
  });

  it('calls a hook for each refusal, and goes on when the hook throws', async (t) => {
    const warn = t.mock.method(process, 'emitWarning', () => {});
    const codes: string[] = [];
    const lane = laneOf({
      queueMax: 0,
      onRefuse: (error) => {
        codes.push(error.code);
        throw new Error('a broken hook');
      },
    });
    using _inside = await lane.enter();
    await assert.rejects(lane.run(ticks), { code: 'LANE_FULL' });
    await assert.rejects(lane.run(ticks), { code: 'LANE_FULL' });
    assert.deepEqual(codes, ['LANE_FULL', 'LANE_FULL']);
    assert.equal(warn.mock.callCount(), 2);
  });

  it('gives waiting a time limit of its own, apart from the work', async () => {
    const clock = new VirtualClock();
    const lane = laneOf({ waitMsMax: 50, clock });
    const long = lane.run(() => wait(clock, 1_000));
    await clock.advance(10);
    const waits = assert.rejects(lane.run(ticks), { code: 'LANE_STALE' });
    await clock.advance(49);
    assert.equal(lane.stats.waiting, 1);
    await clock.advance(1);
    await waits;
    assert.equal(lane.stats.refused.stale, 1);
    await clock.run(long);
    assert.equal(lane.stats.outcomes.ok, 1, 'work may take longer');
    assert.equal(clock.pending, 0);
  });
});

describe('async-sema', () => {
  it('hands a permit to the oldest waiter, and no newcomer slips in between', async () => {
    const gate = gateOf(1);
    const first = await gate.enter();
    const second = entering(gate);
    first[Symbol.dispose]();
    assert.equal(gate.tryEnter(), undefined);
    await second;
  });

  it('gives a permit at once, or none', () => {
    const gate = gateOf(1);
    const place = gate.tryEnter();
    assert.notEqual(place, undefined);
    assert.equal(gate.tryEnter(), undefined);
    place?.[Symbol.dispose]();
    place?.[Symbol.dispose]();
    assert.notEqual(gate.tryEnter(), undefined);
    assert.equal(gate.tryEnter(), undefined, 'a permit given back twice counts once');
  });

  it('empties its queue on demand', async () => {
    const gate = gateOf(1);
    using _inside = await gate.enter();
    const waits = gate.run(ticks);
    gate.clear();
    await assert.rejects(waits, { code: 'CLEARED' });
  });
});

describe('rate-limiter-flexible', () => {
  it('refuses at once when the points are used up, and says when to come back', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 2, burst: 2, queueMax: 0, clock });
    await bucket.take(2);
    await assert.rejects(bucket.take(), { code: 'BUCKET_FULL', status: 429, retryAfterMs: 500 });
    await clock.advance(500);
    await bucket.take();
  });

  it('reports the points that are left', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 1, burst: 5, queueMax: 0, clock });
    await bucket.take(2);
    assert.equal(bucket.stats.tokens, 3);
  });

  it('lets a caller wait in a bounded queue instead of being refused', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 1, burst: 1, queueMax: 1, clock });
    await bucket.take();
    const waits = bucket.take();
    await assert.rejects(bucket.take(), { code: 'BUCKET_FULL' });
    await clock.run(waits);
  });

  it('blocks a key for a time that the other side asks for', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 10, burst: 1, queueMax: 9, clock });
    bucket.slow({ retryAfterMs: 60_000 });
    const take = bucket.take();
    await clock.advance(59_000);
    assert.ok(bucket.stats.pausedMs > 0);
    await clock.run(take);
    assert.ok(clock.now() >= 60_000);
  });
});

it('the page on the behaviours of others names each of these tests, and no other', () => {
  const folder = import.meta.dirname;
  const files = globSync('peers-*.test.ts', { cwd: folder }).sort();
  const text = files.map((file) => readFileSync(join(folder, file), 'utf8')).join('\n');
  const named: string[] = [];
  let peer = '';
  for (const [, suite, test] of text.matchAll(/^describe\('(.+)',|^ {2}it\('(.+)', /gm)) {
    if (suite !== undefined) peer = suite;
    else named.push(`${peer}: ${test}`);
  }
  const page = join(folder, '../../../docs/decisions/peers-behaviours.md');
  const [there = ''] = readFileSync(page, 'utf8').split('## Refused');
  const rows = [...there.matchAll(/^\| (?!of|---)(\S+) \| (.+) \|$/gm)];
  const told = rows.map(([, of, behaviour]) => `${of}: ${behaviour}`);
  assert.equal(told.length, named.length);
  assert.deepEqual(new Set(told), new Set(named));
});
