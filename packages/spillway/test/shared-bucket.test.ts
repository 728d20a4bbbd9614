import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MemoryStore, SharedBucket, type Store, seededRandom } from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';
import { play, seeds } from './simulations/play.ts';

/** A store that counts what it is asked. */
class Counted extends FaultyStore implements Store {
  calls = 0;

  override read(...args: Parameters<Store['read']>): ReturnType<Store['read']> {
    this.calls += 1;
    return super.read(...args);
  }

  override commit(...args: Parameters<Store['commit']>): ReturnType<Store['commit']> {
    this.calls += 1;
    return super.commit(...args);
  }

  override apply(
    ...args: Parameters<NonNullable<Store['apply']>>
  ): ReturnType<NonNullable<Store['apply']>> {
    this.calls += 1;
    return super.apply(...args);
  }
}

interface Rush {
  readonly ratePerSecond: number;
  readonly processes: number;
  readonly seconds: number;
  readonly callers: number;
  /** The longest way of a message, in milliseconds. */
  readonly delayMsMax: number;
}

/** The callers of each process take as fast as they are let, all from the same moment on. */
async function rush({ ratePerSecond, processes, seconds, callers, delayMsMax }: Rush) {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  const random = seededRandom(1);
  const endMs = 1000 + seconds * 1000;
  const uses: number[] = [];
  let failed = 0;
  const parties = Array.from({ length: processes }, () => {
    const line = new Counted(store, { clock, random, delayMsMax });
    const rule = { name: 'x', ratePerSecond, queueMax: 99 };
    const bucket = new SharedBucket({ store: line, clock, random, ...rule });
    const take = async () => {
      while (clock.now() < endMs) {
        await bucket.take();
        uses.push(clock.now());
      }
    };
    const taking = () =>
      take().catch((error) => {
        if (error.code !== 'BUCKET_CLOSED') failed += 1;
      });
    return { line, bucket, done: Promise.all(Array.from({ length: callers }, taking)) };
  });
  await clock.advance(endMs);
  const calls = parties.reduce((sum, { line }) => sum + line.calls, 0);
  const callsPerToken = calls / uses.length;
  const share = uses.filter((at) => at >= 1000 && at < endMs).length / (ratePerSecond * seconds);
  const taken = parties.map(({ bucket }) => bucket.stats.taken);
  for (const { bucket } of parties) void bucket[Symbol.asyncDispose]();
  await clock.advance(5000);
  await Promise.all(parties.map(({ done }) => done));
  assert.equal(clock.pending, 0, 'no timer is left');
  checkMost(uses, ratePerSecond);
  assert.ok(share >= 0.99, `${share * 100} % of the rate`);
  assert.equal(failed, 0);
  return { callsPerToken, taken };
}

/** Refuses more than a tenth above the rate in any second. */
function checkMost(uses: readonly number[], ratePerSecond: number): void {
  const sorted = uses.toSorted((a, b) => a - b);
  const most = ratePerSecond + Math.ceil(ratePerSecond / 10);
  for (let at = most; at < sorted.length; at += 1) {
    const ms = (sorted[at] as number) - (sorted[at - most] as number);
    assert.ok(ms >= 1000 - 1e-6, `${most + 1} in ${ms} ms at ${sorted[at]}`);
  }
}

