// Slow: simulates hours of traffic.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane } from 'spillway';
import {
  type DependencyOptions,
  type Played,
  play,
  type WrittenLane,
  writtenLanes,
} from 'spillway-fixtures/overload';

type Service = Pick<DependencyOptions, 'places' | 'serviceMs' | 'shape'>;

const seconds = 15;

/**
 * Services of 25 calls a second, and the share of what is possible that a lane gives from 1.5 to 10
 * times the load: in the mean of the settings, and at least. Where it is less than 0.9, a few dozen
 * service times of this shape say too little about their mean (docs/decisions/overload.md).
 */
const services: readonly (Service & { readonly mean: number; readonly least: number })[] = [
  { places: 1, serviceMs: 40, shape: 'constant', mean: 0.98, least: 0.95 },
  { places: 1, serviceMs: 40, shape: 'exponential', mean: 0.96, least: 0.92 },
  { places: 1, serviceMs: 40, shape: 'bimodal', mean: 0.93, least: 0.8 },
  { places: 10, serviceMs: 400, shape: 'constant', mean: 0.96, least: 0.85 },
  { places: 10, serviceMs: 400, shape: 'exponential', mean: 0.93, least: 0.82 },
  { places: 10, serviceMs: 400, shape: 'bimodal', mean: 0.95, least: 0.88 },
  { places: 50, serviceMs: 2_000, shape: 'constant', mean: 0.97, least: 0.9 },
  { places: 50, serviceMs: 2_000, shape: 'exponential', mean: 0.9, least: 0.78 },
  { places: 50, serviceMs: 2_000, shape: 'bimodal', mean: 0.93, least: 0.82 },
];

/** Milliseconds for which the clients of a service wait. */
function patienceMsOf({ serviceMs }: Service): number {
  return serviceMs > 1_000 ? 5_000 : 1_000;
}

function placesOf({ places }: Service, [limit]: WrittenLane): number {
  return Math.min(limit, places);
}

interface Scene {
  readonly load: number;
  readonly seed: number;
  readonly warmUpS: number;
  /** @default 15 */
  readonly seconds?: number;
}

function playWritten(service: Service, written: WrittenLane, scene: Scene): Promise<Played> {
  const [limit, queueMax, deadlineMs] = written;
  const { load, ...rest } = scene;
  const name = 'calls';
  return play({
    lane: (clock, random) => new Lane({ name, limit, queueMax, deadlineMs, clock, random }),
    dependency: service,
    arrivalsPerSecond: (load * placesOf(service, written) * 1_000) / service.serviceMs,
    patienceMs: patienceMsOf(service),
    seconds,
    ...rest,
  });
}

/** The scene of all settings: one seed, and time to learn. */
function usualScene({ serviceMs }: Service, load: number): Scene {
  return { load, seed: 1, warmUpS: Math.max(8, (15 * serviceMs) / 1_000) };
}

/**
 * Good answers over those that the service times of this play allow: each place works all the time,
 * and no call has to wait. Calls that take longer than their client or the deadline are in vain.
 */
async function shareOf(service: Service, written: WrittenLane, scene: Scene): Promise<number> {
  const { good, served } = await playWritten(service, written, scene);
  const [limit, , deadlineMs] = written;
  const withinMs = Math.min(deadlineMs, patienceMsOf(service));
  // A call that is cut gives its permit back, though the service goes on with it.
  const heldMsMax = limit < service.places ? withinMs : Infinity;
  const heldMs = served.reduce((sum, ms) => sum + Math.min(ms, heldMsMax), 0);
  const inTime = served.filter((ms) => ms <= withinMs).length;
  const perSecond = good / (scene.seconds ?? seconds);
  return perSecond / ((placesOf(service, written) * 1_000 * inTime) / heldMs);
}

/** Settings whose deadline leaves time for a call and a wait: others cannot be kept. */
function keepable(service: Service): readonly WrittenLane[] {
  return writtenLanes.filter(([, , deadlineMs]) => deadlineMs >= 2 * service.serviceMs);
}

