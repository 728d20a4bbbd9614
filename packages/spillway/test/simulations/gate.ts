// Processes share one gate while they crash, pause, are cut off and lose answers. Prints what was
// played; a failure names its seed.
import assert from 'node:assert/strict';
import { MemoryStore, type Random, SharedGate, type SharedPermit } from 'spillway';
import { explore, FaultyStore, SimulatedProcess, VirtualClock } from 'spillway/testing';

interface Party {
  readonly clock: SimulatedProcess;
  readonly store: FaultyStore;
  readonly gate: SharedGate;
  readonly permits: Set<SharedPermit>;
  /** While it is paused nothing can be asked of its signals. */
  paused: boolean;
  crashed: boolean;
}

const endMs = 400;
const seeds = Number(process.argv[2]);
const played = { entered: 0, most: 0, lost: 0 };

/** One caller that enters again and again, and leaves when it is told to. */
async function live(party: Party, random: Random, check: () => void): Promise<void> {
  const rest = (ms: number) => new Promise<void>((resolve) => party.clock.after(ms, resolve));
  while (party.clock.now() < endMs) {
    try {
      using permit = await party.gate.enter();
      party.permits.add(permit);
      played.entered += 1;
      check();
      await rest(random() * 30);
      party.permits.delete(permit);
    } catch (error) {
      assert.equal(Object(error).code, 'STORE_UNREACHABLE');
    }
    await rest(random() ** 2 * 60);
  }
}

/** Crashes some, pauses some or cuts them off for longer or shorter than a claim lives. */
function disturb(clock: VirtualClock, party: Party, random: Random): void {
  const at = random() * endMs;
  const kind = random();
  const lastsMs = random() * 200;
  if (kind < 0.2) {
    clock.after(at, () => {
      party.crashed = true;
      party.clock.crash();
    });
  } else if (kind < 0.4) {
    clock.after(at, () => {
      party.store.down = true;
      clock.after(lastsMs, () => {
        party.store.down = false;
      });
    });
  } else if (kind < 0.6) {
    clock.after(at, () => {
      party.paused = true;
      party.clock.pause();
      clock.after(lastsMs, () => {
        party.clock.resume();
        // Its timers get the moment that every real one needs to notice.
        clock.after(1, () => {
          party.paused = false;
        });
      });
    });
  }
}

async function share(random: Random): Promise<void> {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  const limit = 1 + Math.floor(random() * 4);
  const parties = Array.from({ length: 3 }, (): Party => {
    const process = new SimulatedProcess(clock);
    const faults = { delayMsMax: 20 * random() ** 2, faultShare: 0.15 * random() };
    const line = new FaultyStore(store, { clock, process, random, ...faults });
    const terms = { name: 'x', limit, queueMax: 9, ttlMs: 120, pollMs: 10, deadlineMs: 200 };
    const gate = new SharedGate({ store: line, clock: process, random, ...terms });
    return { clock: process, store: line, gate, permits: new Set(), paused: false, crashed: false };
  });
  const failures: unknown[] = [];
  const check = () => {
    const running = parties.filter(({ paused, crashed }) => !(paused || crashed));
    const permits = running.flatMap(({ permits }) => [...permits]);
    const inside = permits.filter(({ signal }) => !signal.aborted).length;
    played.most = Math.max(played.most, inside);
    if (inside > limit) failures.push(`${inside} of ${limit} inside at ${clock.now()}`);
  };
  let ended = 0;
  for (const party of parties) {
    disturb(clock, party, random);
    const callers = Array.from({ length: 3 }, () => live(party, random, check));
    void Promise.all(callers)
      .then(() => party.gate.close())
      .then(
        () => {
          ended += 1;
        },
        (error) => failures.push(error),
      );
  }
  await clock.advance(endMs + 5_000);
  assert.deepEqual(failures, []);
  assert.equal(ended, parties.filter(({ crashed }) => !crashed).length, 'all alive come to an end');
  assert.equal(clock.pending, 0);
  played.lost += parties.reduce((sum, { gate }) => sum + gate.stats.lost, 0);
}

await explore(seeds, share);
console.log(JSON.stringify(played));
