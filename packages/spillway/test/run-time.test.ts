import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Backlog, Bucket, Gate, Lane, type LaneOptions, Pool, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { entering } from './fixtures/entering.ts';
import { SimulatedThreads } from './fixtures/simulated-threads.ts';
import * as worker from './fixtures/simulated-worker.ts';

type Way = Gate | Lane;

/** Sends so many callers in, who stay, and gives what became of each. */
function crowd(way: Way, count: number): string[] {
  const fates = Array<string>(count).fill('waits');
  for (const i of fates.keys()) {
    void entering(way).then(
      () => {
        fates[i] = 'in';
      },
      (error) => {
        fates[i] = error.code;
      },
    );
  }
  return fates;
}

const ticks = () => new Promise(setImmediate);
const base = { name: 'work', queueMax: 9, deadlineMs: 1_000 };
/** For lanes on the real clock: a machine that stands still for a second ends no wait. */
const real = { ...base, deadlineMs: 60_000 };

describe('changes at run time', () => {
  const ways: Readonly<Record<string, (limit: number, queueMax: number) => Way>> = {
    'a Gate': (limit, queueMax) => new Gate({ limit, queueMax }),
    'a Lane': (limit, queueMax) => new Lane({ ...real, limit, queueMax }),
    'a fixed Lane': (limit, queueMax) => new Lane({ ...real, limit: { fixed: limit }, queueMax }),
  };
  for (const [name, make] of Object.entries(ways)) {
    it(`${name} that grows lets waiters in; one that shrinks sends nobody out`, async () => {
      const way = make(1, 9);
      const fates = crowd(way, 6);
      await ticks();
      assert.deepEqual([way.stats.inside, way.stats.waiting], [1, 5]);
      way.resize(4);
      await ticks();
      assert.deepEqual(fates, ['in', 'in', 'in', 'in', 'waits', 'waits']);
      way.resize(2);
      assert.deepEqual([way.stats.limit, way.stats.inside, way.stats.waiting], [2, 4, 2]);
      assert.equal(way.tryEnter(), undefined);
      const more = crowd(way, 7);
      await ticks();
      assert.equal(more.filter((fate) => fate === 'waits').length, 7, 'the queue is as long');
      assert.throws(() => way.resize(0), /(Gate|Lane)\.resize: limit: must be an integer from 1/);
    });

    it(`${name} that is paused lets nobody in, and all that fit once it is resumed`, async () => {
      const way = make(2, 3);
      way.pause();
      way.pause();
      assert.equal(way.tryEnter(), undefined);
      const fates = crowd(way, 3);
      await ticks();
      assert.deepEqual(fates, ['waits', 'waits', 'waits']);
      assert.equal(way.stats.limit, 0);
      way.resize(3);
      await ticks();
      assert.deepEqual([way.stats.inside, way.stats.waiting], [0, 3], 'it stays paused');
      way.resume();
      await ticks();
      assert.deepEqual(fates, ['in', 'in', 'in']);
      assert.deepEqual([way.stats.limit, way.stats.inside], [3, 3]);
      way.resume();
      assert.equal(way.stats.limit, 3);
    });
  }

  it('a paused lane keeps the deadlines of those who wait', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ ...base, limit: 2, clock });
    lane.pause();
    const late = assert.rejects(entering(lane), { code: 'DEADLINE' });
    await clock.run(late);
    assert.equal(clock.now(), 1_000);
    lane.resume();
    assert.ok(lane.tryEnter());
  });

  it('a paused lane pauses those inside it, also new ones and those with a guarantee', async () => {
    const root = new Lane({ ...real, limit: { fixed: 4 } });
    const child = (own: Partial<LaneOptions>) =>
      new Lane({ ...real, limit: 4, parent: root, ...own });
    const [sure, paused] = [child({ guaranteed: 2 }), child({})];
    paused.pause();
    root.pause();
    const late = child({});
    const lanes = [root, sure, paused, late];
    assert.deepEqual(
      lanes.map((lane) => lane.tryEnter()),
      [undefined, undefined, undefined, undefined],
    );
    root.resume();
    const entered = lanes.map((lane) => lane.tryEnter() !== undefined);
    assert.deepEqual(entered, [true, true, false, true], 'one is paused by itself');
    assert.throws(() => root.resize(1), /limit: must be an integer from 2/);
  });

  it('a smaller lane refuses waiters that weigh too much for it', async () => {
    const lane = new Lane({ ...real, limit: { fixed: 4 } });
    using _held = lane.tryEnter();
    const heavy = assert.rejects(entering(lane, { weight: 4 }), { code: 'LANE_FULL' });
    lane.resize(3);
    await heavy;
    assert.throws(() => lane.enter({ weight: 4 }), /weight: must be an integer from 1 to 3/);
  });

  it('a lane whose limit is a rule is not resized', () => {
    const lane = new Lane({ ...real, limit: { size: 4, sizeMax: 4, observe() {} } });
    assert.throws(() => lane.resize(2), /resize: must be of a lane whose limit is a number/);
    for (const half of [{ size: 4 }, { size: 4, sizeMax: Number.NaN, observe() {} }]) {
      const make = () => new Lane({ ...base, limit: half as never });
      assert.throws(make, /limit: must be an integer from 1, .* or a Limit/);
    }
  });

  it('a bucket gives the next token sooner or later, by its new rate', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 0.1, queueMax: 100, clock });
    assert.ok(bucket.tryTake());
    const grants: number[] = [];
    const calls = Array.from({ length: 11 }, async () => {
      await bucket.take();
      grants.push(clock.now());
    });
    await clock.advance(5_000);
    assert.deepEqual(grants, []);
    bucket.resize({ ratePerSecond: 10 });
    await clock.advance(100);
    assert.equal(grants[0], 5_050, 'half of the time was over');
    bucket.resize({ ratePerSecond: 1 });
    await clock.run(Promise.all(calls));
    assert.ok(Math.abs((grants.at(-1) ?? 0) - 14_600) < 1, grants.join());
    assert.equal(bucket.stats.ratePerSecond, 1);
    assert.throws(
      () => bucket.resize({ ratePerSecond: 0 }),
      /Bucket\.resize: ratePerSecond: must be/,
    );
    const nothing = () => (bucket.resize as () => void).call(bucket);
    assert.throws(nothing, /Bucket\.resize: options: must be an object, got undefined/);
  });

  it('a bucket that shrinks still serves those who wait for more than its new burst', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 1_000, queueMax: 9, clock });
    assert.ok(bucket.tryTake(20));
    const call = bucket.take(15);
    bucket.resize({ ratePerSecond: 10 });
    await clock.run(call);
    assert.ok(clock.now() <= 1_510, String(clock.now()));
  });

  it('a bucket slowed by 429s stays slowed when it grows', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 100, queueMax: 9, clock });
    assert.ok(bucket.tryTake());
    bucket.slow({ retryAfterMs: 2_000 });
    bucket.resize({ ratePerSecond: 1_000 });
    assert.equal(bucket.stats.ratePerSecond, 50);
    assert.equal(bucket.stats.pausedMs, 2_000);
    bucket.resize({ ratePerSecond: 10 });
    assert.ok(bucket.stats.ratePerSecond <= 5);
  });
});

