import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seededRandom, Throttle, type ThrottleOptions } from 'spillway';
import { VirtualClock } from 'spillway/testing';

const busy = () => Promise.reject(Object.assign(new Error('busy'), { status: 503 }));
const well = async () => {};

async function send(throttle: Throttle, task: () => Promise<void>, times: number): Promise<number> {
  let refused = 0;
  for (let i = 0; i < times; i += 1) {
    await throttle.run(task).catch((error) => {
      if (error.code === 'THROTTLED') refused += 1;
    });
  }
  return refused;
}

describe('Throttle', () => {
  it('drops by the ratio of requests to accepted ones', async () => {
    const clock = new VirtualClock();
    const throttle = new Throttle({ requestsMin: 0, dropMax: 1, clock, random: () => 0.6 });
    await send(throttle, well, 10);
    assert.equal(await send(throttle, busy, 10), 0);
    assert.deepEqual(throttle.stats, { requests: 20, accepted: 10, dropShare: 0, dropped: 0 });
    await send(throttle, busy, 9);
    assert.equal(throttle.stats.dropShare, 9 / 30);
    // Dropped at the first request whose (requests - 2 * 10) / (requests + 1) is above 0.6.
    assert.equal(await send(throttle, busy, 30), 7);
    await assert.rejects(throttle.run(well), { code: 'THROTTLED', status: 503, retryable: true });
  });

  it('counts requests that hang, from before they are sent', async () => {
    const clock = new VirtualClock();
    const throttle = new Throttle({ requestsMin: 0, clock, random: () => 0.999 });
    const hang = Promise.withResolvers<void>();
    const calls = [throttle.run(() => hang.promise), throttle.run(() => hang.promise)];
    assert.equal(throttle.stats.requests, 2);
    assert.equal(throttle.stats.dropShare, 2 / 3);
    hang.resolve();
    await Promise.all(calls);
    assert.equal(throttle.stats.dropShare, 0);
  });

  it('drops nothing before it has seen enough', async () => {
    const throttle = new Throttle({ clock: new VirtualClock(), random: () => 0 });
    assert.equal(await send(throttle, busy, 100), 0);
    assert.equal(await send(throttle, busy, 1), 1);
  });

  it('keeps a trickle flowing, and comes back when the dependency does', async () => {
    const clock = new VirtualClock();
    const throttle = new Throttle({ windowMs: 10_000, clock, random: seededRandom(3) });
    await send(throttle, busy, 1000);
    assert.equal(throttle.stats.dropShare, 0.9);
    for (let second = 0; second < 30; second += 1) {
      await send(throttle, well, 100);
      await clock.advance(1000);
    }
    assert.equal(await send(throttle, well, 100), 0);
    assert.equal(clock.pending, 0);
  });

  it('forgets what is older than its window', async () => {
    const clock = new VirtualClock();
    const throttle = new Throttle({ windowMs: 10_000, clock, random: () => 0.999 });
    await clock.advance(500);
    await send(throttle, busy, 5);
    await clock.advance(8400);
    await send(throttle, well, 3);
    assert.deepEqual([throttle.stats.requests, throttle.stats.accepted], [8, 3]);
    await clock.advance(1500);
    assert.deepEqual([throttle.stats.requests, throttle.stats.accepted], [3, 3]);
    await clock.advance(1e9);
    assert.deepEqual([throttle.stats.requests, throttle.stats.accepted], [0, 0]);
  });

  it('takes every answer for accepted that is not a refusal', async () => {
    const accepted = async (fields: object, options: ThrottleOptions = {}) => {
      const throttle = new Throttle({ clock: new VirtualClock(), ...options });
      const task = () => Promise.reject(Object.assign(new Error('no'), fields));
      await assert.rejects(throttle.run(task), /no/);
      return throttle.stats.accepted === 1;
    };
    for (const status of [400, 404, 500, 502]) assert.equal(await accepted({ status }), true);
    for (const status of [429, 503, 504]) assert.equal(await accepted({ status }), false);
    assert.equal(await accepted({ code: 'ECONNRESET' }), false);
    assert.equal(await accepted({ name: 'AbortError' }), true);
    assert.equal(await accepted({ status: 500 }, { isAccepted: () => false }), false);
  });

  it('sends nothing for a caller that has left', async () => {
    const throttle = new Throttle({ clock: new VirtualClock() });
    await assert.rejects(throttle.run(well, AbortSignal.abort()), { name: 'AbortError' });
    assert.equal(throttle.stats.requests, 0);
  });

  it('names the option that is wrong, and its rule', () => {
    const wrong = (options: ThrottleOptions, message: RegExp) =>
      assert.throws(() => new Throttle(options), message);
    wrong({ ratio: 0.5 }, /ratio: must be a finite number from 1, got 0.5/);
    wrong({ windowMs: 0 }, /windowMs: must be a number from 1 /);
    wrong({ requestsMin: -1 }, /requestsMin: must be an integer from 0, got -1/);
    wrong({ dropMax: 1.5 }, /dropMax: must be a number from 0 to 1, got 1.5/);
  });
});
