import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  MemoryStore,
  type Random,
  SharedBucket,
  type SharedBucketOptions,
  seededRandom,
} from 'spillway';
import { explore, FaultyStore, SimulatedProcess, VirtualClock } from 'spillway/testing';

const seeds = Number(process.env.SPILLWAY_SEEDS ?? 60);

interface Traffic {
  readonly clock: VirtualClock;
  readonly bucket: SharedBucket;
  readonly process: SimulatedProcess;
  readonly uses: number[];
  readonly random: Random;
}

/** Takes as fast as it is let, sometimes several at once. */
async function takeUntil(endMs: number, traffic: Traffic, nMax: number): Promise<void> {
  const { clock, bucket, uses, random } = traffic;
  while (clock.now() < endMs) {
    const n = 1 + Math.floor(random() * nMax);
    const failed = await bucket.take(n).catch((error) => {
      if (!['STORE_UNREACHABLE', 'BUCKET_CLOSED'].includes(error.code)) throw error;
      return error;
    });
    if (failed?.code === 'BUCKET_CLOSED') return;
    if (!failed) for (let i = 0; i < n; i += 1) uses.push(clock.now());
  }
}

function checkRate(uses: readonly number[], ratePerSecond: number, burst: number): void {
  const most = Math.floor(ratePerSecond) + burst;
  const sorted = uses.toSorted((a, b) => a - b);
  for (let at = most; at < sorted.length; at += 1) {
    const ms = (sorted[at] as number) - (sorted[at - most] as number);
    assert.ok(ms >= 1000 - 1e-6, `${most + 1} in ${ms} ms at ${sorted[at]}`);
  }
}

describe('SharedBucket', () => {
  it('gives many processes together the whole rate, in far fewer visits than tokens', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const ratePerSecond = 500;
    const uses: number[] = [];
    let trips = 0;
    const random = seededRandom(1);
    const buckets = Array.from({ length: 8 }, () => {
      const line = new FaultyStore(store, { clock, random, delayMsMax: 2 });
      return new SharedBucket({
        store: line,
        clock,
        random,
        name: 'x',
        ratePerSecond,
        queueMax: 99,
      });
    });
    const endMs = 10_000;
    const process = new SimulatedProcess(clock);
    const taking = buckets.flatMap((bucket) =>
      Array.from({ length: 10 }, () =>
        takeUntil(endMs, { clock, bucket, process, uses, random }, 1),
      ),
    );
    await clock.advance(endMs);
    const count = uses.filter((at) => at >= 1000 && at < endMs).length;
    for (const bucket of buckets) {
      trips += bucket.stats.trips;
      await bucket[Symbol.asyncDispose]();
    }
    await clock.run(Promise.all(taking));
    checkRate(uses, ratePerSecond, 50);
    assert.ok(count >= 0.99 * ratePerSecond * 9, `${count} of ${ratePerSecond * 9}`);
    assert.ok(trips < uses.length / 3, `${trips} visits for ${uses.length} tokens`);
    await clock.advance(5000);
    assert.equal(clock.pending, 0);
  });

  it('never exceeds rate + burst in any second, whatever happens', async () => {
    await explore(seeds, async (random) => {
      const clock = new VirtualClock();
      const store = new MemoryStore({ clock });
      const ratePerSecond = 5 + random() * 200;
      const burst = Math.max(1, Math.ceil(ratePerSecond / 50)) + Math.floor(random() * 20);
      const uses: number[] = [];
      const all = Array.from({ length: 4 }, () => {
        const process = new SimulatedProcess(clock);
        const faults = { delayMsMax: 8 * random() ** 2, faultShare: 0.1 * random() };
        const line = new FaultyStore(store, { clock, process, random, ...faults });
        const rule = { name: 'x', ratePerSecond, burst, queueMax: 9 };
        const options: SharedBucketOptions = { store: line, clock: process, random, ...rule };
        const bucket = new SharedBucket(options);
        const stop = clock.after(random() * 4000, () => {
          const kind = random();
          if (kind < 0.3) process.crash();
          else if (kind < 0.6) process.pause();
          else if (kind < 0.8) bucket.slow({ retryAfterMs: random() * 100 });
          clock.after(random() * 500, () => process.resume());
        });
        return { clock, process, bucket, uses, random, stop };
      });
      const nMax = random() < 0.5 ? 1 : Math.ceil(burst / 2);
      for (const traffic of all) {
        for (let i = 0; i < 3; i += 1) takeUntil(1500, traffic, nMax).catch(assert.fail);
      }
      await clock.advance(1500);
      for (const { bucket, stop } of all) {
        stop[Symbol.dispose]();
        await bucket[Symbol.asyncDispose]();
      }
      await clock.advance(5000);
      assert.equal(clock.pending, 0);
      checkRate(uses, ratePerSecond, burst);
    });
  });
});
