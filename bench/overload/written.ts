// Lanes with numbers as people write them, in front of services of 25 calls per second.
import { Lane } from 'spillway';
import { writtenLanes } from 'spillway-fixtures/overload';
import { atLeast, atMost } from '../contest.ts';
import { address, type Call, type Case, type Contender, figure, mean } from './case.ts';
import { load, type Outcome } from './load.ts';
import type { Service, Written } from './settings.ts';

/** A service, the numbers that are written for it, and for how long its clients wait. */
interface Setup {
  readonly name: string;
  readonly service: Service;
  readonly lanes: readonly Written[];
  readonly patienceMs: number;
}

/** Loads, as multiples of the capacity, with seconds that give some 400 answers or more. */
const loads = [
  { times: 0.5, seconds: 60 },
  { times: 0.9, seconds: 60 },
  { times: 1.5, seconds: 40 },
  { times: 3, seconds: 24 },
  { times: 10, seconds: 18 },
];
const isOver = (times: number) => times > 1;

/** Upper bound on the load of all windows at a time, so that no process is the bottleneck. */
const rateMax = 4_500;
/** Peers are measured for this share of our time: they are too far off for it to matter. */
const peerShare = 1 / 3;

const services = [
  { places: 1, serviceMs: 40 },
  { places: 10, serviceMs: 400 },
  { places: 50, serviceMs: 2_000 },
];
const setups: readonly Setup[] = services.flatMap((times) => {
  const { places, serviceMs } = times;
  // A deadline that leaves no time for a call and a wait cannot be kept.
  const lanes = writtenLanes.filter(([, , deadlineMs]) => deadlineMs >= 2 * serviceMs);
  const patienceMs = serviceMs > 1_000 ? 5_000 : 1_000;
  return (['constant', 'exponential', 'bimodal'] as const).map((shape) => {
    const name = `${places} x ${serviceMs} ms ${shape}`;
    return { name, service: { ...times, shape }, lanes, patienceMs };
  });
});
const impatient: Setup = {
  name: 'clients wait 1 s, the deadline is 20 s',
  service: { places: 10, serviceMs: 400, shape: 'constant' },
  lanes: [[200, 400, 20_000]],
  patienceMs: 1_000,
};

/**
 * Each window has a lane and a dependency of its own. All run at the same time, since they mostly
 * wait. Ours is measured with every setting, cockatiel with every third one, and the two peers
 * without queue and deadline once for each service.
 */
export const written: Case = {
  run: {
    name: 'numbers as people write them',
    rounds: 1,
    figures: [
      figure('settings measured', '', 'more'),
      ...[impatient, ...setups].flatMap(({ name }) => [
        ...loads
          .filter(({ times }) => isOver(times))
          .map(({ times }) => figure(`${name}: goodput at ${times}x`, '% of the possible', 'more')),
        figure(`${name}: least goodput`, '% of the possible', 'more', atLeast(90, '%')),
        figure(`${name}: most refused at 0.5x`, '%', 'less', atMost(0, '%')),
        figure(`${name}: refused at 0.9x`, '%', 'less', atMost(3, '%')),
        figure(`${name}: most refused at 0.9x`, '%', 'less'),
      ]),
    ],
  },
  isTuned: false,
  async measure(contender, quick) {
    const limit = { fixed: rateMax };
    const rates = new Lane({ name: 'rates', limit, queueMax: 1_000, deadlineMs: Infinity });
    const windows = windowsFor(contender, quick);
    const { port, report } = await contender.start(
      windows.map(({ setup: { service }, lane }) => ({ service, written: lane })),
    );
    const outcomes = await Promise.all(
      windows.map(({ setup: { service, patienceMs }, lane, load: { times, seconds } }, at) => {
        const ratePerSecond = (times * placesOf(service, lane) * 1_000) / service.serviceMs;
        const warmMs = Math.max(quick ? 4_000 : 8_000, 20 * service.serviceMs);
        const share = contender.kind === 'ours' ? 1 : peerShare;
        const ms = quick ? 5_000 : seconds * 1_000 * share;
        const window = { port, path: `/calls/${at}`, ratePerSecond, patienceMs, warmMs, ms };
        // The server limits connections per address, so clients use several addresses.
        const client = { address: address(contender, at), seed: at + 1 };
        const weight = Math.ceil(ratePerSecond);
        return rates.run(() => load({ ...window, ...client }), { weight });
      }),
    );
    const { calls } = await report();
    const results = windows.map((window, at) => {
      return resultOf(window, outcomes[at] as Outcome, calls[at] ?? []);
    });
    const misses = results.map(({ missed }) => missed).filter((missed) => missed !== undefined);
    if (contender.kind === 'ours') console.error(misses.join('\n'));
    return { 'settings measured': windows.length / loads.length, ...figuresOf(results) };
  },
};

