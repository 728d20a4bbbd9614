// Slow: simulates hours of traffic.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Breaker, type Clock, Lane, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { Dependency, type Health, type Played, play } from 'spillway-fixtures/overload';

interface Written {
  readonly limit: number;
  readonly queueMax: number;
  readonly deadlineMs: number;
}

/** A service of 25 calls a second, 10 at once, and clients that wait for a second. */
function playLane(
  written: Written,
  load: number,
  events: readonly { readonly atS: number; readonly health: Health }[] = [],
  keys?: number,
): Promise<Played> {
  return play({
    lane: (clock, random) => new Lane({ name: 'calls', ...written, clock, random }),
    dependency: { places: 10, serviceMs: 400, shape: 'constant' },
    arrivalsPerSecond: 25 * load,
    patienceMs: 1_000,
    keys,
    seed: 1,
    warmUpS: 10,
    seconds: 20,
    events,
  });
}

describe('a lane with the numbers that came to mind', () => {
  for (const written of [
    { limit: 12, queueMax: 30, deadlineMs: 800 },
    { limit: 200, queueMax: 400, deadlineMs: 5_000 },
    { limit: 12, queueMax: 4, deadlineMs: 20_000 },
  ]) {
    const { limit, queueMax, deadlineMs } = written;
    const name = `${limit} permits, ${queueMax} waiting, ${deadlineMs} ms`;
    it(`gives what can be given: ${name}`, async () => {
      const light = await playLane(written, 0.5);
      assert.equal(light.refused, 0);
      for (const load of [1.5, 3, 10]) {
        const { good } = await playLane(written, load);
        assert.ok(good / 20 >= 0.85 * 25, `${good / 20} a second at ${load} times the load`);
      }
    });
  }

  it('judges by the wait of the caller, not by that of those it passes', async () => {
    const clock = new VirtualClock();
    const bounds = { limit: 1, queueMax: 99, deadlineMs: 1_000 };
    // By chance two keys would share a sub-queue now and then.
    const lane = new Lane({ name: 'calls', ...bounds, clock, random: seededRandom(1) });
    const call = () => new Promise<void>((resolve) => void clock.after(100, resolve));
    for (let i = 0; i < 8; i += 1) {
      const done = lane.run(call);
      await clock.advance(101);
      await done;
    }
    const refused: unknown[] = [];
    const calls: Promise<void>[] = [];
    for (let i = 0; i < 12; i += 1) {
      calls.push(lane.run(call, { key: 'a' }).catch(({ code }) => void refused.push(code)));
    }
    await clock.advance(1);
    assert.deepEqual(new Set(refused), new Set(['LANE_LATE']));
    calls.push(lane.run(call, { key: 'b' }), lane.run(call, { key: 'a', priority: 1 }));
    await clock.advance(2_000);
    const ends = await Promise.allSettled(calls.slice(-2));
    assert.deepEqual(new Set(ends.map(({ status }) => status)), new Set(['fulfilled']));
    await Promise.allSettled(calls);
  });

  it('refuses those it will not serve, instead of letting them wait for nothing', async () => {
    const written = { limit: 256, queueMax: 2_048, deadlineMs: 20_000 };
    const { good, refused, arrived } = await playLane(written, 10);
    assert.ok(good / 20 >= 0.9 * 25, `${good / 20} a second`);
    assert.ok(refused >= 0.8 * arrived, `${refused} of ${arrived} refused`);
  });

  it('serves those who came last though each has a key of its own', async () => {
    const written = { limit: 12, queueMax: 30, deadlineMs: 800 };
    for (const load of [1.5, 10]) {
      const { good } = await playLane(written, load, [], 100_000);
      assert.ok(good / 20 >= 0.85 * 25, `${good / 20} a second at ${load} times the load`);
    }
  });

  for (const patienceMs of [5, 60, 100, 200]) {
    it(`refuses nobody because others leave after ${patienceMs} ms`, async () => {
      for (const seed of [1, 2, 3]) {
        const { good, arrived } = await play({
          lane: (clock, random) => {
            const written = { limit: 64, queueMax: 256, deadlineMs: 5_000 };
            return new Lane({ name: 'calls', ...written, clock, random });
          },
          dependency: { places: 10, serviceMs: 40, shape: 'exponential', hearsAborts: true },
          arrivalsPerSecond: 225,
          patienceMs: 5_000,
          hurried: { share: 0.25, patienceMs },
          seed,
          warmUpS: 5,
          seconds: 20,
        });
        assert.ok(good >= 0.99 * arrived, `${good} of ${arrived} with seed ${seed}`);
      }
    });
  }

  for (const { places, serviceMs, deadlineMs, load, floor } of [
    { places: 1, serviceMs: 200, deadlineMs: 800, load: 1.5, floor: 0.65 },
    { places: 2, serviceMs: 300, deadlineMs: 500, load: 4, floor: 0.35 },
  ]) {
    it(`finds the size of a small slow service: ${places} x ${serviceMs} ms`, async () => {
      const capacity = (places / serviceMs) * 1_000;
      for (const seed of [1, 2, 3]) {
        const { good } = await play({
          lane: (clock, random) => {
            const written = { limit: 50, queueMax: 50, deadlineMs };
            return new Lane({ name: 'calls', ...written, clock, random });
          },
          dependency: { places, serviceMs, shape: 'constant' },
          arrivalsPerSecond: capacity * load,
          patienceMs: 5_000,
          seed,
          warmUpS: 30,
          seconds: 60,
        });
        const share = good / 60 / capacity;
        assert.ok(share >= floor, `${share} of what it can do, with seed ${seed}`);
      }
    });
  }

  it('begins hardly anything that cannot end in time', async () => {
    const { begun, good } = await playLane({ limit: 50, queueMax: 50, deadlineMs: 300 }, 3);
    assert.equal(good, 0);
    assert.ok(begun <= 100, `${begun} were begun in 20 seconds`);
  });

  it('is back within three seconds when a service that hung goes on', async () => {
    const events = [
      { atS: 10, health: 'hanging' },
      { atS: 20, health: 'well' },
    ] as const;
    const written = { limit: 64, queueMax: 64, deadlineMs: 2_000 };
    const { goodBySecond } = await playLane(written, 3, events);
    const after = goodBySecond.slice(23, 26).reduce((sum, each) => sum + each, 0) / 3;
    assert.ok(after >= 0.85 * 25, `${after} a second`);
  });

  it('keeps its size while a breaker inside refuses, which asked nobody', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'calls', limit: 64, queueMax: 64, deadlineMs: 1_000, clock });
    const breaker = new Breaker({ clock });
    const { limit } = lane.stats;
    using _held = breaker.hold('open');
    for (let call = 0; call < 50; call += 1) {
      const refused = lane.run((signal) => breaker.run(async () => {}, { signal }));
      await assert.rejects(refused, { code: 'BREAKER_OPEN' });
      await clock.advance(20);
    }
    assert.equal(lane.stats.limit, limit);
    assert.equal(lane.stats.outcomes.failed, 50);
  });

  it('tries callers with less time than work took that nobody does any more', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'calls', limit: 50, queueMax: 100, deadlineMs: 20_000, clock });
    const workFor = (ms: number) => () => {
      return new Promise<void>((resolve) => void clock.after(ms, resolve));
    };
    for (let i = 0; i < 40; i += 1) {
      void lane.run(workFor(3_000));
      await clock.advance(500);
    }
    await clock.advance(3_000);
    let good = 0;
    for (let i = 0; i < 600; i += 1) {
      if (i === 400) good = 0;
      const served = lane.run(workFor(50), { deadlineAt: clock.now() + 1_000 });
      served.then(
        () => (good += 1),
        () => {},
      );
      await clock.advance(100);
    }
    assert.equal(good, 200);
  });

  it('tries again after a service hung, though a lane beside it is always full', async () => {
    const clock = new VirtualClock();
    const limit = { fixed: 100 };
    const parent = new Lane({ name: 'all', limit, queueMax: 0, deadlineMs: Infinity, clock });
    const busy = new Lane({ name: 'busy', limit: 4, queueMax: 99, deadlineMs: 5_000, parent });
    const hung = new Lane({ name: 'hung', limit: 50, queueMax: 99, deadlineMs: 1_000, parent });
    const call = () => new Promise<void>((resolve) => void clock.after(100, resolve));
    const hang = (signal: AbortSignal) => {
      return new Promise<void>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    };
    for (let i = 0; i < 2_000; i += 1) {
      void busy.run(call).catch(() => {});
      if (i % 3 === 0) void hung.run(i < 1_000 ? hang : call).catch(() => {});
      await clock.advance(10);
    }
    const { ok } = hung.stats.outcomes;
    assert.ok(ok >= 250, `${ok} of 333 were served after it hung`);
    assert.ok(busy.stats.waiting > 0);
  });

  it('tries each second after a hang, though it was rarely asked before', async () => {
    const clock = new VirtualClock();
    const service = { places: 8, serviceMs: 10, shape: 'constant' } as const;
    const dependency = new Dependency({ clock, random: seededRandom(1), ...service });
    const lane = new Lane({ name: 'rare', limit: 50, queueMax: 99, deadlineMs: 1_000, clock });
    const call = () => void lane.run((signal) => dependency.call(signal)).catch(() => {});
    for (let minute = 0; minute < 20; minute += 1) {
      call();
      await clock.advance(60_000);
    }
    dependency.turn('hanging');
    for (let i = 0; i < 2_000; i += 1) {
      if (i === 1_000) dependency.turn('well');
      call();
      await clock.advance(10);
    }
    const { ok } = lane.stats.outcomes;
    assert.ok(ok > 850, `${ok} of 1,020 were served`);
  });

  for (const seed of [1, 2, 3, 4]) {
    it(`serves again after a slow time, beside one that is always full (${seed})`, async () => {
      const played = await play({
        lane: (clock, random) => {
          const numbers = { queueMax: 2_048, deadlineMs: 20_000 };
          const parent = new Lane({ name: 'all', limit: { fixed: 1_024 }, ...numbers, clock });
          const busy = new Lane({ name: 'busy', limit: { fixed: 1 }, ...numbers, parent });
          const call = () => new Promise<void>((resolve) => void clock.after(10, resolve));
          const keepFull = () => {
            while (busy.stats.waiting < 100) void busy.run(call).catch(() => {});
            clock.after(100, keepFull);
          };
          keepFull();
          return new Lane({ name: 'slow', limit: 256, ...numbers, parent, random });
        },
        dependency: { places: 8, serviceMs: 80, shape: 'exponential' },
        arrivalsPerSecond: 300,
        patienceMs: 1_000,
        seed,
        warmUpS: 0,
        seconds: 60,
        events: [
          { atS: 10, health: 'slow' },
          { atS: 40, health: 'well' },
        ],
      });
      const mean = (from: number, to: number) => {
        const seconds = played.goodBySecond.slice(from, to);
        return seconds.reduce((sum, good) => sum + good, 0) / seconds.length;
      };
      assert.ok(mean(43, 60) > 85, `${mean(43, 60)} of 100 a second after it`);
      assert.ok(mean(12, 40) > 1, `${mean(12, 40)} of 10 a second meanwhile`);
    });
  }

  it('sets one timer for all who wait, whatever deadlines of their own they have', async () => {
    const clock = new VirtualClock();
    let timers = 0;
    const counting: Clock = {
      now: () => clock.now(),
      after: (ms, callback) => {
        timers += 1;
        return clock.after(ms, callback);
      },
    };
    const bounds = { limit: { fixed: 1 }, queueMax: 1_000, deadlineMs: 20_000 };
    const lane = new Lane({ name: 'calls', ...bounds, clock: counting });
    using _permit = await lane.enter();
    for (let i = 0; i < 1_000; i += 1) {
      const own = lane.enter({ deadlineAt: i < 999 ? 1_000 + i : 500 });
      void Promise.resolve(own).catch(() => {});
    }
    assert.equal(timers, 2);
    await clock.advance(500);
    assert.equal(lane.stats.refused.deadline, 1);
    await clock.advance(700);
    assert.equal(lane.stats.refused.deadline, 202);
  });

  it('hears at once that work which was very fast has begun to hang', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'calls', limit: 50, queueMax: 100, deadlineMs: 1_000, clock });
    for (let i = 0; i < 5_000; i += 1) {
      await lane.run(async () => {});
      if (i % 100 === 0) await clock.advance(1);
    }
    let begun = 0;
    const hang = (signal: AbortSignal) => {
      begun += 1;
      return new Promise<void>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    };
    for (let i = 0; i < 1_200; i += 1) {
      void lane.run(hang).catch(() => {});
      await clock.advance(25);
    }
    assert.ok(begun <= 100, `${begun} calls were begun in 30 s`);
  });
});
