// The cases in which nothing is tuned: numbers for lanes as people write them, and none at all.
import { setTimeout } from 'node:timers/promises';
import { type Health, writtenLanes } from 'spillway-fixtures/overload';
import { atMost, type Figure } from '../contest.ts';
import { type Case, figure } from './case.ts';
import { load, type Outcome } from './load.ts';
import { capacityOf, type Service, type Written } from './settings.ts';

const shapes = ['constant', 'exponential', 'bimodal'] as const;
/** Services of 25 calls a second. */
const services = [
  { places: 1, serviceMs: 40 },
  { places: 10, serviceMs: 400 },
  { places: 50, serviceMs: 2_000 },
];
/** Loads, as multiples of the capacity. */
const loads = [0.5, 0.9, 1.5, 3, 10] as const;
const isOver = (times: number) => times > 1;

const atLeast = (percent: number): Figure['targets'] => [
  { text: `at least ${percent} %`, met: ({ ours }) => ours >= percent },
];
const least = 'least goodput from 1.5x to 10x';
const writtenFigures = [
  ...loads
    .filter(isOver)
    .map((times) => figure(`goodput at ${times}x`, '% of the possible', 'more', atLeast(90))),
  figure(least, '% of the possible', 'more', atLeast(90)),
  figure('refused at 0.5x', '%', 'less', [atMost(0, '%')]),
  figure('refused at 0.9x', '%', 'less', [atMost(3, '%')]),
];

/** Each service by each shape with a third of the settings, so that each time meets them all. */
const asWritten: readonly Case[] = services.flatMap((times) =>
  shapes.map((shape, third) => {
    const service: Service = { ...times, shape };
    const own = writtenLanes.filter(
      ([, , deadlineMs], at) => at % 3 === third && deadlineMs >= 2 * times.serviceMs,
    );
    const name = `numbers as people write them, ${times.places} x ${times.serviceMs} ms ${shape}`;
    const isSample = times.serviceMs === 400 && shape === 'exponential';
    return writtenCase(name, service, own, !isSample);
  }),
);

function writtenCase(
  name: string,
  service: Service,
  own: readonly Written[],
  isLong: boolean,
): Case {
  const { serviceMs } = service;
  const patienceMs = serviceMs > 1_000 ? 5_000 : 1_000;
  return {
    run: { name, rounds: 1, figures: writtenFigures, isLong },
    isTuned: false,
    settings: { service, written: own },
    async measure({ port }, quick) {
      const warmMs = Math.max(quick ? 3_000 : 6_000, 3 * serviceMs);
      const ms = quick ? 4_000 : 10_000;
      const result: Record<string, number> = {};
      let lowest = Infinity;
      for (const times of loads) {
        const all = own.map(async (numbers, at): Promise<[Outcome, number]> => {
          const capacity = (Math.min(numbers[0], service.places) * 1_000) / serviceMs;
          const withinMs = Math.min(patienceMs, numbers[2]);
          const path = `/calls/${at + 1}`;
          const ratePerSecond = times * capacity;
          const outcome = await load({ port, path, ratePerSecond, patienceMs, warmMs, ms });
          const possible = Math.min(1, times) * capacity * inTimeShare(service, withinMs);
          return [outcome, (100 * outcome.goodput) / possible];
        });
        const outcomes = await Promise.all(all);
        const shares = outcomes.map(([, share]) => share);
        if (isOver(times)) {
          result[`goodput at ${times}x`] = mean(shares);
          lowest = Math.min(lowest, ...shares);
        } else {
          result[`refused at ${times}x`] = 100 * mean(outcomes.map(([{ refused }]) => refused));
        }
      }
      return { ...result, [least]: lowest };
    },
  };
}

/** Share of the calls whose service alone takes no longer than that. */
function inTimeShare({ serviceMs, shape }: Service, withinMs: number): number {
  if (shape === 'exponential') return 1 - Math.exp(-withinMs / serviceMs);
  return shape === 'bimodal' && withinMs < 5.5 * serviceMs ? 0.9 : 1;
}

/** The dependency of the server as it comes: 100 calls a second. */
const usual: Service = { places: 8, serviceMs: 80, shape: 'exponential' };
const usualCapacity = 100;

