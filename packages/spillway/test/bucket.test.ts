// Slow: tries thousands of schedules.

import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { Bucket, type Clock, seededRandom } from 'spillway';
import { explore, VirtualClock } from 'spillway/testing';

/** Timers of a busy process: each comes late by as much as it is told. */
function lateClock(clock: VirtualClock, lateMs: () => number): Clock {
  return {
    now: () => clock.now(),
    after: (ms, callback) => clock.after(ms + lateMs(), callback),
  };
}

interface Grant {
  readonly at: number;
  readonly n: number;
}

/** The most tokens given out in any stretch of one second, both ends included. */
function mostInOneSecond(grants: readonly Grant[]): number {
  let most = 0;
  let inside = 0;
  let oldest = 0;
  for (const { at, n } of grants) {
    inside += n;
    for (let grant = grants[oldest]; grant && grant.at < at - 1000; grant = grants[oldest]) {
      inside -= grant.n;
      oldest += 1;
    }
    most = Math.max(most, inside);
  }
  return most;
}

/** 45 callers that take one token after another, until the time is over. */
async function greedy(bucket: Bucket, clock: VirtualClock, ms: number): Promise<Grant[]> {
  const grants: Grant[] = [];
  const leave = new AbortController();
  const callers = Array.from({ length: 45 }, async () => {
    while (!leave.signal.aborted) {
      await bucket.take(1, { signal: leave.signal });
      grants.push({ at: clock.now(), n: 1 });
    }
  });
  await clock.advance(ms);
  leave.abort();
  await Promise.allSettled(callers);
  return grants;
}

