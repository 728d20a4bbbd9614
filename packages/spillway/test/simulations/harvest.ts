import assert from 'node:assert/strict';
import {
  Breaker,
  Bucket,
  consecutiveFailures,
  Harvest,
  type HarvestOptions,
  MemoryStore,
  type Random,
  type Store,
  seededRandom,
} from 'spillway';
import { explore, FaultyStore, VirtualClock } from 'spillway/testing';
import { SimulatedProcess } from '../fixtures/simulated-process.ts';
import { CheckedSink, failure, ids, numbers, rowsOf, SimulatedServer } from '../harvest-scene.ts';

let lives = 0;
const never = new Promise<never>(() => {});

/** A process that dies at a given one of its steps: nothing it waits for comes after that. */
class Mortal {
  readonly process: SimulatedProcess;
  readonly death: PromiseWithResolvers<undefined> = Promise.withResolvers();
  steps = 0;
  readonly #diesAt: number;

  constructor(clock: VirtualClock, diesAt: number) {
    this.process = new SimulatedProcess(clock);
    this.#diesAt = diesAt;
  }

  /** Two steps: one before it happens, one before it is known to have happened. */
  async does<T>(work: () => Promise<T>): Promise<T> {
    await this.#step();
    try {
      return await work();
    } finally {
      await this.#step();
    }
  }

  async #step(): Promise<void> {
    this.steps += 1;
    if (this.steps < this.#diesAt) return;
    this.process.crash();
    this.death.resolve(undefined);
    await never;
  }

  store(store: Store): Store {
    return {
      read: (names, options) => this.does(() => store.read(names, options)),
      commit: (changes, options) => this.does(() => store.commit(changes, options)),
      list: (prefix, options) => this.does(() => store.list(prefix, options)),
      [Symbol.asyncDispose]: async () => {},
    };
  }
}

interface World {
  readonly clock: VirtualClock;
  readonly random: Random;
  readonly store: MemoryStore;
  readonly server: SimulatedServer;
  readonly broken: string[];
  readonly options: Partial<HarvestOptions<number>>;
  /** Name and end of each source. */
  readonly sources: readonly (readonly [string, number])[];
}

const leaseMs = 5_000;
/** Attempts enough that none fails by chance: nothing may be missing at the end. */
const patient = { attemptsMax: 40, backoffMs: 50, backoffMsMax: 400 };

/** One process from its start until it has ended or died. */
async function live(world: World, diesAt: number, store: Store = world.store) {
  const { clock, random, server, options } = world;
  lives += 1;
  const mortal = new Mortal(clock, diesAt);
  const own = mortal.store(store);
  const sink = new CheckedSink(own);
  const bucket = new Bucket({ ratePerSecond: 50, queueMax: 9, clock: mortal.process });
  const harvest = new Harvest<number>({
    ...{ sink, store: own, bucket, clock: mortal.process, random, leaseMs },
    ...options,
  });
  const sources = world.sources.map(([name, to]) => {
    const source = ids(server, name, to);
    const fetch: typeof source.fetch = (page, signal) => {
      const { window, windowMax } = random() < 0.1 ? harvest.stats : { window: 0, windowMax: 0 };
      if (window > windowMax) world.broken.push(`${window} pages in a window of ${windowMax}`);
      return mortal.does(() => source.fetch(page, signal));
    };
    return { ...source, fetch };
  });
  const outcomes = await clock.run(Promise.race([harvest.run(sources), mortal.death.promise]));
  world.broken.push(...sink.broken);
  return { outcomes, steps: mortal.steps };
}

function world(random: Random, options: Partial<HarvestOptions<number>> = {}): World {
  const clock = new VirtualClock();
  const errorShare = random() * 0.3;
  const latencyMs = () => random() ** 4 * 1_000;
  const server = new SimulatedServer(clock, random, { errorShare, latencyMs });
  const store = new MemoryStore({ clock });
  const sources = [
    ['a', 95],
    ['b', 33],
  ] as const;
  return { clock, random, store, server, broken: [], options, sources };
}

async function checkEnd({ store, sources, broken }: World): Promise<void> {
  assert.deepEqual(broken, []);
  for (const [name, to] of sources) {
    assert.deepEqual(await rowsOf(store, name), numbers(0, to), name);
    const { records } = await store.read([`harvest/${name}`]);
    const { position, rows, gaps } = Object(records[0]?.value);
    assert.deepEqual({ position, rows, gaps }, { position: to, rows: to, gaps: [] });
  }
}

