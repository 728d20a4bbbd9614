// Processes fight over one lease while they crash, pause, are cut off and lose answers. Prints what
// was played; a failure names its seed.
import assert from 'node:assert/strict';
import {
  deadline,
  Lease,
  MemoryStore,
  type Random,
  type StoreChange,
  type StoreCommit,
} from 'spillway';
import { explore, FaultyStore, VirtualClock } from 'spillway/testing';
import { SimulatedProcess } from '../fixtures/simulated-process.ts';

/** Tells of each commit at the moment it is made. */
class WatchedStore extends MemoryStore {
  onCommit: (changes: readonly StoreChange[], commit: StoreCommit) => void = () => {};

  override async commit(changes: readonly StoreChange[]): Promise<StoreCommit | undefined> {
    const commit = await super.commit(changes);
    if (commit !== undefined) this.onCommit(changes, commit);
    return commit;
  }
}

interface Party {
  readonly clock: SimulatedProcess;
  readonly store: FaultyStore;
  lease: Lease | undefined;
  /** While it is paused nothing can be asked of its signal; its writes must fail all the same. */
  paused: boolean;
  crashed: boolean;
  turns: number;
}

const endMs = 800;
const seeds = Number(process.argv[2]);
const played = { writes: 0, turns: 0 };

async function live(clock: VirtualClock, party: Party, random: Random): Promise<void> {
  const { store } = party;
  while (clock.now() < endMs) {
    const pollMs = 3 + random() * 9;
    const lease = await Lease.acquire({
      store,
      clock: party.clock,
      random,
      name: 'x',
      ttlMs: 60,
      pollMs,
      deadlineMs: 200,
    }).catch((error) => void assert.equal(error.code, 'STORE_UNREACHABLE'));
    if (!lease) continue;
    party.lease = lease;
    party.turns += 1;
    for (let rest = random() * 8; rest > 1 && !lease.signal.aborted; rest -= 1) {
      const write = { name: 'log', value: lease.fence };
      using limit = deadline(party.clock, 20);
      const written = Promise.try(async () => {
        const changes = lease.guard([write]);
        await new Promise<void>((resolve) => party.clock.after(random() * 9, resolve));
        await store.commit(changes, { signal: limit.signal });
      });
      await written.catch(() => {});
      await new Promise<void>((resolve) => party.clock.after(random() * 20, resolve));
    }
    party.lease = undefined;
    await lease[Symbol.asyncDispose]();
  }
}

/** Crashes some, pauses some or cuts them off for longer or shorter than a lease lives. */
function disturb(clock: VirtualClock, party: Party, random: Random): void {
  const at = random() * endMs;
  const kind = random();
  if (kind < 0.2) {
    clock.after(at, () => {
      party.crashed = true;
      party.clock.crash();
    });
  } else if (kind < 0.5) {
    clock.after(at, () => {
      party.store.down = true;
      clock.after(random() * 200, () => {
        party.store.down = false;
      });
    });
  } else if (kind < 0.8) {
    clock.after(at, () => {
      party.paused = true;
      party.clock.pause();
      clock.after(random() * 200, () => {
        party.clock.resume();
        // Its timers get the moment that every real one needs to notice.
        clock.after(1, () => {
          party.paused = false;
        });
      });
    });
  }
}

async function fight(random: Random): Promise<void> {
  const clock = new VirtualClock();
  const store = new WatchedStore({ clock });
  const parties = Array.from({ length: 3 }, (): Party => {
    const process = new SimulatedProcess(clock);
    const faults = { delayMsMax: 30 * random() ** 2, faultShare: 0.15 * random() };
    const line = new FaultyStore(store, { clock, process, random, ...faults });
    return {
      clock: process,
      store: line,
      lease: undefined,
      paused: false,
      crashed: false,
      turns: 0,
    };
  });
  const failures: unknown[] = [];
  let newest = 0;
  let writes = 0;
  store.onCommit = (changes, { version }) => {
    for (const { name, ifVersion, value } of changes) {
      if (name === 'lease/x' && ifVersion === 0) {
        newest = version;
        const holders = parties.filter(
          ({ lease, paused, crashed }) => lease && !lease.signal.aborted && !paused && !crashed,
        );
        if (holders.length > 0) failures.push(`two holders at ${clock.now()}`);
      }
      if (name === 'log') {
        writes += 1;
        if (value !== newest) failures.push(`a write with fence ${value} after ${newest}`);
      }
    }
  };
  for (const party of parties) disturb(clock, party, random);
  let ended = 0;
  for (const party of parties) {
    live(clock, party, random).then(
      () => {
        ended += 1;
      },
      (error) => failures.push(error),
    );
  }
  await clock.advance(endMs + 3000);
  assert.deepEqual(failures, []);
  assert.equal(ended, parties.filter(({ crashed }) => !crashed).length, 'all alive come to an end');
  assert.equal(clock.pending, 0);
  played.writes += writes;
  played.turns += parties.reduce((sum, { turns }) => sum + turns, 0);
}

await explore(seeds, fight);
console.log(JSON.stringify(played));
