// Processes lose the store, together or alone, and give out their own shares until it is back.
// Prints what was played; a failure names its seed.
import assert from 'node:assert/strict';
import { MemoryStore, SharedBucket } from 'spillway';
import { explore, FaultyStore, SimulatedProcess, VirtualClock } from 'spillway/testing';

const seeds = Number(process.argv[2]);
const storeMsMax = 100;
const endMs = 5400;
const played = { shared: 0, own: 0 };

interface Use {
  readonly at: number;
  readonly by: number;
  readonly isOwn: boolean;
}

/** No stretch of a second holds more than `most`. */
function checkMost(uses: readonly Use[], most: number, what: string): void {
  const sorted = uses.map(({ at }) => at).sort((a, b) => a - b);
  for (let at = most; at < sorted.length; at += 1) {
    const ms = (sorted[at] as number) - (sorted[at - most] as number);
    assert.ok(ms >= 1000 - 1e-6, `${what}: ${most + 1} tokens in ${ms} ms at ${sorted[at]}`);
  }
}

await explore(seeds, async (random) => {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  const ratePerSecond = Math.floor(10 + random() * 30);
  const burst = Math.ceil(ratePerSecond / 10);
  const count = 2 + Math.floor(random() * 3);
  const localShare = 1 / count;
  const uses: Use[] = [];
  const failures: unknown[] = [];
  // All are cut off by then, and all have the store again after it.
  const outage = { from: 500 + random() * 200, to: 2800 + random() * 200 };
  const buckets = Array.from({ length: count }, (_, by) => {
    const process = new SimulatedProcess(clock);
    const line = new FaultyStore(store, { clock, process, random, delayMsMax: 5 * random() });
    const rule = { name: 'x', ratePerSecond, burst, queueMax: 9, localShare, storeMsMax };
    const bucket = new SharedBucket({ store: line, clock: process, random, ...rule });
    clock.after(outage.from - random() * 400, () => {
      line.down = true;
    });
    clock.after(outage.to - random() * 400, () => {
      line.down = false;
    });
    const live = async () => {
      while (clock.now() < endMs) {
        await bucket.take();
        uses.push({ at: clock.now(), by, isOwn: !bucket.stats.reachable });
      }
    };
    for (let i = 0; i < 3; i += 1) live().catch((error) => failures.push(error));
    return bucket;
  });
  await clock.advance(endMs);
  const whole = Math.floor(ratePerSecond) + burst;
  const share = Math.floor(ratePerSecond * localShare) + Math.ceil(burst * localShare + 1);
  for (let by = 0; by < count; by += 1) {
    const own = uses.filter((use) => use.by === by && use.isOwn);
    checkMost(own, share, 'one on its own');
    assert.ok(own.length >= 0.8 * ratePerSecond * localShare, `${own.length} on its own`);
    played.own += own.length;
  }
  checkMost(uses, whole + count * share, 'while it changes over');
  // A process asks for the store with every batch of its own, so within a second.
  const lastOwn = Math.max(...uses.filter(({ isOwn }) => isOwn).map(({ at }) => at));
  assert.ok(lastOwn <= outage.to + 2 * storeMsMax + 1000, `on its own until ${lastOwn}`);
  const after = uses.filter(({ at }) => at > lastOwn);
  checkMost(after, whole, 'with the store again');
  const steady = after.filter(({ at }) => at >= endMs - 1000).length;
  assert.ok(steady >= 0.9 * ratePerSecond, `${steady} of ${ratePerSecond} with the store again`);
  played.shared += uses.length;
  assert.deepEqual(failures, []);
  for (const bucket of buckets) bucket[Symbol.asyncDispose]().catch(() => {});
  await clock.advance(5000);
  assert.equal(clock.pending, 0, 'no timer is left');
});
console.log(JSON.stringify(played));
