// Slow: plays many random schedules.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane, type LaneStats, type Permit, type Random } from 'spillway';
import { explore, VirtualClock } from 'spillway/testing';
import { entering } from './fixtures/entering.ts';

function sleep(clock: VirtualClock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.after(ms, resolve));
}

describe('lanes inside a lane', () => {
  it('refuse a parent of another copy of the package, and say so', async () => {
    const copy = await import(new URL('../src/lane/lane.ts?copy', import.meta.url).href);
    const options = { name: 'process', limit: 1, queueMax: 0, deadlineMs: 1_000 };
    const parent = new copy.Lane(options);
    const rule = /^Lane: parent: must be a Lane of the same copy of spillway, got Lane/;
    assert.throws(() => new Lane({ ...options, parent }), { message: rule });
  });

  it('share the parent’s permits, never past their own limit', async () => {
    const deadlineMs = 60_000;
    const process = new Lane({ name: 'process', limit: 6, queueMax: 9, deadlineMs });
    const parent = process;
    const schedule = new Lane({ name: 'schedule', limit: 5, queueMax: 4, deadlineMs, parent });
    const held: Permit[] = [];
    for (let i = 0; i < 5; i += 1) held.push(await schedule.enter());
    assert.equal(schedule.tryEnter(), undefined, 'its own limit');
    held.push(await process.enter());
    assert.equal(process.tryEnter(), undefined, 'the parent’s limit');
    held.shift()?.[Symbol.dispose]();
    held.push(await process.enter());
    assert.equal(schedule.tryEnter(), undefined, 'the permit went to the parent’s caller');
    for (const permit of held) permit[Symbol.dispose]();
    assert.equal(process.stats.inside, 0);
    assert.equal(process.stats.arrived, 3, 'each caller is counted once, in the lane it came to');
    const [inner] = process.stats.lanes;
    assert.deepEqual([inner?.arrived, inner?.parent], [7, 'process']);
  });

  it('keep what is guaranteed to them, however full the others are', async () => {
    const clock = new VirtualClock();
    const deadlineMs = 60_000;
    const parent = new Lane({ name: 'process', limit: 200, queueMax: 0, deadlineMs, clock });
    const flood = new Lane({
      name: 'flood',
      limit: { fixed: 200 },
      queueMax: 1_000,
      deadlineMs,
      parent,
    });
    const share = { guaranteed: 10, limit: { fixed: 200 }, queueMax: 0 };
    const beat = new Lane({ name: 'beat', ...share, deadlineMs, parent });
    const flooding = Array.from({ length: 1_000 }, () => flood.run(() => sleep(clock, 1_000)));
    const beats: Permit[] = [];
    for (let i = 0; i < 10; i += 1) beats.push(await beat.enter());
    assert.equal(parent.stats.inside, 200);
    assert.equal(flood.stats.inside, 190);
    assert.equal(beat.tryEnter(), undefined, 'an eleventh would have to borrow');
    for (const permit of beats) permit[Symbol.dispose]();
    assert.equal(flood.stats.inside, 190, 'what is guaranteed is not lent');
    await clock.run(Promise.all(flooding));
    assert.equal(flood.stats.finished, 1_000);
  });

  it('have their promises kept by the lanes above their parent', async () => {
    const common = { queueMax: 0, deadlineMs: 1_000 };
    const root = new Lane({ name: 'root', limit: 4, ...common });
    const middle = new Lane({ name: 'middle', limit: 3, parent: root, ...common });
    const held = [middle.tryEnter(), root.tryEnter()];
    const leaf = new Lane({ name: 'leaf', limit: 2, guaranteed: 2, parent: middle, ...common });
    assert.ok(held.every(Boolean));
    assert.equal(root.tryEnter(), undefined, 'two are taken and two are promised');
    held.push(leaf.tryEnter(), leaf.tryEnter());
    assert.ok(held.every(Boolean));
    assert.equal(root.stats.inside, 4);
    for (const permit of held) permit?.[Symbol.dispose]();
    const all = [root.tryEnter(), root.tryEnter(), root.tryEnter()];
    assert.deepEqual(all.map(Boolean), [true, true, false], 'nothing was lost on the way back');
  });

  it('take turns when all want the same permits', async () => {
    const clock = new VirtualClock();
    const common = { queueMax: 100, deadlineMs: 60_000 };
    const parent = new Lane({ name: 'all', limit: 1, ...common, clock });
    const big = new Lane({ name: 'big', limit: 1, parent, ...common });
    const small = new Lane({ name: 'small', limit: 1, parent, ...common });
    const seen: string[] = [];
    const work = [big, small].flatMap((lane) =>
      Array.from({ length: 8 }, () =>
        lane.run(async () => {
          seen.push(lane.name[0] as string);
          await sleep(clock, 10);
        }),
      ),
    );
    await clock.run(Promise.all(work));
    assert.equal(seen.join(''), 'bbsbsbsbsbsbsbss', 'the first found the lane empty');
  });

  it('count anew what is borrowed when a promise is made while they are in use', () => {
    const common = { queueMax: 0, deadlineMs: 1_000 };
    const root = new Lane({ name: 'root', limit: 3, ...common });
    const options = { name: 'middle', limit: 3, guaranteed: 1, parent: root };
    const middle = new Lane({ ...options, ...common });
    const own = middle.tryEnter();
    new Lane({ name: 'leaf', limit: 1, guaranteed: 1, parent: middle, ...common });
    own?.[Symbol.dispose]();
    const all = [root.tryEnter(), root.tryEnter(), root.tryEnter()];
    assert.deepEqual(all.map(Boolean), [true, true, false], 'one of three is the leaf’s');
  });

  it('count it anew in all lanes above', () => {
    const common = { queueMax: 0, deadlineMs: 1_000 };
    const root = new Lane({ name: 'root', limit: 4, ...common });
    const high = new Lane({ name: 'high', limit: 4, parent: root, ...common });
    const options = { name: 'low', limit: 4, guaranteed: 1, parent: high };
    const low = new Lane({ ...options, ...common });
    const own = low.tryEnter();
    new Lane({ name: 'leaf', limit: 1, guaranteed: 1, parent: low, ...common });
    own?.[Symbol.dispose]();
    const all = [1, 2, 3, 4].map(() => root.tryEnter());
    assert.deepEqual(all.map(Boolean), [true, true, true, false], 'one of four is the leaf’s');
  });

  it('keep what is guaranteed to them, though a lane beside them waits', async () => {
    const common = { queueMax: 9, deadlineMs: 1_000 };
    const root = new Lane({ name: 'root', limit: { fixed: 2 }, ...common });
    const api = new Lane({ name: 'api', limit: { fixed: 2 }, parent: root, ...common });
    const bulk = new Lane({ name: 'bulk', limit: { fixed: 2 }, parent: api, ...common });
    const beat = new Lane({ name: 'beat', limit: 1, guaranteed: 1, parent: api, ...common });
    using _other = root.tryEnter();
    const waiting = assert.rejects(entering(bulk), { code: 'CLEARED' });
    using permit = beat.tryEnter();
    assert.ok(permit, 'nobody else may have the permit that it is guaranteed');
    bulk.clear();
    await waiting;
  });

  it('let no light caller of one overtake a heavy caller of another for ever', async () => {
    const clock = new VirtualClock();
    const common = { limit: 4, queueMax: 100, deadlineMs: 60_000 };
    const parent = new Lane({ name: 'all', ...common, clock });
    const heavy = new Lane({ name: 'heavy', parent, ...common });
    const light = new Lane({ name: 'light', parent, ...common });
    // Ten light ones always want in, and end one after the other: four are never free at once.
    for (let i = 0; i < 100; i += 1) {
      clock.after(i * 10, () => void light.run(() => sleep(clock, 45)));
    }
    await clock.advance(200);
    const entered = entering(heavy, { weight: 4 }).then((permit) => {
      permit[Symbol.dispose]();
      return clock.now();
    });
    await clock.advance(2_000);
    const at = await entered;
    assert.ok(at <= 300, `the heavy one got in at ${at} ms`);
    assert.equal(light.stats.finished, 100);
  });

  it('refuse at arrival a weight that can never fit, and go on', async () => {
    const common = { queueMax: 9, deadlineMs: Infinity };
    const root = new Lane({ name: 'root', limit: 4, ...common });
    const a = new Lane({ name: 'a', limit: 4, guaranteed: 3, parent: root, ...common });
    const b = new Lane({ name: 'b', limit: 4, parent: root, ...common });
    assert.throws(() => b.enter({ weight: 2 }), { code: 'LANE_FULL' });
    assert.equal(b.tryEnter({ weight: 2 }), undefined);
    const held = [await b.enter(), await a.enter({ weight: 3 })];
    const waiting = entering(a, { weight: 4 });
    const c = new Lane({ name: 'c', limit: 1, guaranteed: 1, parent: root, ...common });
    await assert.rejects(waiting, { code: 'LANE_FULL' }, 'a promise made since leaves it no room');
    for (const permit of held) permit[Symbol.dispose]();
    (await c.enter())[Symbol.dispose]();
    await root.close();
  });

  it('refuse callers at once for whom no permit is left that is not guaranteed', async () => {
    const common = { queueMax: 9, deadlineMs: Infinity };
    const root = new Lane({ name: 'root', limit: { fixed: 2 }, ...common });
    const kept = new Lane({ name: 'kept', limit: 2, guaranteed: 2, parent: root, ...common });
    const other = new Lane({ name: 'other', limit: 2, parent: root, ...common });
    for (const lane of [root, other]) assert.throws(() => lane.enter(), { code: 'LANE_FULL' });
    assert.equal(await kept.run(async () => 1), 1);
    await kept.close();
    assert.equal(await other.run(async () => 2), 2, 'they are free again');
  });

  it('let their parent close as soon as the last has left one of them', async () => {
    const clock = new VirtualClock();
    const common = { limit: 2, queueMax: 9, deadlineMs: Infinity, clock };
    const root = new Lane({ name: 'root', ...common });
    const middle = new Lane({ name: 'middle', parent: root, ...common });
    const leaf = new Lane({ name: 'leaf', parent: middle, ...common });
    const inside = [await leaf.enter(), await leaf.enter()];
    const last = leaf.run(async () => 'served');
    const closed = root.close();
    for (const permit of inside) permit[Symbol.dispose]();
    assert.equal(await last, 'served');
    await clock.run(closed);
    assert.equal(clock.now(), 0);
  });

  it('leave their parent when they are closed, and give back what was guaranteed', async () => {
    const common = { queueMax: 0, deadlineMs: 1_000 };
    const root = new Lane({ name: 'root', limit: 2, ...common });
    const keep = new Lane({ name: 'keep', limit: 2, parent: root, ...common });
    for (let i = 0; i < 5_000; i += 1) {
      const options = { name: 'brief', limit: 2, guaranteed: 2, parent: root };
      await using brief = new Lane({ ...options, ...common });
      assert.equal(keep.tryEnter(), undefined);
      (await brief.enter())[Symbol.dispose]();
    }
    assert.deepEqual(
      root.stats.lanes.map(({ name }) => name),
      ['keep'],
    );
    const all = [keep.tryEnter(), root.tryEnter(), root.tryEnter()];
    assert.deepEqual(all.map(Boolean), [true, true, false]);
  });

  it('lose and double no permit in any schedule', async () => {
    await explore(2_000, playLanes);
  });
});

