import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Breaker, Bucket, consecutiveFailures, Keyed, Lane, outbound } from 'spillway';
import { VirtualClock } from 'spillway/testing';

describe('Keyed', () => {
  it('has one part for each key, with one root lane above them', async () => {
    const root = new Lane({ name: 'hosts', limit: { fixed: 3 }, queueMax: 0, deadlineMs: 1_000 });
    const lanes = new Keyed({
      make: (name) =>
        new Lane({ name, limit: { fixed: 2 }, queueMax: 0, deadlineMs: 1_000, parent: root }),
    });
    assert.equal(lanes.for('a'), lanes.for('a'));
    using _one = lanes.for('a').tryEnter();
    using _two = lanes.for('a').tryEnter();
    assert.equal(lanes.for('a').tryEnter(), undefined, 'the key has its own limit');
    using _three = lanes.for('b').tryEnter();
    assert.equal(lanes.for('c').tryEnter(), undefined, 'all keys share the root');
  });

  it('forgets and closes the one unused for longest, once it is idle', async () => {
    const clock = new VirtualClock();
    const make = (name: string) =>
      new Lane({ name, limit: 1, queueMax: 0, deadlineMs: 600_000, clock });
    const lanes = new Keyed({ make, keysMax: 2, idleMs: 1_000, clock });
    const first = lanes.for('first');
    const busy = lanes.for('busy');
    using _inside = busy.tryEnter();
    const full = { code: 'KEYS_FULL', status: 503, message: /in use or were used within 1000 ms/ };
    assert.throws(() => lanes.for('third'), full);
    await clock.advance(1_000);
    lanes.for('third');
    assert.equal(first.ready, false, 'it is closed');
    await clock.advance(1_000);
    lanes.for('fourth');
    assert.equal(lanes.for('busy'), busy, 'a lane with somebody inside is kept');
    assert.deepEqual(lanes.stats, { kind: 'keyed', keys: 2, refused: 1 });
  });

  it('keeps an open breaker, and works with buckets', async () => {
    const clock = new VirtualClock();
    const rule = consecutiveFailures(1);
    const breakers = new Keyed({
      make: () => new Breaker({ rule, clock }),
      keysMax: 1,
      idleMs: 0,
      clock,
    });
    const failed = breakers.for('down').run(async () => {
      throw new Error('down');
    });
    await assert.rejects(failed);
    assert.throws(() => breakers.for('other'), { code: 'KEYS_FULL' });
    const buckets = new Keyed({ make: () => new Bucket({ ratePerSecond: 1, queueMax: 0, clock }) });
    assert.deepEqual([buckets.for('a').tryTake(), buckets.for('a').tryTake()], [true, false]);
    assert.equal(buckets.for('b').tryTake(), true);
  });

  it('keeps an outbound whose breaker is open, or that somebody waits for', async () => {
    const clock = new VirtualClock();
    const make = () => {
      const breaker = new Breaker({ rule: consecutiveFailures(1), clock });
      const rate = { ratePerSecond: 1, burst: 1, queueMax: 9, clock };
      return outbound({ breaker, rate, retry: false, clock });
    };
    const hosts = new Keyed({ make, keysMax: 1, idleMs: 0, clock });
    const host = hosts.for('slow');
    await host.run(async () => {});
    const waiting = host.run(() => Promise.reject(new Error('down')));
    await clock.advance(0);
    assert.throws(() => hosts.for('other'), { code: 'KEYS_FULL' }, 'a call waits for a token');
    await assert.rejects(clock.run(waiting), /down/);
    assert.throws(() => hosts.for('other'), { code: 'KEYS_FULL' }, 'its breaker is open');
  });
});
