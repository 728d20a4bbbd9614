// Processes share one gate while they crash, pause, are cut off, hear no answers, and have commits
// that arrive long after their time. Prints what was played; a failure names its seed.
import assert from 'node:assert/strict';
import { type Clock, MemoryStore, type Random, SharedGate, type SharedPermit } from 'spillway';
import { explore, FaultyStore, VirtualClock } from 'spillway/testing';
import { SimulatedProcess } from '../fixtures/simulated-process.ts';

interface Party {
  readonly clock: SimulatedProcess;
  readonly store: FaultyStore;
  readonly gate: SharedGate;
  readonly permits: Set<SharedPermit>;
  /** While it is paused nothing can be asked of its signals. */
  paused: boolean;
  /** While it is deaf its calls are done, and no answer reaches it. */
  deaf: boolean;
  crashed: boolean;
}

const endMs = 500;
const seeds = Number(process.argv[2]);
const played = { entered: 0, most: 0, lost: 0 };

/** A network in which some messages take long, a few of them longer than a claim lives. */
function straggling(clock: Clock, share: number, random: Random): Clock {
  return {
    now: () => clock.now(),
    after: (ms, callback) => {
      return clock.after(random() < share ? ms + 300 * random() ** 2 : ms, callback);
    },
  };
}

/** One caller that enters again and again, and leaves when it is told to. */
async function live(
  party: Party,
  random: Random,
  check: (party: Party, entered: SharedPermit) => void,
): Promise<void> {
  const rest = (ms: number) => new Promise<void>((resolve) => party.clock.after(ms, resolve));
  while (party.clock.now() < endMs) {
    try {
      using permit = await party.gate.enter();
      check(party, permit);
      party.permits.add(permit);
      played.entered += 1;
      // Some stay for longer than a claim lives without being renewed.
      await rest(random() * (random() < 0.1 ? 300 : 30));
      party.permits.delete(permit);
    } catch (error) {
      assert.equal(Object(error).code, 'STORE_UNREACHABLE');
    }
    await rest(random() ** 3 * 60);
  }
}

/** Crashes some, pauses some or cuts them off for longer or shorter than a claim lives. */
function disturb(clock: VirtualClock, party: Party, random: Random): void {
  const at = random() * endMs;
  const kind = random();
  const lastsMs = random() * 200;
  if (kind < 0.1) {
    clock.after(at, () => {
      party.crashed = true;
      party.clock.crash();
    });
  } else if (kind < 0.3) {
    clock.after(at, () => {
      party.store.down = true;
      clock.after(lastsMs, () => {
        party.store.down = false;
      });
    });
  } else if (kind < 0.6) {
    clock.after(at, () => {
      party.deaf = true;
      clock.after(lastsMs, () => {
        party.deaf = false;
      });
    });
  } else if (kind < 0.8) {
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

function open(store: MemoryStore, clock: VirtualClock, terms: Terms, random: Random): Party {
  const process = new SimulatedProcess(clock);
  const state = { permits: new Set<SharedPermit>(), paused: false, deaf: false, crashed: false };
  const ears: Clock = {
    now: () => process.now(),
    after: (ms, callback) => process.after(ms, () => party.deaf || callback()),
  };
  const line = new FaultyStore(store, {
    clock: straggling(clock, 0.2 * random(), random),
    process: ears,
    random,
    delayMsMax: 20 * random() ** 2,
    faultShare: 0.15 * random(),
  });
  const gate = new SharedGate({ store: line, clock: process, random, ...terms });
  const party: Party = { clock: process, store: line, gate, ...state };
  return party;
}

/** Permits that nobody holds any more must all come to somebody new. */
async function takeAll(store: MemoryStore, clock: VirtualClock, terms: Terms): Promise<void> {
  await using gate = new SharedGate({ store, clock, ...terms });
  const all = Promise.all(Array.from({ length: terms.limit }, async () => await gate.enter()));
  for (const permit of await all) permit[Symbol.dispose]();
}

type Terms = ReturnType<typeof termsOf>;

const termsOf = (limit: number) => {
  return { name: 'x', limit, queueMax: 9, ttlMs: 120, pollMs: 10, deadlineMs: 200 };
};

async function share(random: Random): Promise<void> {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  const terms = termsOf(1 + Math.floor(random() * 4));
  const { limit } = terms;
  const parties = Array.from({ length: 3 }, () => open(store, clock, terms, random));
  const failures: unknown[] = [];
  const check = (party: Party, entered: SharedPermit) => {
    if (entered.signal.aborted) return;
    const running = parties.filter(({ paused, crashed }) => !(paused || crashed));
    const permits = running.flatMap(({ permits }) => [...permits]);
    const inside = 1 + permits.filter(({ signal }) => !signal.aborted).length;
    played.most = Math.max(played.most, inside);
    if (inside > limit) {
      failures.push(`${inside} of ${limit} at ${clock.now()}: ${parties.indexOf(party)}`);
    }
  };
  let ended = 0;
  for (const party of parties) {
    disturb(clock, party, random);
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
  await clock.run(takeAll(store, clock, terms));
  played.lost += parties.reduce((sum, { gate }) => sum + gate.stats.lost, 0);
}

await explore(seeds, share);
console.log(JSON.stringify(played));