/** The burst of the first seed: workers come back by the thousand and all want work at once. */
describe('a fleet of 9,418 workers reconnecting within 36 minutes', () => {
  it('never has a beat refused or delayed past its deadline', async () => {
    const clock = new VirtualClock();
    const parent = new Lane({ name: 'process', limit: 200, queueMax: 0, deadlineMs: 5_000, clock });
    const lane = (
      name: string,
      options: { limit: number; queueMax: number; guaranteed?: number },
    ) => new Lane({ name, deadlineMs: 1_000, parent, ...options, limit: { fixed: options.limit } });
    const schedule = lane('schedule', { limit: 5, queueMax: 0, guaranteed: 5 });
    const mutex = new Lane({ name: 'mutex', limit: 1, queueMax: 5, deadlineMs: 5_000, clock });
    const beat = lane('beat', { limit: 200, queueMax: 100, guaranteed: 20 });
    const update = lane('update', { limit: 200, queueMax: 100, guaranteed: 5 });
    const page = lane('page', { limit: 200, queueMax: 50 });
    let working = 0;
    let failed = 0;

    const worker = async () => {
      for (;;) {
        const permit = schedule.tryEnter();
        if (permit !== undefined) {
          await mutex.run(() => sleep(clock, 15));
          permit[Symbol.dispose]();
          break;
        }
        await sleep(clock, 5_000);
      }
      working += 1;
      for (let i = 1; clock.now() < 2_160_000; i += 1) {
        await sleep(clock, 120_000);
        const [busy, serviceMs] = i % 10 === 0 ? [update, 7] : [beat, 6];
        await busy.run(() => sleep(clock, serviceMs)).catch(() => (failed += 1));
      }
    };
    const population = [
      [0, 205],
      [1_080_000, 4_608],
      [1_980_000, 9_116],
      [2_160_000, 9_418],
    ] as const;
    const all: Promise<void>[] = [];
    for (const [index, [at, count]] of population.entries()) {
      const [from, before] = population[index - 1] ?? [0, 0];
      // They come a hundred at a time, as they do when a network comes back.
      for (let number = before; number < count; number += 1) {
        const share = Math.floor((number - before) / 100) / Math.ceil((count - before) / 100);
        clock.after(from + share * (at - from), () => all.push(worker()));
      }
    }
    // Three times a minute readers load pages of two seconds each, more than there are permits.
    for (let at = 0; at < 2_160_000; at += 20_000) {
      clock.after(at, () => {
        for (let i = 0; i < 250; i += 1) page.run(() => sleep(clock, 2_000)).catch(() => {});
      });
    }
    await clock.advance(2_400_000);
    await Promise.all(all);

    assert.equal(working, 9_418);
    assert.equal(failed, 0);
    const { refused, waitMs, finished } = beat.stats;
    assert.deepEqual(refused, {
      aborted: 0,
      cleared: 0,
      closed: 0,
      deadline: 0,
      full: 0,
      late: 0,
      stale: 0,
    });
    assert.ok(waitMs.max <= 6, `a beat waited ${waitMs.max} ms`);
    assert.ok(finished > 70_000, `${finished} beats`);
    assert.ok(schedule.stats.refused.full > 1_000, `${schedule.stats.refused.full} told to wait`);
    assert.ok(page.stats.refused.full > 0);
    assert.equal(parent.stats.inside, 0);
  });
});

