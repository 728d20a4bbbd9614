import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Bucket, Retry, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';

/** 45 callers that take one token after another, until the time is over. */
async function greedy(bucket: Bucket, clock: VirtualClock, ms: number): Promise<number> {
  let taken = 0;
  const leave = new AbortController();
  const callers = Array.from({ length: 45 }, async () => {
    while (!leave.signal.aborted) {
      await bucket.take(1, { signal: leave.signal });
      taken += 1;
    }
  });
  await clock.advance(ms);
  leave.abort();
  await Promise.allSettled(callers);
  return taken;
}

describe('Bucket, told of a 429', () => {
  it('pauses for as long as a 429 asks, and goes on with half the rate', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 10, burst: 5, queueMax: 1, clock });
    bucket.slow({ retryAfterMs: 3000 });
    assert.equal(bucket.tryTake(), false);
    assert.deepEqual(
      [bucket.stats.pausedMs, bucket.stats.ratePerSecond, bucket.stats.tokens],
      [3000, 5, 0],
    );
    const next = bucket.take();
    await clock.advance(3000);
    assert.equal(bucket.stats.waiting, 1);
    await clock.run(next);
    assert.ok(clock.now() > 3190 && clock.now() <= 3200, `${clock.now()}`);
  });

  it('makes those who wait already wait longer', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 10, queueMax: 1, clock });
    await bucket.take();
    const next = bucket.take();
    bucket.slow({ retryAfterMs: 500 });
    assert.equal(clock.pending, 1);
    await clock.run(next);
    assert.ok(clock.now() > 690 && clock.now() <= 700, `${clock.now()}`);
  });

  it('halves once for the many 429s of a round, and again for the next round', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 16, queueMax: 1, clock, recoverMs: 1e9 });
    for (let i = 0; i < 45; i += 1) bucket.slow();
    await clock.advance(900);
    bucket.slow({ retryAfterMs: 500 });
    await clock.advance(499);
    bucket.slow();
    assert.equal(bucket.stats.slowed, 1);
    assert.equal(Math.round(bucket.stats.ratePerSecond), 8);
    for (let i = 0; i < 10; i += 1) {
      await clock.advance(1000);
      bucket.slow();
    }
    assert.equal(bucket.stats.slowed, 11);
    assert.equal(Math.round(bucket.stats.ratePerSecond), 1);
  });

  it('is back at its rate after recoverMs at the latest', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 100, queueMax: 45, clock, recoverMs: 10_000 });
    bucket.slow();
    await clock.advance(2500);
    assert.equal(bucket.stats.ratePerSecond, 75);
    await clock.advance(2500);
    assert.equal(bucket.stats.ratePerSecond, 100);
  });

  it('takes twice as long after each halving before that, up to twelve times', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 100, queueMax: 45, clock, recoverMs: 10_000 });
    bucket.slow();
    await clock.advance(1000);
    bucket.slow();
    assert.equal(bucket.stats.ratePerSecond, 30);
    await clock.advance(10_000);
    assert.equal(bucket.stats.ratePerSecond, 80);
    await clock.advance(4000);
    assert.equal(bucket.stats.ratePerSecond, 100);
    for (let i = 0; i < 20; i += 1) {
      bucket.slow();
      await clock.advance(1000);
    }
    await clock.advance(120_000);
    assert.equal(bucket.stats.ratePerSecond, 100);
  });

  it('forgets the halvings before it was whole again', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 100, queueMax: 1, clock, recoverMs: 10_000 });
    for (let round = 0; round < 3; round += 1) {
      bucket.slow();
      assert.equal(bucket.stats.ratePerSecond, 50);
      await clock.advance(5000);
      assert.equal(bucket.stats.ratePerSecond, 100);
    }
  });

  it('slows down by the share that was refused when that is small, and pauses nobody', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 100, queueMax: 45, clock });
    const taken = await greedy(bucket, clock, 999);
    bucket.slow({ retryAfterMs: 1000 });
    const { ratePerSecond, pausedMs, slowed } = bucket.stats;
    assert.deepEqual([ratePerSecond, pausedMs, slowed], [100 * (1 - 1 / taken), 0, 0]);
    await clock.advance(100);
    for (let i = 0; i < taken / 3; i += 1) bucket.slow({ retryAfterMs: 1000 });
    assert.deepEqual([bucket.stats.slowed, Math.round(bucket.stats.ratePerSecond)], [1, 50]);
    assert.ok(bucket.stats.pausedMs > 0);
    await clock.advance(5000);
    assert.equal(bucket.stats.ratePerSecond, 100);
  });

  it('pauses for a single 429 that asks for more than a round', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 100, queueMax: 45, clock });
    await greedy(bucket, clock, 1000);
    bucket.slow({ retryAfterMs: 60_000 });
    assert.equal(bucket.stats.pausedMs, 60_000);
  });

  for (const [name, jitterMs, seed] of [
    ['in time', 0, 1],
    ['up to 30 ms late', 30, 2],
    ['up to 40 ms late', 40, 3],
  ] as const) {
    it(`fetches 5,000 pages at 50 in any second within 105 s, arriving ${name}`, async () => {
      const clock = new VirtualClock();
      const random = seededRandom(seed);
      const bucket = new Bucket({ ratePerSecond: 49, burst: 1, queueMax: 100, clock });
      const retry = new Retry({ attemptsMax: 10, clock, random });
      const rest = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));
      let accepted: number[] = [];
      let refused = 0;
      const fetch = async () => {
        await rest(random() * jitterMs);
        accepted = accepted.filter((at) => at > clock.now() - 1000);
        const isRefused = accepted.length >= 50;
        if (!isRefused) accepted.push(clock.now());
        await rest(100);
        if (!isRefused) return;
        refused += 1;
        bucket.slow({ retryAfterMs: 1000 });
        throw Object.assign(new Error('too many'), { status: 429, retryAfterMs: 1000 });
      };
      let pages = 0;
      const callers = Array.from({ length: 60 }, async () => {
        for (; pages < 5_000; ) {
          pages += 1;
          await retry.run((signal) => bucket.run(fetch, { signal }));
        }
      });
      await clock.run(Promise.all(callers));
      assert.ok(clock.now() < 105_000, `${clock.now()} ms with ${refused} refused`);
    });
  }

  it('serves while it recovers just what has accrued', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 100, queueMax: 45, clock, recoverMs: 10_000 });
    bucket.slow();
    const taken = await greedy(bucket, clock, 10_000);
    // Five seconds from 50/s up to 100/s, and five more at 100/s.
    assert.ok(Math.abs(taken - 875) <= 1, `${taken}`);
  });
});
