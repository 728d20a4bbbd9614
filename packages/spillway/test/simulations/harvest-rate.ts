import {
  Bucket,
  Harvest,
  type HarvestOptions,
  type HarvestSource,
  MemoryStore,
  type Random,
  rangeSource,
  seededRandom,
  storeSink,
} from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { type ServerOptions, SimulatedServer } from '../harvest-scene.ts';

/** Log-normal: one in a hundred takes six times as long as the mean, one in a thousand 13 times. */
function longTail(random: Random, meanMs: number): () => number {
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return () => meanMs * Math.exp(normal() - 0.5);
}

interface Use {
  /** Of the permitted rate, after the warm-up. */
  share: number;
  /** Of the permitted rate, from the fifth second to the end of the warm-up. */
  soon: number;
  throttled: number;
  windowMax: number;
  inFlightMax: number;
}

const warmUpMs = 60_000;
const endMs = 300_000;

function scene(random: Random, ratePerSecond: number, options: ServerOptions) {
  const clock = new VirtualClock();
  const burst = Math.ceil(ratePerSecond / 50);
  const server = new SimulatedServer(clock, random, {
    ratePerSecond: ratePerSecond + burst,
    errorShare: 0.01,
    ...options,
  });
  const store = new MemoryStore({ clock });
  const bucket = new Bucket({ ratePerSecond, burst, queueMax: 10, clock });
  const sink = storeSink<number>(store, () => []);
  const make = (more: Partial<HarvestOptions<number>> = {}) =>
    new Harvest<number>({ sink, store, bucket, clock, random, ...more });
  return { clock, server, make };
}

function source(
  name: string,
  pages: number,
  fetch: (from: number, s: AbortSignal) => Promise<number[]>,
) {
  const range = { name, from: 0, to: pages, pageSize: 1 };
  return rangeSource<number>({
    ...range,
    idOf: (id) => id,
    fetch: ({ from }, s) => fetch(from, s),
  });
}

/** Measures the used share of the rate, with nothing tuned. Until `slowAt` the latency is 50 ms. */
async function use(
  seed: number,
  meanMs: number,
  ratePerSecond: number,
  sources: number,
  slowAt = 0,
): Promise<Use> {
  const random = seededRandom(seed);
  const [quick, slow] = [longTail(random, 50), longTail(random, meanMs)];
  const latencyMs = () => (clock.now() < slowAt ? quick() : slow());
  const { clock, server, make } = scene(random, ratePerSecond, { latencyMs });
  const harvest = make();
  const stop = new AbortController();
  const all = Array.from(
    { length: sources },
    (_, at): HarvestSource<number> =>
      source(`s${at}`, 1e6, (from, signal) => server.answer(from, [from], signal)),
  );
  const run = harvest.run(all, { signal: stop.signal });
  let windowMax = 0;
  for (let i = 0; i < 300; i += 1) {
    await clock.advance(endMs / 300);
    windowMax = Math.max(windowMax, harvest.stats.window);
  }
  stop.abort();
  await clock.run(run);
  const warmAt = slowAt + warmUpMs;
  const shareOf = (from: number, to: number): number => {
    const used = server.arrivals.filter((at) => at >= from && at < to).length;
    return used / ((ratePerSecond * (to - from)) / 1000);
  };
  const share = shareOf(warmAt, endMs);
  const soon = shareOf(slowAt + 5_000, warmAt);
  return { share, soon, throttled: server.throttled, windowMax, inFlightMax: server.inFlightMax };
}

/** One source whose fetches all hang beside three that are quick: who gets how much, per second. */
async function besideSlow(): Promise<{ quick: number; slow: number }> {
  const random = seededRandom(1);
  const { clock, server, make } = scene(random, 40, { latencyMs: () => 50 });
  const harvest = make({ attemptMsMax: 20_000, attemptsMax: 1e6, windowMax: 400 });
  const counts = [0, 0, 0, 0];
  const all = counts.map((_, at) =>
    source(`s${at}`, 1e6, (from, signal) => {
      counts[at] = (counts[at] ?? 0) + 1;
      if (at > 0) return server.answer(from, [from], signal);
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
    }),
  );
  const stop = new AbortController();
  const run = harvest.run(all, { signal: stop.signal });
  await clock.advance(100_000);
  stop.abort();
  await clock.run(run);
  const [slow = 0, ...quick] = counts;
  return { quick: Math.min(...quick) / 100, slow: slow / 100 };
}

/** The other side does 10 at once, each in 200 ms: more in flight only wait there. */
async function fullServer(): Promise<{ share: number; inFlightMax: number }> {
  const random = seededRandom(1);
  const { clock, server, make } = scene(random, 1_000, { errorShare: 0 });
  let freeAt = Array.from({ length: 10 }, () => 0);
  let answered = 0;
  const harvest = make();
  const one = source('s', 1e6, async (from, signal) => {
    freeAt = freeAt.sort((a, b) => a - b);
    const endsAt = Math.max(clock.now(), freeAt[0] as number) + 160 + 80 * random();
    freeAt[0] = endsAt;
    await new Promise<void>((resolve) => clock.after(endsAt - clock.now(), resolve));
    answered += 1;
    return server.answer(from, [from], signal);
  });
  const stop = new AbortController();
  const run = harvest.run([one], { signal: stop.signal });
  await clock.advance(60_000);
  const before = answered;
  await clock.advance(60_000);
  const share = (answered - before) / (60 * 50);
  const inFlightMax = harvest.stats.inFlight;
  stop.abort();
  await clock.run(run);
  return { share, inFlightMax };
}

/**
 * Latency changes by itself, by a factor from 1 to 4 that holds for up to ten seconds: the goodput
 * of the worst minute from the fifth on, as a share of the rate.
 */
async function drifting(seed: number): Promise<number> {
  const random = seededRandom(seed);
  const tail = longTail(random, 3_000);
  let factor = 1;
  let factorUntil = 0;
  const latencyMs = () => {
    while (clock.now() >= factorUntil) {
      factor = 1 + 3 * random();
      factorUntil += 1_000 + 9_000 * random();
    }
    return factor * tail();
  };
  const { clock, server, make } = scene(random, 50, { latencyMs, errorShare: 0 });
  const harvest = make({ inFlightMax: 512, windowMax: 5_000 });
  let answered = 0;
  const one = source('s', 1e6, async (from, signal) => {
    const rows = await server.answer(from, [from], signal);
    answered += 1;
    return rows;
  });
  const stop = new AbortController();
  const run = harvest.run([one], { signal: stop.signal });
  await clock.advance(240_000);
  let worst = Infinity;
  for (let minute = 4; minute < 10; minute += 1) {
    const before = answered;
    await clock.advance(60_000);
    worst = Math.min(worst, (answered - before) / (60 * 50));
  }
  stop.abort();
  await clock.run(run);
  return worst;
}

const uses: Record<string, Use> = {};
for (const meanMs of [50, 500, 3_000]) {
  for (const [rate, sources] of [
    [10, 1],
    [10, 4],
    [40, 8],
  ] as const) {
    for (const seed of [1, 2]) {
      uses[`${meanMs} ms, ${rate}/s, ${sources} sources, seed ${seed}`] = await use(
        seed,
        meanMs,
        rate,
        sources,
      );
    }
  }
}
const played = {
  uses,
  slowed: await use(1, 3_000, 10, 2, 60_000),
  fullWindow: await use(1, 3_000, 60, 1),
  besideSlow: await besideSlow(),
  fullServer: await fullServer(),
  drifting: await Promise.all([1, 2, 3, 4].map(drifting)),
};
console.log(JSON.stringify(played));