describe('Bucket', () => {
  it('starts full, and then serves at its rate in the order of arrival', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 10, burst: 2, queueMax: 10, clock });
    const served: string[] = [];
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      void bucket.take().then(() => served.push(`${name} at ${clock.now()}`));
    }
    await clock.advance(1000);
    assert.deepEqual(served, ['a at 0', 'b at 0', 'c at 100', 'd at 200', 'e at 300']);
    assert.equal(clock.pending, 0);
    assert.deepEqual(bucket.stats, {
      kind: 'bucket',
      tokens: 2,
      ratePerSecond: 10,
      waiting: 0,
      taken: 5,
      refused: 0,
      slowed: 0,
      pausedMs: 0,
    });
  });

  it('gives several tokens at once, and keeps those who want fewer behind', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 10, burst: 5, queueMax: 10, clock });
    await bucket.take(3);
    const served: string[] = [];
    void bucket.take(5).then(() => served.push(`five at ${clock.now()}`));
    void bucket.take(1).then(() => served.push(`one at ${clock.now()}`));
    assert.equal(bucket.tryTake(1), false);
    await clock.advance(1000);
    assert.deepEqual(served, ['five at 300', 'one at 400']);
    assert.equal(bucket.tryTake(1), true);
  });

  it('works below one per second', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 0.5, queueMax: 1, clock });
    assert.equal(bucket.tryTake(), true);
    await clock.run(bucket.take());
    assert.equal(clock.now(), 2000);
  });

  it('refuses at once what no bucket of its size could ever give', async () => {
    const bucket = new Bucket({ ratePerSecond: 10, burst: 3, queueMax: 10 });
    await assert.rejects(bucket.take(4), /n: must be an integer from 1 to 3, got 4/);
    assert.throws(() => bucket.tryTake(0), /n: must be an integer from 1 to 3, got 0/);
  });

  it('refuses when the queue is full, and says when the turn would have come', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 2, burst: 2, queueMax: 2, clock });
    await bucket.take(2);
    const leave = new AbortController();
    const waiting = [bucket.take(2), bucket.take(1, { signal: leave.signal })];
    const full = { code: 'BUCKET_FULL', status: 429, retryAfterMs: 2000 };
    await assert.rejects(bucket.take(1), full);
    leave.abort('gone');
    waiting.push(bucket.take(2));
    await assert.rejects(bucket.take(1), { ...full, retryAfterMs: 2500 });
    assert.equal(bucket.stats.refused, 2);
    await clock.run(Promise.allSettled(waiting));
    assert.equal(clock.pending, 0);
  });

  it('does not refuse a newcomer because of a timer that is late', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({
      ratePerSecond: 10,
      burst: 1,
      queueMax: 1,
      clock: lateClock(clock, () => 50),
    });
    await bucket.take();
    const first = bucket.take();
    await clock.advance(120);
    const second = bucket.take();
    await first;
    assert.equal(clock.now(), 120);
    await clock.run(second);
    assert.equal(clock.pending, 0);
  });

  it('passes the turn on at once when the first in the queue leaves', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 10, burst: 5, queueMax: 10, clock });
    await bucket.take(3);
    const quitter = new AbortController();
    const gone = assert.rejects(bucket.take(5, { signal: quitter.signal }), { name: 'AbortError' });
    const next = bucket.take(2);
    quitter.abort();
    await gone;
    await next;
    assert.equal(clock.now(), 0);
    assert.equal(clock.pending, 0);
    await assert.rejects(bucket.take(1, { signal: quitter.signal }), { name: 'AbortError' });
    assert.equal(bucket.stats.taken, 5);
  });

  it('keeps one timer, however many wait, and none when the last has left', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 1, queueMax: 100, clock });
    await bucket.take();
    const leave = new AbortController();
    const all = Array.from({ length: 100 }, () => bucket.take(1, { signal: leave.signal }));
    assert.equal(clock.pending, 1);
    leave.abort('closing');
    assert.equal(clock.pending, 0);
    for (const { status, reason } of (await Promise.allSettled(all)) as PromiseRejectedResult[]) {
      assert.deepEqual([status, reason], ['rejected', 'closing']);
    }
  });

  for (const { ratePerSecond, lateMsMax } of [
    { ratePerSecond: 15, lateMsMax: 60 },
    { ratePerSecond: 1000, lateMsMax: 19 },
    { ratePerSecond: 2.5, lateMsMax: 150 },
  ]) {
    it(`loses nothing at ${ratePerSecond}/s to timers up to ${lateMsMax} ms late`, async () => {
      const clock = new VirtualClock();
      const random = seededRandom(1);
      const late = lateClock(clock, () => random() * lateMsMax);
      const bucket = new Bucket({ ratePerSecond, queueMax: 45, clock: late });
      const burst = bucket.stats.tokens;
      const grants = await greedy(bucket, clock, 20_000);
      const most = burst + 20 * ratePerSecond;
      assert.ok(grants.length <= most, `${grants.length} of ${most}`);
      assert.ok(grants.length >= most - burst - 1, `${grants.length} of ${most}`);
      assert.ok(mostInOneSecond(grants) <= ratePerSecond + burst);
      assert.equal(clock.pending, 0);
    });
  }

  for (const ratePerSecond of [0.4, 2.5, 15]) {
    it(`lets at most ${ratePerSecond} and the burst through, however late`, async () => {
      const clock = new VirtualClock();
      const random = seededRandom(1);
      // Mostly on time, so that the second that begins with a late one is filled to the brim.
      const late = lateClock(clock, () => (random() < 0.1 ? 3000 / ratePerSecond : 0));
      const bucket = new Bucket({ ratePerSecond, burst: 2, queueMax: 45, clock: late });
      const grants = await greedy(bucket, clock, 3e6 / ratePerSecond);
      assert.equal(mostInOneSecond(grants), Math.floor(ratePerSecond) + 2);
    });
  }

  it('names the option that is wrong, and its rule', () => {
    const good = { ratePerSecond: 1, queueMax: 1 };
    const wrong = (options: object, message: RegExp) =>
      assert.throws(() => new Bucket({ ...good, ...options }), message);
    for (const ratePerSecond of [0, -1, Number.NaN, Infinity]) {
      wrong({ ratePerSecond }, /ratePerSecond: must be a number above 0, up to 1000000, got/);
    }
    wrong({ burst: 0 }, /burst: must be an integer from 1, got 0/);
    wrong({ burst: 1.5 }, /burst: must be an integer from 1, got 1.5/);
    wrong({ queueMax: undefined }, /queueMax: must be an integer from 0, got undefined/);
    wrong({ recoverMs: 0 }, /recoverMs: must be a number from 1 /);
    const bucket = new Bucket(good);
    assert.throws(() => bucket.slow({ retryAfterMs: -1 }), /retryAfterMs: must be a number from 0/);
  });

  it('is never overdrawn and never out of order, whatever happens', async () => {
    await explore(2000, async (random) => {
      const clock = new VirtualClock();
      const ratePerSecond = [0.3, 0.5, 1, 2.75, 15, 100, 1234.5][Math.floor(random() * 7)] ?? 1;
      const stepMs = 2000 / ratePerSecond;
      const burst = 1 + Math.floor(random() * 5);
      const queueMax = Math.floor(random() * 20);
      const late = lateClock(clock, () => (random() < 0.3 ? random() * stepMs : 0));
      const bucket = new Bucket({ ratePerSecond, burst, queueMax, clock: late, recoverMs: 5000 });
      const grants: Grant[] = [];
      const order: number[] = [];
      const signals: AbortSignal[] = [];
      const callers: Promise<void>[] = [];
      const call = async (id: number): Promise<void> => {
        const n = 1 + Math.floor(random() * burst);
        const leave = new AbortController();
        if (random() < 0.2) clock.after(random() * 3 * stepMs, () => leave.abort());
        signals.push(leave.signal);
        await bucket.take(n, { signal: leave.signal });
        grants.push({ at: clock.now(), n });
        order.push(id);
      };
      for (let id = 0; id < 40; id += 1) {
        const chance = random();
        if (chance < 0.7) callers.push(call(id));
        else if (chance < 0.8 && bucket.tryTake()) grants.push({ at: clock.now(), n: 1 });
        else if (chance < 0.85) bucket.slow({ retryAfterMs: random() * stepMs });
        else await clock.advance(random() * stepMs);
      }
      const settled = await clock.run(Promise.allSettled(callers));
      for (const { reason } of settled.filter((one) => one.status === 'rejected')) {
        assert.ok(reason.name === 'AbortError' || reason.code === 'BUCKET_FULL', String(reason));
      }
      assert.deepEqual(
        order,
        order.toSorted((a, b) => a - b),
      );
      assert.ok(mostInOneSecond(grants) <= ratePerSecond + burst);
      const { taken, waiting } = bucket.stats;
      assert.equal(
        taken,
        grants.reduce((sum, { n }) => sum + n, 0),
      );
      assert.equal(waiting, 0);
      assert.ok(signals.every((signal) => getEventListeners(signal, 'abort').length === 0));
      await clock.advance(10 * stepMs);
      assert.equal(clock.pending, 0);
    });
  });
});