/** A part that lets one begin, and two once it is resized. */
interface Scene {
  readonly part: { pause(): void; resume(): void; clear(): void };
  resize(): void;
  /** Sends one more, who stays; rejects when it is refused. */
  send(): Promise<unknown>;
  begun(): number;
}

const never = new Promise<never>(() => {});

const scenes: Readonly<Record<string, (clock: VirtualClock) => Promise<Scene>>> = {
  Gate: async () => scene(new Gate({ limit: 1, queueMax: 9 })),
  Lane: async (clock) => scene(new Lane({ ...base, limit: { fixed: 1 }, clock })),
  Bucket: async (clock) => {
    const part = new Bucket({ ratePerSecond: 0.001, queueMax: 9, clock });
    const resize = () => part.resize({ ratePerSecond: 100 });
    return { part, resize, send: () => part.take(), begun: () => part.stats.taken };
  },
  Backlog: async (clock) => {
    const drops: ((error: unknown) => void)[] = [];
    const part = new Backlog<number>({
      queueMax: 9,
      clock,
      consume: () => never,
      onDrop: (id, reason) => drops[id]?.({ code: reason.toUpperCase() }),
    });
    const send = () => new Promise((_, drop) => part.add(drops.push(drop) - 1));
    return { part, resize: () => part.resize(2), send, begun: () => part.stats.running };
  },
  Pool: async (clock) => {
    const random = seededRandom(1);
    const world = {
      clock,
      begun: new Map<number, number>(),
      inside: new Set<number>(),
      latest: new Map<string, number>(),
      overtakings: 0,
      overlaps: 0,
      sleeping: 0,
      setupMs: 0,
      workers: 0,
      mixes: 0,
    };
    worker.simulate(world);
    const { start: threads } = new SimulatedThreads({ clock, random, delayMsMax: 0 });
    const module = new URL('./fixtures/simulated-worker.ts', import.meta.url);
    const options = { ...base, module, workers: 1, clock, random, threads };
    const part = await clock.run(Pool.open<typeof worker>(options));
    let sent = 0;
    const run = (ms: number) => {
      sent += 1;
      return part.run('work', { id: sent, ms });
    };
    const begun = () => world.begun.size;
    return { part, resize: () => part.resize(2), send: () => run(Infinity), begun, run };
  },
};

