import { Lane, type LaneOptions } from 'spillway';
import { type DependencyOptions, type Health, type Played, play } from 'spillway-fixtures/overload';
import type { Bench, Contestant, Figure, Run } from './contest.ts';
import { Envoy, Gradient2, Vegas } from './limits/published.ts';

type Service = Omit<DependencyOptions, 'clock' | 'random'>;

/** Services with 25 calls per second, and one that slows down above 20 calls in flight. */
const services: Readonly<Record<string, Service>> = {
  '1 x 40 ms': { places: 1, serviceMs: 40, shape: 'constant' },
  '1 x 40 ms, exponential': { places: 1, serviceMs: 40, shape: 'exponential' },
  '10 x 400 ms': { places: 10, serviceMs: 400, shape: 'constant' },
  '10 x 400 ms, exponential': { places: 10, serviceMs: 400, shape: 'exponential' },
  '10 x 400 ms, bimodal': { places: 10, serviceMs: 400, shape: 'bimodal' },
  'knee at 20': { places: 100, serviceMs: 400, shape: 'exponential', knee: 20 },
};
const seeds = [1, 2, 3];
const deadlineMs = 2_000;
const patienceMs = 1_000;

const recovery = 'seconds until 90 % after a minute that was ten times slower';
const figures: readonly Figure[] = [
  {
    name: 'goodput at 3x',
    unit: '/s',
    better: 'more',
    targets: [{ peer: 'best fixed', text: 'within 3 % of it', met: ({ ratio }) => ratio >= 0.97 }],
  },
  { name: 'goodput at 10x', unit: '/s', better: 'more', targets: [] },
  { name: 'refused at 0.9x', unit: '%', better: 'less', targets: [] },
  { name: 'p99 at 3x', unit: 'ms', better: 'less', targets: [] },
  { name: recovery, unit: 's', better: 'less', targets: [] },
];

/** Compares adaptive limits on simulated services, on the virtual clock. */
export const limits: Bench = {
  contenders: {
    'spillway Lane': () => contestant(() => ({ limit: 200, queueMax: 100 })),
    'best fixed': bestFixed,
    Vegas: () => contestant(() => ({ limit: new Vegas(), queueMax: 0 })),
    Gradient2: () => contestant(() => ({ limit: new Gradient2(), queueMax: 0 })),
    Envoy: () => contestant(() => ({ limit: new Envoy(), queueMax: 0 })),
  },
  yardsticks: ['best fixed'],
  runs: Object.keys(services).map((name): Run => ({ name, rounds: 1, figures })),
};

type Written = () => Pick<LaneOptions, 'limit' | 'queueMax'>;
type Result = Readonly<Record<string, number>>;

async function contestant(written: Written): Promise<Contestant> {
  return (name, quick) => measure(written, services[name] as Service, quick);
}

/** Tries fixed limits, and takes the one with the best goodput at three times the load. */
async function bestFixed(): Promise<Contestant> {
  return async (name, quick) => {
    const service = services[name] as Service;
    let best: Result = { 'goodput at 3x': 0 };
    for (const share of [1, 1.2, 1.5, 2]) {
      const fixed = Math.ceil(Math.min(service.places, service.knee ?? Infinity) * share);
      const result = await measure(() => ({ limit: { fixed }, queueMax: 2 }), service, quick);
      if ((result['goodput at 3x'] ?? 0) > (best['goodput at 3x'] ?? 0)) best = result;
    }
    return best;
  };
}

async function measure(written: Written, service: Service, quick: boolean): Promise<Result> {
  const sums: Record<string, number> = {};
  const used = quick ? seeds.slice(0, 1) : seeds;
  for (const seed of used) {
    const result = await once(written, service, seed);
    for (const [name, value] of Object.entries(result)) {
      sums[name] = (sums[name] ?? 0) + value / used.length;
    }
  }
  return sums;
}

async function once(written: Written, service: Service, seed: number): Promise<Result> {
  const capacity = (Math.min(service.places, service.knee ?? Infinity) * 1_000) / service.serviceMs;
  const seconds = 30;
  const at = (load: number, events: readonly { atS: number; health: Health }[] = [], length = 30) =>
    play({
      lane: (clock, random) => new Lane({ name: 'x', ...written(), deadlineMs, clock, random }),
      dependency: service,
      arrivalsPerSecond: capacity * load,
      patienceMs,
      seed,
      warmUpS: 15,
      seconds: length,
      events,
    });
  const normal = await at(3);
  const heavy = await at(10);
  const light = await at(0.9);
  const slow = [
    { atS: 20, health: 'slow' },
    { atS: 80, health: 'well' },
  ] as const;
  return {
    'goodput at 3x': normal.good / seconds,
    'goodput at 10x': heavy.good / seconds,
    'refused at 0.9x': (100 * light.refused) / light.arrived,
    'p99 at 3x': normal.p99Ms,
    [recovery]: recoveredAfter(await at(3, slow, 95), normal.good / seconds),
  };
}

/** Seconds until goodput is back after an outage, by means over three seconds; at most 30. */
function recoveredAfter({ goodBySecond }: Played, usual: number): number {
  for (let second = 80; second < 107; second += 1) {
    const [a = 0, b = 0, c = 0] = goodBySecond.slice(second, second + 3);
    if ((a + b + c) / 3 >= 0.9 * usual) return second - 80;
  }
  return 30;
}