/** One lane in front of one dependency at one load. */
interface Window {
  readonly setup: Setup;
  readonly lane: Written | undefined;
  readonly load: (typeof loads)[number];
}

function windowsFor({ kind }: Contender, quick: boolean): Window[] {
  const sample = setups.filter(({ name }) => name === '10 x 400 ms exponential');
  const all = [impatient, ...(quick ? sample : setups)];
  // The longest first, so that no core is idle at the end.
  const sorted = all.toSorted((a, b) => b.service.serviceMs - a.service.serviceMs);
  return sorted.flatMap((setup) => {
    const thirds = setup.lanes.filter((_, at) => at % 3 === 0);
    const lanes = kind === 'ours' ? setup.lanes : kind === 'piscina' ? thirds : [undefined];
    return lanes.flatMap((lane) => loads.map((load) => ({ setup, lane, load })));
  });
}

interface Result {
  readonly name: string;
  readonly times: number;
  /** Good answers in % of what was possible, and refusals in % of the requests. */
  readonly share: number;
  readonly refused: number;
  /** Words for a window that missed its target. */
  readonly missed: string | undefined;
}

function resultOf(window: Window, outcome: Outcome, calls: readonly Call[]): Result {
  const {
    setup: { name },
    lane,
    load: { times },
  } = window;
  const share = (100 * outcome.goodput) / possible(outcome, window, calls);
  const refused = 100 * outcome.refused;
  const isMissed = isOver(times) ? share < 90 : refused > (times < 0.9 ? 0 : 3);
  const got = isOver(times) ? `${share.toFixed()} % good` : `${refused.toFixed(1)} % refused`;
  const missed = isMissed ? `${name}, lane ${lane?.join(', ')}, at ${times}x: ${got}` : undefined;
  return { name, times, share, refused, missed };
}

function figuresOf(results: readonly Result[]): Record<string, number> {
  const figures: Record<string, number> = {};
  for (const [name, own] of Map.groupBy(results, (result) => result.name)) {
    for (const { times } of loads) {
      const at = own.filter((result) => result.times === times);
      const refused = at.map((result) => result.refused);
      figures[`${name}: goodput at ${times}x`] = mean(at.map(({ share }) => share));
      figures[`${name}: refused at ${times}x`] = mean(refused);
      figures[`${name}: most refused at ${times}x`] = Math.max(...refused);
    }
    const over = own.filter(({ times }) => isOver(times));
    figures[`${name}: least goodput`] = Math.min(...over.map(({ share }) => share));
  }
  return figures;
}

function placesOf({ places }: Service, [limit]: Written = [places, 0, 0]): number {
  return Math.min(limit, places);
}

/**
 * Good answers per second that the service times of the window allow if each place is always busy
 * and no call waits. Calls longer than the deadline or their client's time limit are in vain.
 */
function possible(
  { from, to }: Outcome,
  { setup: { service, patienceMs }, lane }: Window,
  calls: readonly Call[],
): number {
  const places = placesOf(service, lane);
  const withinMs = Math.min(patienceMs, lane?.[2] ?? Infinity);
  // A call that is cut off returns its permit, although the service goes on with it.
  const heldMsMax = places < service.places ? withinMs : Infinity;
  const served = calls.filter(([at]) => at >= from && at < to).map(([, ms]) => ms);
  const heldMs = served.reduce((sum, ms) => sum + Math.min(ms, heldMsMax), 0);
  const inTime = served.filter((ms) => ms <= withinMs).length;
  if (inTime === 0) return (places * 1_000) / service.serviceMs;
  return (places * 1_000 * inTime) / heldMs;
}
