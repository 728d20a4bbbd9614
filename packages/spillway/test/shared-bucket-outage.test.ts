import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Breaker, MemoryStore, SharedBucket, type SharedBucketOptions } from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';

function world(options: Partial<SharedBucketOptions> = {}) {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  const line = new FaultyStore(store, { clock });
  const rule = { name: 'x', ratePerSecond: 100, queueMax: 50, clock };
  const bucket = new SharedBucket({ store: line, ...rule, ...options });
  return {
    clock,
    line,
    bucket,
    other: new SharedBucket({ store, ...rule, ...options }),
  };
}

describe('SharedBucket, when things go wrong', () => {
  it('gives out nothing while the store is away, and says so', async () => {
    const { clock, line, bucket } = world();
    line.down = true;
    const failing = [1, 2].map(() =>
      assert.rejects(bucket.take(), { code: 'STORE_UNREACHABLE', status: 503, retryable: true }),
    );
    await clock.run(Promise.all(failing));
    assert.ok(clock.now() <= 1000, `${clock.now()}`);
    assert.equal(bucket.stats.reachable, false);
    line.down = false;
    await clock.run(bucket.take());
    assert.deepEqual([bucket.stats.taken, bucket.stats.reachable], [1, true]);
    assert.equal(clock.pending, 0);
  });

  it('goes by a clock that shows any time, also one below zero', async () => {
    const { clock, line } = world();
    const behind = { now: () => clock.now() - 3_600_000, after: clock.after.bind(clock) };
    const rule = { name: 'y', ratePerSecond: 100, queueMax: 50 };
    await using bucket = new SharedBucket({ store: line, clock: behind, ...rule });
    await clock.run(bucket.take());
    assert.deepEqual([bucket.stats.taken, bucket.stats.pausedMs], [1, 0]);
    assert.ok(clock.now() < 1_000, `${clock.now()} ms`);
  });

  it('opens no breaker of the one who would have been called', async () => {
    const { clock, line, bucket } = world();
    const breaker = new Breaker({ clock });
    line.down = true;
    const call = () => breaker.run((signal) => bucket.take(1, { signal }));
    for (let calls = 0; calls < 10; calls += 1) {
      await clock.run(assert.rejects(call(), { code: 'STORE_UNREACHABLE' }));
    }
    assert.equal(breaker.stats.state, 'closed');
    line.down = false;
    await clock.run(call());
  });

  it('pauses and slows down all who share it', async () => {
    const { clock, bucket, other } = world();
    await clock.run(Promise.all([bucket.take(), other.take()]));
    bucket.slow({ retryAfterMs: 1000 });
    await clock.advance(200);
    await clock.run(other.take());
    assert.ok(clock.now() >= 1000, `${clock.now()}`);
    assert.deepEqual([bucket.stats.slowed, Math.round(other.stats.ratePerSecond)], [1, 50]);
  });

  it('stops all within a second, though they hold tokens for longer', async () => {
    const { clock, bucket, other } = world({ burst: 300 });
    await clock.run(other.take(300));
    for (let i = 0; i < 60; i += 1) {
      await clock.run(other.take());
      await clock.advance(5);
    }
    assert.ok(other.stats.tokens > 1, `${other.stats.tokens} in hand`);
    bucket.slow({ retryAfterMs: 5000 });
    await clock.advance(1000);
    let isServed = false;
    const served = other.take().then(() => {
      isServed = true;
    });
    await clock.advance(3500);
    assert.equal(isServed, false);
    await clock.run(served);
  });

  it('lets a caller leave, refuses one too many, and all when it is closed', async () => {
    const { clock, bucket } = world({ queueMax: 2, ratePerSecond: 1, burst: 1 });
    assert.equal(bucket.tryTake(), false);
    await clock.advance(1);
    assert.equal(bucket.tryTake(), true);
    const gone = new AbortController();
    const leaver = assert.rejects(bucket.take(1, { signal: gone.signal }), /enough/);
    const waiter = assert.rejects(bucket.take(), { code: 'BUCKET_CLOSED' });
    await assert.rejects(bucket.take(), { code: 'BUCKET_FULL', status: 429 });
    gone.abort(new Error('enough'));
    await leaver;
    assert.equal(bucket.stats.waiting, 1);
    await clock.run(bucket[Symbol.asyncDispose]());
    await waiter;
    await assert.rejects(bucket.take(), { code: 'BUCKET_CLOSED' });
    await clock.advance(1000);
    assert.equal(clock.pending, 0);
  });

  it('tells by its stats what it has reserved, and for how long all pause', async () => {
    const { clock, bucket } = world({ burst: 30 });
    assert.deepEqual([bucket.name, bucket.ready], ['x', true]);
    await clock.run(bucket.take());
    assert.deepEqual([bucket.stats.trips, bucket.stats.borrowed], [1, 1]);
    await clock.run(Promise.all(Array.from({ length: 20 }, () => bucket.take())));
    const { borrowed, taken, tokens } = bucket.stats;
    assert.deepEqual([taken, borrowed], [21, 21 + tokens]);
    bucket.slow({ retryAfterMs: 600 });
    await clock.advance(0);
    assert.deepEqual([bucket.stats.slowed, bucket.stats.pausedMs], [0, 0], 'a stray 429');
    assert.ok(tokens > 0 && bucket.stats.tokens === tokens, `${tokens} tokens`);
    for (let i = 0; i < 9; i += 1) bucket.slow({ retryAfterMs: 600 });
    await clock.advance(0);
    assert.deepEqual([bucket.stats.slowed, bucket.stats.pausedMs], [1, 600]);
    assert.throws(() => bucket.slow({ retryAfterMs: -1 }), /retryAfterMs: must be a number from 0/);
    await clock.run(bucket.close());
    assert.equal(bucket.ready, false);
  });

  it('asks for more at once where the store is far away', async () => {
    const { clock } = world();
    const network = { clock, delayMsMax: 20, random: () => 1 };
    const store = new FaultyStore(new MemoryStore({ clock }), network);
    const bucket = new SharedBucket({
      store,
      name: 'far',
      ratePerSecond: 1_000,
      queueMax: 50,
      clock,
    });
    const startedAt = clock.now();
    for (let i = 0; i < 500; i += 1) await clock.run(bucket.take());
    // With as little as a store nearby is asked for, there are 129 visits in 5 seconds.
    assert.ok(bucket.stats.trips <= 20, `${bucket.stats.trips} visits`);
    assert.ok(clock.now() - startedAt < 1_000, `${clock.now() - startedAt} ms`);
  });

  it('names the option that is wrong, and its rule', () => {
    assert.throws(() => world({ burst: 1 }), /burst: must be an integer from 2/);
    assert.throws(() => world().bucket.tryTake(11), /n: must be an integer from 1 to 10/);
  });
});
