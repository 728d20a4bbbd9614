// The cases of a server without any configuration.
import { setTimeout } from 'node:timers/promises';
import type { Health } from 'spillway-fixtures/overload';
import { atLeast, atMost } from '../contest.ts';
import { address, type Case, figure, mean } from './case.ts';
import { load } from './load.ts';
import { capacityOf, type Service } from './settings.ts';

/** The dependency of the server without configuration: 100 calls per second. */
const usual: Service = { places: 8, serviceMs: 80, shape: 'exponential' };
const usualCapacity = 100;
const patienceMs = 1_000;

/** Loads, as multiples of the capacity. */
const loads = [0.5, 0.9, 1.5, 3, 10] as const;
const routes = {
  dependency: { path: '/calls/0', capacity: usualCapacity },
  computing: { path: '/cpu', capacity: capacityOf.cpu as number },
};
const keptOf = (route: string) => `${route}: goodput at 10x of its own peak`;

const asItComes: Case = {
  run: {
    name: 'as it comes: a slow dependency, a route that computes, a trivial one',
    rounds: 1,
    figures: [
      ...Object.keys(routes).flatMap((route) => [
        ...loads.map((times) => figure(`${route}: goodput at ${times}x`, '/s', 'more')),
        figure(keptOf(route), '%', 'more', atLeast(90, '%')),
      ]),
      ...loads.map((times) => {
        return figure(`trivial route: p99 at ${times}x`, 'ms', 'less', atMost(20, 'ms'));
      }),
    ],
  },
  isTuned: false,
  async measure({ start }, quick) {
    const { port } = await start([{ service: usual }]);
    const times = quick ? { warmMs: 800, ms: 1_200 } : { warmMs: 3_000, ms: 10_000 };
    const result: Record<string, number> = {};
    const peaks: Record<string, number> = {};
    for (const multiple of loads) {
      const outcomes = Object.entries(routes).map(async ([route, { path, capacity }], seed) => {
        const ratePerSecond = multiple * capacity;
        const beats = route === 'computing';
        const window = { port, path, ratePerSecond, patienceMs, beats, seed, ...times };
        const { goodput, beatMs } = await load(window);
        const peak = Math.max(peaks[route] ?? 0, goodput);
        peaks[route] = peak;
        result[`${route}: goodput at ${multiple}x`] = goodput;
        if (beats) result[`trivial route: p99 at ${multiple}x`] = beatMs;
        if (multiple === 10) result[keptOf(route)] = (100 * goodput) / peak;
      });
      await Promise.all(outcomes);
    }
    return result;
  },
};

const without = 'served of the others without it';
const lost = 'served of the others, of that without it';
const flood: Case = {
  run: {
    name: 'one address at 100 times its share of ten',
    rounds: 1,
    together: true,
    figures: [figure(without, '%', 'more'), figure(lost, '%', 'more', atLeast(95, '%'))],
  },
  isTuned: false,
  async measure(contender, quick) {
    const { port } = await contender.start([{ service: usual }]);
    const times = quick ? { warmMs: 2_000, ms: 4_000 } : { warmMs: 5_000, ms: 20_000 };
    const share = usualCapacity / 10;
    const ask = (at: number, ratePerSecond: number) => {
      const client = { address: address(contender, at), patienceMs, seed: at };
      return load({ port, path: '/calls/0', ratePerSecond, ...client, ...times });
    };
    const others = async () => {
      const asking = Array.from({ length: 9 }, (_, at) => ask(at + 2, 0.8 * share));
      const outcomes = await Promise.all(asking);
      return 100 * mean(outcomes.map(({ served }) => served));
    };
    const alone = await others();
    const [flooded] = await Promise.all([others(), ask(1, 100 * share)]);
    return { [without]: alone, [lost]: (100 * flooded) / alone };
  },
};

const troubles: readonly { health: Health; name: string; seconds: number }[] = [
  { health: 'slow', name: 'ten times slower for a minute', seconds: 60 },
  { health: 'hanging', name: 'hangs for 20 s', seconds: 20 },
  { health: 'broken', name: 'fails for 20 s', seconds: 20 },
];
const before = 'goodput before';
const back = 'goodput from the third second after it, of that before';
/** Dependencies for each kind of trouble: one alone gives too few samples in a few seconds. */
const copies = 3;

/** Dependencies in trouble at three times the load, and the share that is served afterwards. */
const recovery: Case = {
  run: {
    name: 'a dependency in trouble',
    rounds: 1,
    together: true,
    figures: troubles.flatMap(({ name }) => [
      figure(`${name}: ${before}`, '/s', 'more'),
      figure(`${name}: ${back}`, '%', 'more', atLeast(90, '%')),
    ]),
  },
  isTuned: false,
  async measure({ kind, start }, quick) {
    const all = troubles.flatMap((trouble) => {
      return new Array<typeof trouble>(kind === 'ours' ? copies : 1).fill(trouble);
    });
    const { port, turn } = await start(all.map(() => ({ service: usual })));
    const beforeS = quick ? 4 : 10;
    const afterS = quick ? 5 : 10;
    const warmMs = quick ? 3_000 : 6_000;
    const measured = all.map(async ({ health, name, seconds }, at) => {
      const troubleS = quick ? 6 : seconds;
      // The last second does not count: no later arrivals compete with its requests.
      const ms = 1_000 * (beforeS + troubleS + 3 + afterS + 1);
      const ratePerSecond = 3 * usualCapacity;
      const path = `/calls/${at}`;
      const loading = load({ port, path, ratePerSecond, patienceMs, warmMs, ms, seed: at + 1 });
      await setTimeout(warmMs + 1_000 * beforeS);
      turn(at, health);
      await setTimeout(1_000 * troubleS);
      turn(at, 'well');
      const { goodBySecond } = await loading;
      const well = mean(goodBySecond.slice(0, beforeS));
      const again = mean(goodBySecond.slice(-afterS - 1, -1));
      return { name, well, again };
    });
    const results = Map.groupBy(await Promise.all(measured), ({ name }) => name);
    const figures = [...results].flatMap(([name, own]) => {
      const well = mean(own.map((each) => each.well));
      const again = mean(own.map((each) => each.again));
      return [
        [`${name}: ${before}`, well],
        [`${name}: ${back}`, (100 * again) / well],
      ] as const;
    });
    return Object.fromEntries(figures);
  },
};

export const untuned: readonly Case[] = [asItComes, flood, recovery];