const keptOf = (route: string) => `${route}: goodput at 10x of its own peak`;
const routes = { dependency: '/calls/0', computing: '/cpu' };
const asItComes: Case = {
  run: {
    name: 'as it comes: a slow dependency, a route that computes, a trivial one',
    rounds: 1,
    figures: [
      ...Object.keys(routes).flatMap((route) => [
        ...loads.map((times) => figure(`${route}: goodput at ${times}x`, '/s', 'more')),
        figure(keptOf(route), '%', 'more', atLeast(90)),
      ]),
      ...loads.map((times) => {
        return figure(`trivial route: p99 at ${times}x`, 'ms', 'less', [atMost(20, 'ms')]);
      }),
    ],
  },
  isTuned: false,
  settings: { service: usual, written: [] },
  async measure({ port }, quick) {
    const times = quick ? { warmMs: 1_000, ms: 2_000 } : { warmMs: 3_000, ms: 6_000 };
    const result: Record<string, number> = {};
    const peaks: Record<string, number> = {};
    for (const multiple of loads) {
      const perSecond = { dependency: usualCapacity, computing: capacityOf.cpu as number };
      const outcomes = Object.entries(routes).map(async ([route, path]) => {
        const ratePerSecond = multiple * perSecond[route as keyof typeof routes];
        const outcome = await load({ port, path, ratePerSecond, patienceMs: 1_000, ...times });
        const { goodput, beatMs } = outcome;
        const peak = Math.max(peaks[route] ?? 0, goodput);
        peaks[route] = peak;
        result[`${route}: goodput at ${multiple}x`] = goodput;
        result[`trivial route: p99 at ${multiple}x`] = beatMs;
        if (multiple === 10) result[keptOf(route)] = (100 * goodput) / peak;
      });
      await Promise.all(outcomes);
    }
    return result;
  },
};

const lost = 'served of the others, of that without it';
const flood: Case = {
  run: {
    name: 'one address at 100 times its share of ten',
    rounds: 1,
    figures: [
      figure('served of the others without it', '%', 'more'),
      figure(lost, '%', 'more', atLeast(95)),
    ],
  },
  isTuned: false,
  settings: { service: usual, written: [] },
  async measure({ port }, quick) {
    const times = quick ? { warmMs: 2_000, ms: 4_000 } : { warmMs: 5_000, ms: 15_000 };
    const share = usualCapacity / 10;
    const ask = (address: string, ratePerSecond: number) => {
      return load({ port, path: '/calls/0', ratePerSecond, patienceMs: 1_000, address, ...times });
    };
    const others = async () => {
      const addresses = Array.from({ length: 9 }, (_, at) => `127.0.0.${at + 2}`);
      const outcomes = await Promise.all(addresses.map((address) => ask(address, 0.8 * share)));
      return 100 * mean(outcomes.map(({ served }) => served));
    };
    const alone = await others();
    const [flooded] = await Promise.all([others(), ask('127.0.0.1', 100 * share)]);
    return {
      'served of the others without it': alone,
      [lost]: (100 * flooded) / alone,
    };
  },
};

/** A dependency in trouble, at three times the load, and how much is served again after it. */
const recoveries: readonly Case[] = (['slow', 'hanging', 'broken'] as const).map((health) => {
  const back = 'goodput from the third second after it, of that before';
  const trouble: Readonly<Record<Exclude<Health, 'well'>, string>> = {
    slow: 'ten times slower for a minute',
    hanging: 'hangs for 20 s',
    broken: 'fails for 20 s',
  };
  return {
    run: {
      name: `a dependency that ${trouble[health]}`,
      rounds: 1,
      together: true,
      figures: [figure('goodput before it', '/s', 'more'), figure(back, '%', 'more', atLeast(90))],
    },
    isTuned: false,
    settings: { service: usual, written: [] },
    async measure({ port, turn }, quick) {
      const fullS = health === 'slow' ? 60 : 20;
      const troubleS = quick ? 6 : fullS;
      const beforeS = quick ? 4 : 10;
      const afterS = quick ? 5 : 10;
      const warmMs = quick ? 3_000 : 6_000;
      const ms = 1_000 * (beforeS + troubleS + 3 + afterS);
      const loading = load({
        port,
        path: '/calls/0',
        ratePerSecond: 3 * usualCapacity,
        patienceMs: 1_000,
        warmMs,
        ms,
      });
      await setTimeout(warmMs + 1_000 * beforeS);
      turn(health);
      await setTimeout(1_000 * troubleS);
      turn('well');
      const { goodBySecond } = await loading;
      const before = mean(goodBySecond.slice(0, beforeS));
      const after = mean(goodBySecond.slice(-afterS));
      return { 'goodput before it': before, [back]: (100 * after) / before };
    },
  };
});

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

export const untuned: readonly Case[] = [
  asItComes,
  flood,
  ...recoveries,
  writtenCase(
    'clients wait 1 s, the deadline is 20 s',
    { places: 10, serviceMs: 400, shape: 'constant' },
    [[200, 400, 20_000]],
    false,
  ),
  ...asWritten,
];