function scene(part: Gate | Lane): Scene {
  const send = () => part.run(() => never);
  return { part, resize: () => part.resize(2), send, begun: () => part.stats.inside };
}

describe('pause, resume, resize and clear', () => {
  for (const [name, open] of Object.entries(scenes)) {
    it(`of a ${name}`, async () => {
      const clock = new VirtualClock();
      const { part, resize, send, begun } = await open(clock);
      const refused: unknown[] = [];
      const begunAfter = async (change: () => void) => {
        change();
        await clock.advance(10);
        return [begun(), ...refused];
      };
      part.pause();
      const sendAll = () => {
        for (let n = 0; n < 4; n += 1) send().catch((error) => refused.push(error.code));
      };
      assert.deepEqual(await begunAfter(sendAll), [0], 'paused');
      assert.deepEqual(await begunAfter(() => part.resume()), [1], 'resumed');
      assert.deepEqual(await begunAfter(resize), [2], 'resized');
      assert.deepEqual(await begunAfter(() => part.clear()), [2, 'CLEARED', 'CLEARED'], 'cleared');
    });
  }
});

describe('closing a part that is paused', () => {
  for (const isFirst of [true, false]) {
    const when = isFirst ? 'before' : 'after closing began';
    it(`finishes what waits, paused ${when}: Lane, Backlog, Pool`, async () => {
      const clock = new VirtualClock();
      const outer = new Lane({ ...base, limit: 1, clock });
      const lane = new Lane({ ...base, name: 'inner', limit: 1, parent: outer, clock });
      const backlog = new Backlog<number>({ queueMax: 9, clock, consume: () => {} });
      const open = scenes.Pool as (clock: VirtualClock) => Promise<Scene>;
      const { part, run } = (await open(clock)) as Scene & {
        readonly part: Pool<typeof worker>;
        run(ms: number): Promise<unknown>;
      };
      const parts = [outer, lane, backlog, part];
      const pause = () => parts.forEach((each) => void each.pause());
      const inside = await lane.enter();
      if (isFirst) pause();
      const done = [lane.run(async () => {}), run(1), run(1)];
      backlog.add(1);
      await clock.advance(0);
      const closed = parts.map((each) => each.close({ withinMs: 1_000 }));
      if (!isFirst) pause();
      inside[Symbol.dispose]();
      await clock.run(Promise.all([...done, ...closed]));
      assert.ok(clock.now() < 100, `${clock.now()} ms`);
    });
  }
});