interface Played {
  readonly lane: Lane;
  readonly limit: number;
  readonly queueMax: number;
  readonly guaranteed: number;
  readonly parent: Played | undefined;
  inside: number;
}

/** Checks the numbers of a lane and of all inside it against what the test itself counted. */
function checkTree(all: readonly Played[]): void {
  for (const played of all) {
    const stats: LaneStats = played.lane.stats;
    assert.equal(stats.inside, played.inside);
    assert.ok(stats.inside <= played.limit, `${stats.inside} inside of ${played.limit}`);
    const children = all.filter((other) => other.parent === played);
    const borrowed = children.reduce(
      (sum, child) => sum + Math.max(0, child.inside - child.guaranteed),
      played.inside - children.reduce((sum, child) => sum + child.inside, 0),
    );
    const promised = children.reduce((sum, child) => sum + child.guaranteed, 0);
    assert.ok(borrowed <= played.limit - promised, 'somebody’s guarantee was lent');
    assert.equal(
      stats.arrived,
      stats.started + stats.waiting + Object.values(stats.refused).reduce((a, b) => a + b),
    );
  }
}

function makeTree(random: Random, clock: VirtualClock): Played[] {
  const upTo = (max: number) => Math.floor(random() * (max + 1));
  const make = (limit: number, guaranteed: number, parent: Played | undefined): Played => {
    const queueMax = upTo(6);
    const lane = new Lane({
      name: 'played',
      limit: random() < 0.5 ? limit : { fixed: limit },
      queueMax,
      guaranteed,
      deadlineMs: 20 + upTo(100),
      parent: parent?.lane,
      codel: random() < 0.2 ? { targetMs: 5, intervalMs: 20 } : undefined,
      clock,
    });
    return { lane, limit, queueMax, guaranteed, parent, inside: 0 };
  };
  const root = make(3 + upTo(4), 0, undefined);
  const left = make(1 + upTo(4), upTo(1), root);
  const right = make(2 + upTo(4), upTo(2), root);
  return [root, left, right, make(1 + upTo(2), 0, right)];
}