function serviceOf(places: number, serviceMs: number, shape: Service['shape']): Service {
  return { places, serviceMs, shape };
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

describe('the promise of a lane, whatever numbers it was given', () => {
  for (const service of services) {
    const { places, serviceMs, shape, mean, least } = service;
    const name = `${places} x ${serviceMs} ms, ${shape}`;
    it(`gives what can be given from 1.5 to 10 times the load: ${name}`, async () => {
      const shares: number[] = [];
      for (const [i, written] of keepable(service).entries()) {
        const load = [1.5, 3, 10][i % 3] as number;
        const share = await shareOf(service, written, usualScene(service, load));
        assert.ok(share >= least, `${share} with ${written} at ${load} times the load`);
        shares.push(share);
      }
      const sum = sumOf(shares);
      assert.ok(sum >= mean * shares.length, `${sum / shares.length} in the mean`);
    });

    it(`refuses nobody at half of the load, and few at nine tenths: ${name}`, async () => {
      let arrived = 0;
      let refused = 0;
      for (const [i, written] of keepable(service).entries()) {
        const isLight = i % 2 === 0;
        const scene = usualScene(service, isLight ? 0.5 : 0.9);
        const played = await playWritten(service, written, scene);
        if (isLight) assert.equal(played.refused, 0, `with ${written}`);
        arrived += isLight ? 0 : played.arrived;
        refused += isLight ? 0 : played.refused;
      }
      assert.ok(refused <= 0.03 * arrived, `${refused} of ${arrived} at nine tenths`);
    });
  }

  for (const [places, serviceMs, deadlineMs, patienceMs] of [
    [1, 2_000, 5_000, 5_000],
    [1, 1_500, 20_000, 4_000],
    [1, 1_200, 2_000, 2_000],
    [2, 5_000, 12_000, 12_000],
  ] as const) {
    const perSecond = (places * 1_000) / serviceMs;
    const name = `${places} x ${serviceMs} ms within ${deadlineMs} ms`;
    it(`lets a slow service that hears no abort work off what it has: ${name}`, async () => {
      const { goodBySecond } = await play({
        lane: (clock, random) => {
          return new Lane({ name, limit: 12, queueMax: 30, deadlineMs, clock, random });
        },
        dependency: { places, serviceMs, shape: 'constant' },
        arrivalsPerSecond: 3 * perSecond,
        patienceMs,
        seed: 1,
        warmUpS: 0,
        seconds: 900,
        events: [
          { atS: 300, health: 'slow' },
          { atS: 360, health: 'well' },
        ],
      });
      const share = (from: number, to: number) => {
        return sumOf(goodBySecond.slice(from, to)) / (to - from) / perSecond;
      };
      assert.ok(share(100, 300) > 0.4, `${share(100, 300)} after the start`);
      assert.ok(share(600, 900) > 0.6, `${share(600, 900)} after it was slow`);
    });
  }

  it('is not misled by one comparison of sizes where times differ by chance', async () => {
    const service = serviceOf(10, 400, 'exponential');
    const shares: number[] = [];
    for (const written of [
      [50, 50, 1_000],
      [200, 100, 2_000],
    ] as const) {
      for (const seed of [301, 302, 303]) {
        shares.push(await shareOf(service, written, { load: 1.5, seed, warmUpS: 8, seconds: 40 }));
      }
    }
    const mean = sumOf(shares) / shares.length;
    assert.ok(mean >= 0.93, `${mean} in the mean of ${shares}`);
  });

  it('is not misled by slow calls that go on after their callers have left', async () => {
    const service = serviceOf(10, 400, 'bimodal');
    for (const [seed, load, written] of [
      [7_001, 10, [50, 10, 5_000]],
      [7_001, 10, [200, 100, 2_000]],
      [8_001, 1.5, [50, 50, 1_000]],
    ] as const) {
      const share = await shareOf(service, written, { load, seed, warmUpS: 8 });
      assert.ok(share >= 0.9, `${share} with ${written} at ${load} times the load, seed ${seed}`);
    }
  });

  it('finds the size of a wide service whose first calls were quick by chance', async () => {
    const service = serviceOf(50, 2_000, 'exponential');
    for (const [seed, load, written] of [
      [202, 10, [200, 4, 20_000]],
      [9_001, 10, [200, 4, 20_000]],
      [9_001, 10, [50, 200, 20_000]],
      [9_103, 1.5, [200, 4, 20_000]],
      [9_010, 3, [200, 400, 5_000]],
      [526, 1.5, [200, 400, 5_000]],
    ] as const) {
      const share = await shareOf(service, written, { load, seed, warmUpS: 30 });
      assert.ok(share >= 0.8, `${share} with ${written} at ${load} times the load, seed ${seed}`);
    }
  });

  it('keeps a client that asks for 100 times its share from nine others', async () => {
    for (const written of [
      [50, 50, 1_000],
      [256, 2_048, 20_000],
    ] as const) {
      const [limit, queueMax, deadlineMs] = written;
      const others = 0.8 * 0.9 * 25;
      const served: number[] = [];
      for (const flood of [0, 250]) {
        const { good, arrived } = await play({
          lane: (clock, random) => {
            return new Lane({ name: 'calls', limit, queueMax, deadlineMs, clock, random });
          },
          dependency: serviceOf(1, 40, 'constant'),
          arrivalsPerSecond: others + flood,
          keys: 9,
          flood: flood / (flood + others),
          patienceMs: 1_000,
          seed: 1,
          warmUpS: 10,
          seconds: 20,
        });
        served.push(good / arrived);
      }
      const [alone = 0, flooded = 0] = served;
      assert.ok(flooded >= 0.95 * alone, `${flooded} of ${alone} with ${written}`);
    }
  });

  it('keeps room for callers of a higher priority', async () => {
    for (const [shape, least] of [
      ['constant', 0.97],
      ['exponential', 0.84],
    ] as const) {
      const shares: number[] = [];
      for (const seed of [31, 32, 33, 41, 42, 43]) {
        const { good, arrived } = await play({
          lane: (clock, random) => {
            const written = { limit: 50, queueMax: 50, deadlineMs: 1_000 };
            return new Lane({ name: 'calls', ...written, clock, random });
          },
          dependency: serviceOf(10, 400, shape),
          arrivalsPerSecond: 75,
          raised: 0.2,
          patienceMs: 1_000,
          seed,
          warmUpS: 10,
          seconds: 40,
        });
        shares.push(good / arrived);
      }
      const mean = sumOf(shares) / shares.length;
      assert.ok(mean >= least, `${mean} of them in the mean, with ${shape} times`);
    }
  });

  it('does not shrink because most callers leave in the middle of the service', async () => {
    for (const shape of ['constant', 'exponential'] as const) {
      const good: number[] = [];
      for (const limit of [100, { fixed: 4 }]) {
        const played = await play({
          lane: (clock, random) => {
            return new Lane({ name: 'x', limit, queueMax: 200, deadlineMs: 2_000, clock, random });
          },
          dependency: { places: 4, serviceMs: 50, shape, hearsAborts: true },
          arrivalsPerSecond: 800,
          patienceMs: 60_000,
          hurried: { share: 0.9, patienceMs: 25 },
          seed: 1,
          warmUpS: 5,
          seconds: 10,
        });
        good.push(played.good);
      }
      const [found = 0, fixed = 0] = good;
      assert.ok(found >= 0.9 * fixed, `${found} good answers, ${fixed} with the right limit`);
    }
  });
});
