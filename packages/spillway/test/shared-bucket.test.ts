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
}

interface Rush {
  readonly ratePerSecond: number;
  readonly processes: number;
  readonly seconds: number;
}

/** 45 callers in each process take as fast as they are let. */
async function rush({ ratePerSecond, processes, seconds }: Rush) {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  const random = seededRandom(1);
  const endMs = 1000 + seconds * 1000;
  const uses: number[] = [];
  const parties = Array.from({ length: processes }, () => {
    const line = new Counted(store, { clock, random, delayMsMax: 2 });
    const rule = { name: 'x', ratePerSecond, queueMax: 99 };
    const bucket = new SharedBucket({ store: line, clock, random, ...rule });
    const take = async () => {
      while (clock.now() < endMs) {
        await bucket.take();
        uses.push(clock.now());
      }
    };
    const done = Promise.allSettled(Array.from({ length: 45 }, take));
    return { line, bucket, done };
  });
  await clock.advance(endMs);
  const calls = parties.reduce((sum, { line }) => sum + line.calls, 0);
  const callsPerToken = calls / uses.length;
  const share = uses.filter((at) => at >= 1000 && at < endMs).length / (ratePerSecond * seconds);
  for (const { bucket } of parties) void bucket[Symbol.asyncDispose]();
  await clock.advance(5000);
  await Promise.all(parties.map(({ done }) => done));
  assert.equal(clock.pending, 0, 'no timer is left');
  return { uses: uses.sort((a, b) => a - b), callsPerToken, share };
}

describe('SharedBucket', () => {
  for (const { ratePerSecond, processes, seconds, callsMax } of [
    { ratePerSecond: 1_000, processes: 1, seconds: 5, callsMax: 0.05 },
    { ratePerSecond: 1_000, processes: 8, seconds: 5, callsMax: 0.1 },
    { ratePerSecond: 15, processes: 1, seconds: 60, callsMax: 0.27 },
    { ratePerSecond: 15, processes: 8, seconds: 60, callsMax: 0.35 },
  ]) {
    it(`gives ${processes} processes ${ratePerSecond} a second, few calls a token`, async () => {
      const { uses, callsPerToken, share } = await rush({ ratePerSecond, processes, seconds });
      const most = ratePerSecond + Math.ceil(ratePerSecond / 10);
      for (let at = most; at < uses.length; at += 1) {
        const ms = (uses[at] as number) - (uses[at - most] as number);
        assert.ok(ms >= 1000 - 1e-6, `${most + 1} in ${ms} ms at ${uses[at]}`);
      }
      assert.ok(share >= 0.99, `${share * 100} % of the rate`);
      assert.ok(callsPerToken <= callsMax, `${callsPerToken} calls a token`);
    });
  }

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