async function playLanes(random: Random): Promise<void> {
  const clock = new VirtualClock();
  const all = makeTree(random, clock);
  const running: Promise<unknown>[] = [];
  const count = (played: Played, change: number) => {
    for (let node: Played | undefined = played; node; node = node.parent) node.inside += change;
  };
  const visit = async (played: Played, turn: Promise<Permit>) => {
    const permit = await turn;
    count(played, permit.weight);
    const holdMs = Math.floor(random() * 30);
    if (holdMs > 0) await sleep(clock, holdMs);
    count(played, -permit.weight);
    permit[Symbol.dispose]();
  };
  for (let step = 0; step < 40; step += 1) {
    const played = all[Math.floor(random() * all.length)] as Played;
    const caller = new AbortController();
    const entry = {
      signal: caller.signal,
      weight: random() < 0.2 ? Math.min(2, played.parent?.limit ?? 9, played.limit) : 1,
      priority: random() < 0.2 ? 3 : 0,
      key: random() < 0.5 ? `tenant ${Math.floor(random() * 3)}` : undefined,
    };
    if (random() < 0.2) {
      const permit = played.lane.tryEnter(entry);
      if (permit) running.push(visit(played, Promise.resolve(permit)));
    } else {
      running.push(visit(played, entering(played.lane, entry)).catch(() => {}));
    }
    if (random() < 0.2) clock.after(Math.floor(random() * 40), () => caller.abort());
    await clock.advance(random() < 0.5 ? 0 : Math.floor(random() * 10));
    if (step % 5 === 0) checkTree(all);
  }
  await clock.advance(1_000);
  await Promise.all(running);
  checkTree(all);
  assert.ok(all.every(({ lane }) => lane.stats.inside === 0 && lane.stats.waiting === 0));
  assert.equal(clock.pending, 0);
}