function randomOptions(random: Random): Partial<HarvestOptions<number>> {
  const pick = (max: number) => 1 + Math.floor(random() * max);
  const windowMax = 1 + pick(12);
  const mode = random() < 0.5 ? 'strict' : 'prefix';
  const batchPages = Math.min(windowMax, pick(5));
  const batchMsMax = random() < 0.5 ? 0 : 500;
  return { mode, windowMax, batchPages, batchMsMax, sourcesMax: pick(3), ...patient };
}

/** Dies at each of its steps in turn; another process goes on. Gives back how many there were. */
async function dieEverywhere(mode: 'prefix' | 'strict'): Promise<number> {
  let steps = Infinity;
  for (let diesAt = 1; diesAt <= steps; diesAt += 1) {
    const w = world(seededRandom(1), { mode, batchPages: 3, batchMsMax: 50, ...patient });
    const first = await live(w, diesAt);
    if (first.outcomes) steps = first.steps;
    await w.clock.advance(leaseMs + 1);
    const { outcomes } = await live(w, Infinity);
    const statuses = outcomes?.map(({ status }) => status);
    assert.deepEqual(statuses, ['done', 'done'], `died at step ${diesAt}`);
    await checkEnd(w);
  }
  return steps;
}

/** Several lives and deaths, some while the lease of the one before still holds. */
async function dieOften(random: Random): Promise<void> {
  const w = world(random, randomOptions(random));
  for (let lives = 0; lives < 3; lives += 1) {
    await live(w, 1 + Math.floor(random() * 120));
    if (random() < 0.7) await w.clock.advance(leaseMs + 1);
  }
  await w.clock.advance(leaseMs + 1);
  await live(w, Infinity);
  await checkEnd(w);
}

/** A store that is slow, fails, or does what it was asked and does not say so. */
async function badStore(random: Random): Promise<void> {
  const w = world(random, { ...randomOptions(random), attemptMsMax: 3_000 });
  const faults = { clock: w.clock, random, delayMsMax: 20, faultShare: 0.1 };
  for (let runs = 0; runs < 20; runs += 1) {
    const { outcomes } = await live(w, Infinity, new FaultyStore(w.store, faults));
    if (outcomes?.every(({ status }) => status === 'done')) break;
    await w.clock.advance(leaseMs + 1);
  }
  await checkEnd(w);
}

/** A process sleeps until another has its leases, and wakes while that one works. */
async function oversleep(random: Random): Promise<void> {
  const w = world(random, { batchPages: 2, batchMsMax: 0, ...patient });
  const sleeper = new SimulatedProcess(w.clock);
  const sink = new CheckedSink(w.store);
  const own = { sink, store: w.store, clock: sleeper, random, leaseMs };
  const harvest = new Harvest<number>({ ...own, ...w.options });
  const run = harvest.run([ids(w.server, 'a', 95), ids(w.server, 'b', 33)]);
  await w.clock.advance(random() * 1_000);
  sleeper.pause();
  await w.clock.advance(leaseMs + 1);
  const next = live(w, Infinity);
  await w.clock.advance(random() * 500);
  sleeper.resume();
  await next;
  await w.clock.run(run);
  assert.deepEqual(sink.broken, []);
  await checkEnd(w);
}

/** Some pages never come: each is asked for as often as it may, and noted. */
async function badPages(random: Random): Promise<void> {
  const clock = new VirtualClock();
  const bad = new Set(numbers(0, 20).flatMap((n) => (random() < 0.2 ? n * 10 : [])));
  const refuse = (from: number) => {
    if (bad.has(from)) throw failure(random() < 0.5 ? 500 : 429);
  };
  const server = new SimulatedServer(clock, random, { refuse });
  const store = new MemoryStore({ clock });
  const sink = new CheckedSink(store);
  const breaker = new Breaker({ rule: consecutiveFailures(1_000), clock });
  const attemptsMax = 1 + Math.floor(random() * 5);
  const windowMax = 1 + Math.floor(random() * 9);
  const own = { sink, store, breaker, clock, random, windowMax };
  const harvest = new Harvest<number>({ ...own, ...patient, attemptsMax });
  const [outcome] = await clock.run(harvest.run([ids(server, 'a', 200)]));
  assert.deepEqual(
    outcome?.checkpoint?.gaps.map(({ from }) => from),
    [...bad],
  );
  for (const [from, times] of server.asked) {
    assert.equal(times, bad.has(from) ? attemptsMax : 1, `page ${from}`);
  }
  assert.deepEqual(sink.broken, []);
}

// Each is a whole harvest of many requests, several times over.
const seeds = Math.ceil(Number(process.argv[2]) / 8);
const steps = (await dieEverywhere('prefix')) + (await dieEverywhere('strict'));
for (const scenario of [dieOften, badStore, oversleep, badPages]) await explore(seeds, scenario);
console.log(JSON.stringify({ steps, lives }));
