// Processes call through one breaker what is down for a while, and crash, pause and lose answers.
// Prints what was played; a failure names its seed.
import assert from 'node:assert/strict';
import {
  consecutiveFailures,
  MemoryStore,
  type Random,
  SharedBreaker,
  type SpillwayError,
} from 'spillway';
import { explore, FaultyStore, VirtualClock } from 'spillway/testing';
import { SimulatedProcess } from '../fixtures/simulated-process.ts';

const seeds = Number(process.argv[2]);
const probeMsMax = 400;
const downAt = 1000;
const endMs = 14_000;
const played = { probes: 0, paused: 0, crashed: 0 };

class World {
  readonly clock = new VirtualClock();
  readonly store = new MemoryStore({ clock: this.clock });
  readonly random: Random;
  readonly failures: unknown[] = [];
  readonly upAt: number;
  /** Processes that probe, while their time for it lasts. */
  readonly probing = new Set<SimulatedProcess>();
  openedAt = Infinity;
  isOver = false;

  constructor(random: Random) {
    this.random = random;
    this.upAt = 4000 + random() * 1000;
    // Half of the stores make no decisions themselves.
    if (random() < 0.5) Object.assign(this.store, { apply: undefined });
  }

  get isUp(): boolean {
    return this.clock.now() < downAt || this.clock.now() >= this.upAt;
  }

  async state(): Promise<{ readonly status: string; readonly opened: number } | undefined> {
    const [record] = (await this.store.read(['breaker/api/in-row'])).records;
    return record?.value as { status: string; opened: number } | undefined;
  }
}

/** A call that takes its time; counts itself as a probe if it can be nothing else. */
async function call(world: World, process: SimulatedProcess, signal: AbortSignal): Promise<void> {
  const { clock, probing, random } = world;
  const shared = await world.state();
  if (!world.isUp && shared && shared.status !== 'closed') {
    world.openedAt = Math.min(world.openedAt, clock.now());
  }
  const isProbe = !world.isUp && clock.now() > world.openedAt + 1000;
  if (isProbe) {
    if (probing.size > 0) world.failures.push(`two probes at ${clock.now()}`);
    probing.add(process);
    // Also one that hangs or is stopped is over then: others may probe.
    clock.after(probeMsMax, () => probing.delete(process));
    played.probes += 1;
  }
  try {
    await new Promise<void>((resolve, reject) => {
      process.after(random() * 200, resolve);
      signal.addEventListener('abort', () => reject(signal.reason));
    });
    if (!world.isUp) throw new Error('broken');
  } finally {
    if (isProbe) probing.delete(process);
  }
}

function disturb({ clock, random, upAt }: World, process: SimulatedProcess): void {
  clock.after(random() * upAt, () => {
    const kind = random();
    if (kind < 0.2) {
      played.crashed += 1;
      process.crash();
    } else if (kind < 0.7) {
      played.paused += 1;
      process.pause();
      clock.after(random() * 2000, () => process.resume());
    }
  });
}

await explore(seeds, async (random) => {
  const world = new World(random);
  const { clock, store, failures } = world;
  for (let i = 0; i < 3; i += 1) {
    const process = new SimulatedProcess(clock);
    const faults = { delayMsMax: 10 * random(), faultShare: 0.1 * random() };
    const line = new FaultyStore(store, { clock, process, random, ...faults });
    const breaker = new SharedBreaker({
      store: line,
      name: 'api',
      rule: consecutiveFailures(3),
      cooldownMs: 300,
      cooldownMsMax: 900,
      successesToClose: 1,
      probeMsMax,
      deadlineMs: 5000,
      clock: process,
      random,
    });
    const live = async () => {
      while (!world.isOver) {
        const ended = await breaker
          .run((signal) => call(world, process, signal))
          .catch((error: SpillwayError) => error.message);
        if (typeof ended === 'string' && !/broken|open|not done/.test(ended)) failures.push(ended);
        await new Promise<void>((resolve) => process.after(40 + random() * 80, resolve));
      }
    };
    live().catch((error) => failures.push(error));
    // The first is spared, so that somebody is there to see it close.
    if (i > 0) disturb(world, process);
  }
  await clock.advance(world.upAt + 500);
  let last = await world.state();
  // Calls that are never answered may hold it up, but not for good.
  for (; last?.status !== 'closed' && clock.now() < endMs; last = await world.state()) {
    await clock.advance(250);
  }
  world.isOver = true;
  assert.deepEqual(failures, []);
  assert.ok(last !== undefined && last.opened > 0, 'it opened');
  assert.equal(last.status, 'closed');
  // The last visits may be left without an answer more than once.
  await clock.advance(15_000);
  assert.equal(clock.pending, 0, 'no timer is left');
});
console.log(JSON.stringify(played));