describe('SharedBucket', () => {
  for (const { ratePerSecond, processes, callers = 45, seconds, callsMax } of [
    { ratePerSecond: 1_000, processes: 1, seconds: 5, callsMax: 0.05 },
    { ratePerSecond: 1_000, processes: 4, callers: 16, seconds: 5, callsMax: 0.06 },
    { ratePerSecond: 1_000, processes: 8, seconds: 5, callsMax: 0.1 },
    { ratePerSecond: 15, processes: 1, seconds: 60, callsMax: 0.27 },
    { ratePerSecond: 15, processes: 8, seconds: 60, callsMax: 0.35 },
  ]) {
    it(`gives ${processes} processes ${ratePerSecond} a second, few calls a token`, async () => {
      const rate = { ratePerSecond, processes, seconds };
      const { callsPerToken } = await rush({ ...rate, callers, delayMsMax: 2 });
      assert.ok(callsPerToken <= callsMax, `${callsPerToken} calls a token`);
    });
  }

  for (const processes of [16, 64, 256]) {
    it(`gives ${processes} machines, 20 ms away, equal shares of the whole rate`, async () => {
      const rate = { ratePerSecond: 2_000, processes, seconds: 2 };
      const { callsPerToken, taken } = await rush({ ...rate, callers: 4, delayMsMax: 20 });
      assert.ok(callsPerToken <= 0.5, `${callsPerToken} calls a token`);
      const least = Math.min(...taken);
      const most = Math.max(...taken);
      assert.ok(most <= 3 * least, `${least} to ${most} tokens`);
    });
  }

  it('gives out each of a million a second at its time', async () => {
    // Store time is milliseconds since 1970, where a microsecond is four steps of a number.
    const clock = new VirtualClock();
    const origin = 1_795_000_000_000;
    const far = { now: () => clock.now() + origin, after: clock.after.bind(clock) };
    const store = new MemoryStore({ clock: far });
    const rule = { name: 'x', ratePerSecond: 1_000_000, burst: 20_000, queueMax: 9 };
    const bucket = new SharedBucket({ store, clock, ...rule });
    let taken = 0;
    for (let ms = 0; ms < 200; ms += 1) {
      await clock.advance(1);
      while (bucket.tryTake()) taken += 1;
      await clock.advance(0);
      while (bucket.tryTake()) taken += 1;
    }
    const allowed = 200_000 + rule.burst;
    assert.ok(taken <= allowed && taken > 0.99 * 200_000, `${taken} of ${allowed}`);
    await bucket.close();
    const wrong = { ...rule, store, ratePerSecond: 1_000_001 };
    assert.throws(() => new SharedBucket(wrong), /ratePerSecond: must be .* up to 1000000/);
  });

  it('slows 256 machines by the 429s of a few', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const random = seededRandom(1);
    let uses = 0;
    const buckets = Array.from({ length: 256 }, () => {
      const line = new FaultyStore(store, { clock, random, delayMsMax: 20 });
      const rule = { name: 'x', ratePerSecond: 500, queueMax: 9, recoverMs: 600_000 };
      return new SharedBucket({ store: line, clock, random, ...rule });
    });
    const take = async (bucket: SharedBucket) => {
      for (;;) {
        await bucket.take();
        uses += 1;
      }
    };
    const taking = Promise.allSettled(buckets.map(take));
    await clock.advance(1_500);
    for (const bucket of buckets.slice(0, 8)) bucket.slow({ retryAfterMs: 1_500 });
    await clock.advance(2_000);
    uses = 0;
    await clock.advance(2_000);
    assert.ok(uses > 450 && uses < 550, `${uses} in 2 s`);
    for (const bucket of buckets) void bucket.close();
    await clock.advance(5_000);
    await taking;
  });

  it('gives out a whole burst at once', async () => {
    const clock = new VirtualClock();
    const store = new FaultyStore(new MemoryStore({ clock }), { clock, delayMsMax: 2 });
    const rule = { name: 'x', ratePerSecond: 100.5, burst: 30, queueMax: 9 };
    const bucket = new SharedBucket({ store, clock, ...rule });
    for (let round = 1; round <= 5; round += 1) {
      await clock.run(bucket.take(30));
      // What it does not know of the store's time may cost it some tokens each time.
      assert.ok(clock.now() <= round * 360, `${clock.now()} for ${round}`);
    }
    assert.ok(clock.now() >= 4 * 290, `${clock.now()}`);
  });

  it('never exceeds rate + burst in any second, whatever happens, for many seeds', async () => {
    const { tokens, pauses, full } = await play('bucket');
    assert.ok(Number(tokens) > 100 * seeds, `${tokens} tokens`);
    assert.ok(Number(pauses) > seeds / 20 && Number(full) > seeds, `${pauses}, ${full}`);
  });
});
