// Slow: simulates hours of traffic.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import {
  Dependency,
  type DependencyOptions,
  type Health,
  play,
  type WrittenLane,
  writtenLanes,
} from 'spillway-fixtures/overload';

type Service = Pick<DependencyOptions, 'places' | 'serviceMs' | 'shape'>;

/** Services that had trouble for a minute, and the share of what they can give after it. */
const recoveries: readonly {
  readonly health: Health;
  readonly service: Service;
  readonly floor: number;
}[] = [
  { health: 'slow', service: serviceOf(1, 40, 'exponential'), floor: 0.9 },
  // Calls that were begun while it was slow hold their places for 4 s in the mean.
  { health: 'slow', service: serviceOf(10, 400, 'exponential'), floor: 0.75 },
  { health: 'slow', service: serviceOf(10, 400, 'bimodal'), floor: 0.75 },
  { health: 'hanging', service: serviceOf(10, 400, 'exponential'), floor: 0.85 },
  { health: 'broken', service: serviceOf(10, 400, 'bimodal'), floor: 0.9 },
];

/** Share of the calls of a shape that take no longer than that. */
function inTimeShare({ serviceMs, shape }: Service, withinMs: number): number {
  if (shape === 'exponential') return 1 - Math.exp(-withinMs / serviceMs);
  return shape === 'bimodal' && withinMs < 5.5 * serviceMs ? 0.9 : 1;
}

function serviceOf(places: number, serviceMs: number, shape: Service['shape']): Service {
  return { places, serviceMs, shape };
}

/** A lane before a service that the test changes; `advance` gives the answers of these seconds. */
function changing(places: number, serviceMs: number, shape: Service['shape'], seed = 3) {
  const clock = new VirtualClock();
  const random = seededRandom(seed);
  const service = { clock, random, places, serviceMs, shape };
  const dependency = new Dependency(service);
  const written = { limit: 200, queueMax: 100, deadlineMs: 2_000 };
  const lane = new Lane({ name: 'calls', ...written, clock, random });
  let good = 0;
  const call = async (priority: number, ownMs: number): Promise<void> => {
    const client = new AbortController();
    const deadlineAt = ownMs < Infinity ? clock.now() + ownMs : undefined;
    using _patience = clock.after(2_000, () => client.abort());
    const entry = { priority, signal: client.signal, deadlineAt };
    await lane.run((signal) => dependency.call(signal), entry);
    good += 1;
  };
  const arrive = (perSecond: number, priority: number, ownMs = Infinity) => {
    let isOver = false;
    const next = (): void => {
      if (isOver) return;
      call(priority, ownMs).catch(() => {});
      clock.after((-Math.log(1 - random()) * 1_000) / perSecond, next);
    };
    next();
    return () => {
      isOver = true;
    };
  };
  const advance = async (seconds: number): Promise<number> => {
    const before = good;
    await clock.advance(seconds * 1_000);
    return good - before;
  };
  return { service, dependency, arrive, advance };
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

describe('a lane before a service that changes', () => {
  it('comes back after a service was slow for a minute, hung or was broken', async () => {
    const seeds = 15;
    for (const { health, service, floor } of recoveries) {
      let after = 0;
      for (let seed = 1; seed <= seeds; seed += 1) {
        const [limit, queueMax, deadlineMs] = writtenLanes[5 + (seed % 3)] as WrittenLane;
        const { goodBySecond } = await play({
          lane: (clock, random) => {
            return new Lane({ name: 'calls', limit, queueMax, deadlineMs, clock, random });
          },
          dependency: service,
          arrivalsPerSecond: 75,
          patienceMs: 1_000,
          seed,
          warmUpS: 0,
          seconds: 95,
          events: [
            { atS: 20, health },
            { atS: 80, health: 'well' },
          ],
        });
        // In the mean of many seconds: ten places of even work end in beats.
        const rate = sumOf(goodBySecond.slice(83, 95)) / 12;
        assert.ok(rate >= 0.4 * 25, `${rate} a second after ${health}, ${service.shape}, ${seed}`);
        after += rate / seeds;
      }
      const { places, serviceMs, shape } = service;
      const share = after / (25 * inTimeShare(service, 1_000));
      assert.ok(share >= floor, `${share} after ${health}, ${places} x ${serviceMs}, ${shape}`);
    }
  });

  it('comes back though most callers have less time than the work takes', async () => {
    for (let seed = 1; seed <= 3; seed += 1) {
      const { dependency, arrive, advance } = changing(10, 400, 'constant', seed);
      arrive(75, 0);
      await advance(20);
      dependency.turn('hanging');
      arrive(700, 0, 50);
      await advance(20);
      dependency.turn('well');
      await advance(3);
      const rate = (await advance(20)) / 20;
      assert.ok(rate >= 0.9 * 25, `${rate} a second of 25, seed ${seed}`);
    }
  });

  it('grows, though it keeps room, when the service bears more', async () => {
    const { service, arrive, advance } = changing(10, 400, 'exponential');
    arrive(200, 0);
    arrive(40, 1);
    await advance(40);
    service.places = 60;
    await advance(60);
    const rate = (await advance(20)) / 20;
    assert.ok(rate >= 120, `${rate} a second of 150`);
  });

  for (const [before, after, shape] of [
    [[10, 400], [2, 400], 'constant'],
    [[10, 400], [2, 400], 'exponential'],
    [[40, 400], [10, 400], 'constant'],
    [[10, 100], [10, 400], 'exponential'],
    [[1, 400], [10, 400], 'bimodal'],
  ] as const) {
    const name = `${before.join(' x ')} ms to ${after.join(' x ')} ms, ${shape}`;
    it(`finds its size again when the service has changed for good: ${name}`, async () => {
      const perSecond = (after[0] * 1_000) / after[1];
      const usual = (before[0] * 1_000) / before[1];
      for (let seed = 1; seed <= 9; seed += 1) {
        const { service, arrive, advance } = changing(before[0], before[1], shape, seed);
        const stop = arrive(3 * usual, 0);
        await advance(60);
        stop();
        service.places = after[0];
        service.serviceMs = after[1];
        arrive(3 * perSecond, 0);
        await advance(45);
        const rate = (await advance(30)) / 30;
        assert.ok(rate >= 0.7 * perSecond, `${rate} a second of ${perSecond}, seed ${seed}`);
      }
    });
  }

  it('does not stay at one call at a time when a narrow service became slower', async () => {
    for (const places of [2, 3]) {
      const { service, arrive, advance } = changing(places, 100, 'constant');
      arrive(places * 15, 0);
      await advance(60);
      service.serviceMs = 200;
      await advance(60);
      const rate = (await advance(20)) / 20;
      assert.ok(rate >= places * 4, `${rate} a second of ${places * 5}`);
    }
  });
});
