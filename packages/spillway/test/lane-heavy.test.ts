import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane, type LaneOptions, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { Dependency } from 'spillway-fixtures/overload';
import { entering } from './fixtures/entering.ts';

const codel = { targetMs: 300, intervalMs: 500 };

/** Shares of the light and of the heavy callers that are served at 2.5 times the load. */
async function sharesServed(options: {
  readonly makeLane: (clock: VirtualClock) => Lane;
  readonly weight: number;
  readonly keyed?: boolean;
}): Promise<{ readonly light: number; readonly heavy: number }> {
  const clock = new VirtualClock();
  const random = seededRandom(1);
  const service = { places: 4, serviceMs: 100, shape: 'constant' } as const;
  const dependency = new Dependency({ clock, random, ...service });
  const lane = options.makeLane(clock);
  const asked = { light: 0, heavy: 0 };
  const served = { light: 0, heavy: 0 };
  for (let i = 0; i < 6_000; i += 1) {
    const kind = random() < 0.05 ? 'heavy' : 'light';
    const weight = kind === 'heavy' ? options.weight : 1;
    const key = options.keyed === true ? `${i}` : undefined;
    // The first ten seconds are those in which the lane finds its size.
    const isCounted = i >= 1_000;
    if (isCounted) asked[kind] += 1;
    const done = lane.run((signal) => dependency.call(signal), { weight, key });
    done.then(
      () => (served[kind] += isCounted ? 1 : 0),
      () => {},
    );
    await clock.advance(10);
  }
  return { light: served.light / asked.light, heavy: served.heavy / asked.heavy };
}

describe('a heavy caller in a standing queue', () => {
  const random = seededRandom(2);
  const measured = (clock: VirtualClock) => {
    return new Lane({ name: 'calls', limit: 20, queueMax: 30, deadlineMs: 2_000, clock, random });
  };
  const fixed = (clock: VirtualClock) => {
    const limit = { fixed: 4 };
    return new Lane({
      name: 'calls',
      limit,
      queueMax: 30,
      deadlineMs: 2_000,
      clock,
      codel,
      random,
    });
  };
  const child = (clock: VirtualClock) => {
    const all = { limit: { fixed: 4 }, queueMax: 30, deadlineMs: 2_000, clock };
    const parent = new Lane({ name: 'all', ...all });
    return new Lane({ name: 'calls', ...all, limit: { fixed: 9 }, codel, random, parent });
  };
  for (const { name, makeLane, weight, keyed } of [
    { name: 'below the size that a lane found', makeLane: measured, weight: 4, keyed: false },
    { name: 'above the size that a lane found', makeLane: measured, weight: 12, keyed: false },
    { name: 'with a key for each caller', makeLane: measured, weight: 12, keyed: true },
    { name: 'with a fixed limit and CoDel', makeLane: fixed, weight: 2, keyed: false },
    { name: 'as heavy as a fixed limit', makeLane: fixed, weight: 4, keyed: false },
    { name: 'inside a full parent', makeLane: child, weight: 3, keyed: false },
  ]) {
    it(`is served about as often as light ones: ${name}`, async () => {
      const { light, heavy } = await sharesServed({ makeLane, weight, keyed });
      assert.ok(light > 0.2, `${light} of the light ones`);
      assert.ok(heavy > 0.5 * light, `${heavy} of the heavy ones, ${light} of the light ones`);
    });
  }
});

