// Many processes take from one bucket while they crash, pause, close, slow each other down and lose
// answers. Prints what was played; a failure names its seed.
import assert from 'node:assert/strict';
import {
  MemoryStore,
  type Random,
  SharedBucket,
  type StoreChange,
  type StoreCommit,
} from 'spillway';
import { explore, FaultyStore, VirtualClock } from 'spillway/testing';
import { SimulatedProcess } from '../fixtures/simulated-process.ts';

const seeds = Number(process.argv[2]);
const endMs = 2500;
const played = { tokens: 0, pauses: 0, full: 0 };

/** Knows between which moments nobody may use a token: each process has a second to hear of it. */
class WatchedStore extends MemoryStore {
  readonly silences: { readonly from: number; readonly to: number }[] = [];
  #round = 0;

  override async commit(changes: readonly StoreChange[]): Promise<StoreCommit | undefined> {
    const commit = await super.commit(changes);
    const state = changes[0]?.value as { round: number; pausedUntil: number };
    if (commit && state.round > this.#round) {
      this.#round = state.round;
      this.silences.push({ from: commit.now + 1000, to: state.pausedUntil });
    }
    return commit;
  }
}

interface World {
  readonly clock: VirtualClock;
  readonly random: Random;
  readonly uses: number[];
  readonly failures: unknown[];
  readonly burst: number;
}

interface Party {
  readonly bucket: SharedBucket;
  readonly process: SimulatedProcess;
  crashed: boolean;
}

async function live(world: World, { bucket }: Party, nMax: number): Promise<void> {
  const { clock, random, uses } = world;
  while (clock.now() < endMs) {
    const n = 1 + Math.floor(random() * nMax);
    const failed = await bucket.take(n).catch((error) => error);
    if (failed?.code === 'BUCKET_CLOSED') return;
    if (failed && failed.code !== 'STORE_UNREACHABLE') throw failed;
    if (!failed) for (let i = 0; i < n; i += 1) uses.push(clock.now());
    if (!failed && n === world.burst) played.full += 1;
  }
}

function disturb({ clock, random }: World, party: Party): void {
  const { process, bucket } = party;
  clock.after(random() * endMs, () => {
    const kind = random();
    if (kind < 0.2) {
      party.crashed = true;
      process.crash();
    } else if (kind < 0.4) {
      process.pause();
      clock.after(random() * 1500, () => process.resume());
    } else if (kind < 0.6) {
      bucket.slow({ retryAfterMs: random() < 0.5 ? 0 : random() * 2000 });
    } else if (kind < 0.7) {
      void bucket[Symbol.asyncDispose]();
    }
  });
}

function checkUses(world: World, ratePerSecond: number, silences: WatchedStore['silences']): void {
  const most = Math.floor(ratePerSecond) + world.burst;
  const sorted = world.uses.toSorted((a, b) => a - b);
  for (let at = most; at < sorted.length; at += 1) {
    const ms = (sorted[at] as number) - (sorted[at - most] as number);
    assert.ok(ms >= 1000 - 1e-6, `${most + 1} tokens in ${ms} ms at ${sorted[at]}`);
  }
  for (const { from, to } of silences) {
    if (from < to) played.pauses += 1;
    const loud = sorted.find((at) => at >= from && at < to);
    assert.equal(loud, undefined, `used although paused from ${from} to ${to}`);
  }
}

await explore(seeds, async (random) => {
  const clock = new VirtualClock();
  const store = new WatchedStore({ clock });
  // Half of the stores make no decisions themselves.
  if (random() < 0.5) Object.assign(store, { apply: undefined });
  const ratePerSecond = 5 + random() * 100;
  const burst = Math.ceil(ratePerSecond / 20) + Math.floor(random() * 20);
  const world: World = { clock, random, uses: [], failures: [], burst };
  const parties = Array.from({ length: 2 + Math.floor(random() * 3) }, (): Party => {
    const process = new SimulatedProcess(clock);
    const faults = { delayMsMax: 8 * random() ** 2, faultShare: 0.1 * random() ** 2 };
    const line = new FaultyStore(store, { clock, process, random, ...faults });
    const rule = { name: 'x', ratePerSecond, burst, queueMax: 9, recoverMs: 5000 };
    const bucket = new SharedBucket({ store: line, clock: process, random, ...rule });
    return { process, bucket, crashed: false };
  });
  const nMax = random() < 0.5 ? 1 : burst;
  for (const party of parties) {
    disturb(world, party);
    for (let i = 0; i < 3; i += 1) {
      live(world, party, nMax).catch((error) => world.failures.push(error));
    }
  }
  await clock.advance(endMs);
  checkUses(world, ratePerSecond, store.silences);
  // Whatever happened, those who live get on, and leave nothing behind when they are closed.
  const living = parties.filter(({ crashed }) => !crashed);
  await clock.advance(60_000);
  for (const { bucket } of living) assert.equal(bucket.stats.waiting, 0, 'nobody is forgotten');
  for (const { bucket } of living) await clock.run(bucket[Symbol.asyncDispose]());
  await clock.advance(2000);
  assert.deepEqual(world.failures, []);
  assert.equal(clock.pending, 0, 'no timer is left');
  played.tokens += world.uses.length;
});
console.log(JSON.stringify(played));
