import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Bucket } from 'spillway';
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
    assert.ok(clock.now() > 3190 && clock.now() < 3200, `${clock.now()}`);
  });

  it('makes those who wait already wait longer', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 10, queueMax: 1, clock });
    await bucket.take();
    const next = bucket.take();
    bucket.slow({ retryAfterMs: 500 });
    assert.equal(clock.pending, 1);
    await clock.run(next);
    assert.ok(clock.now() > 690 && clock.now() < 700, `${clock.now()}`);
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
    for (let i = 0; i < 20; i += 1) {
      bucket.slow();
      await clock.advance(1000);
    }
    await clock.advance(9000);
    assert.equal(bucket.stats.ratePerSecond, 100);
  });

  it('serves while it recovers just what has accrued', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 100, queueMax: 45, clock, recoverMs: 10_000 });
    bucket.slow();
    const taken = await greedy(bucket, clock, 10_000);
    // Five seconds from 50/s up to 100/s, and five more at 100/s.
    assert.ok(Math.abs(taken - 875) <= 1, `${taken}`);
  });
});