describe('permits that are reserved for a heavy caller', () => {
  /** A queue that stands from its first moment, with two of three permits in use. */
  async function scene(options: Partial<LaneOptions> = {}) {
    const clock = new VirtualClock();
    const written = { limit: { fixed: 3 }, queueMax: 9, deadlineMs: 1_000, clock };
    const standing = { targetMs: 900, intervalMs: 0 };
    const lane = new Lane({ name: 'calls', ...written, codel: standing, ...options });
    const held = [await lane.enter(), await lane.enter()];
    return { clock, lane, held };
  }

  it('are not taken by those who come later, unless their priority is higher', async () => {
    const { lane, held } = await scene();
    const order: string[] = [];
    const enter = async (name: string, weight: number, priority: number) => {
      using _permit = await entering(lane, { weight, priority });
      order.push(name);
    };
    const heavy = enter('heavy', 3, 0);
    const light = enter('light', 1, 0);
    await enter('high', 1, 1);
    assert.deepEqual(order, ['high']);
    for (const permit of held) permit[Symbol.dispose]();
    await Promise.all([heavy, light]);
    assert.deepEqual(order, ['high', 'heavy', 'light']);
  });

  it('go to the next waiter when it aborts, is late or can never fit', async () => {
    const { clock, lane } = await scene({ limit: 3 });
    const leaver = new AbortController();
    const aborted = assert.rejects(entering(lane, { weight: 3, signal: leaver.signal }));
    const first = entering(lane);
    assert.equal(lane.stats.waiting, 2);
    leaver.abort();
    (await first)[Symbol.dispose]();
    await aborted;

    const late = entering(lane, { weight: 3, deadlineAt: clock.now() + 50 });
    const tooLate = assert.rejects(Promise.resolve(late), { code: 'DEADLINE' });
    const second = entering(lane);
    await clock.advance(50);
    (await second)[Symbol.dispose]();
    await tooLate;

    const misfit = assert.rejects(entering(lane, { weight: 3 }), { code: 'LANE_FULL' });
    const third = entering(lane);
    lane.resize(2);
    await misfit;
    assert.equal(lane.stats.waiting, 1);
    lane.resize(4);
    (await third)[Symbol.dispose]();
    assert.equal(clock.pending, 0);
  });

  it('let waiters in that fit, when a new child makes the heavy one impossible', async () => {
    const { lane } = await scene({ limit: { fixed: 4 }, codel: undefined });
    const misfit = assert.rejects(entering(lane, { weight: 4 }), { code: 'LANE_FULL' });
    const light = entering(lane);
    new Lane({ name: 'new', limit: 1, queueMax: 0, deadlineMs: 9, guaranteed: 1, parent: lane });
    (await light)[Symbol.dispose]();
    await misfit;
  });

  it('count in the queue: it holds no more than it may, and clearing it refuses all', async () => {
    const { clock, lane } = await scene({ queueMax: 3 });
    const ends = [3, 1, 1, 1, 1].map(async (weight) => {
      return await entering(lane, { weight }).then(
        () => 'in',
        ({ code }) => code,
      );
    });
    assert.equal(lane.stats.waiting, 3);
    lane.clear();
    assert.equal(lane.stats.waiting, 0);
    await clock.advance(0);
    const codes = await Promise.all(ends);
    assert.deepEqual(codes, ['CLEARED', 'LANE_FULL', 'LANE_FULL', 'CLEARED', 'CLEARED']);
    assert.equal(clock.pending, 0);
  });

  it('are the first to go from a full queue if all others have a higher priority', async () => {
    const { lane } = await scene({ queueMax: 2 });
    const heavy = assert.rejects(entering(lane, { weight: 3 }), { code: 'LANE_FULL' });
    const high = [1, 2, 3].map(() => entering(lane, { priority: 1 }));
    await Promise.all([heavy, high[0]]);
    assert.deepEqual([lane.stats.waiting, lane.stats.refused.full], [2, 1]);
    const cleared = high.slice(1).map((each) => assert.rejects(each, { code: 'CLEARED' }));
    lane.clear();
    await Promise.all(cleared);
  });

  it('are no reason to refuse a caller of a higher priority, which goes first', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'calls', limit: 3, queueMax: 9, deadlineMs: 1_000, clock });
    const wait = () => new Promise<void>((done) => void clock.after(100, done));
    // Four at once, so that one has waited at that priority, and the lane knows 100 ms.
    await clock.run(Promise.all([1, 2, 3, 4].map(() => lane.run(wait, { priority: 1 }))));
    const held = [await lane.enter(), await lane.enter()];
    await clock.advance(100);
    const heavy = entering(lane, { weight: 3 });
    const high = entering(lane, { weight: 2, priority: 1, deadlineAt: clock.now() + 110 });
    for (const permit of held) permit[Symbol.dispose]();
    (await high)[Symbol.dispose]();
    (await heavy)[Symbol.dispose]();
    assert.equal(lane.stats.refused.late, 0);
  });

  for (let seed = 1; seed <= 40; seed += 1) {
    it(`come back whatever callers do (${seed})`, async () => {
      const clock = new VirtualClock();
      const random = seededRandom(seed);
      const limit = random() < 0.5 ? 6 : { fixed: 6 };
      const rule = random() < 0.5 ? { targetMs: 20, intervalMs: 10 } : undefined;
      const written = { queueMax: 8, deadlineMs: 100, clock, random };
      const parent = new Lane({ name: 'all', limit: { fixed: 7 }, ...written });
      const lanes = [1, 2].map((at) => {
        return new Lane({ name: `${at}`, limit, ...written, codel: rule, parent });
      });
      const ends: Promise<unknown>[] = [];
      for (let i = 0; i < 400; i += 1) {
        const lane = lanes[random() < 0.7 ? 0 : 1] as Lane;
        const caller = new AbortController();
        clock.after(random() * 150, () => caller.abort());
        const end = lane.run(() => new Promise<void>((done) => void clock.after(20, done)), {
          weight: random() < 0.3 ? 2 + Math.floor(random() * 5) : 1,
          priority: random() < 0.1 ? 1 : 0,
          signal: caller.signal,
          ...(random() < 0.3 ? { key: `${i % 4}` } : {}),
          ...(random() < 0.2 ? { deadlineAt: clock.now() + random() * 100 } : {}),
        });
        ends.push(end.catch(() => {}));
        assert.ok(parent.stats.inside <= 7);
        await clock.advance(random() * 8);
      }
      await clock.advance(1_000);
      await Promise.all(ends);
      for (const { stats } of [parent, ...lanes]) {
        assert.equal(stats.inside, 0);
        assert.equal(stats.waiting, 0);
      }
      assert.equal(clock.pending, 0);
    });
  }
});
