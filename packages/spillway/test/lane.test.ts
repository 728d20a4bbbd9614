import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane, type Permit, SpillwayError, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { entering } from './fixtures/entering.ts';

function sleep(clock: VirtualClock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.after(ms, resolve));
}

/** Enters and notes the name when let in; the permit is kept in `held`. */
function enterer(lane: Lane, seen: string[], held: Permit[]) {
  return async (name: string, entry = {}) => {
    const permit = await entering(lane, entry);
    seen.push(name);
    held.push(permit);
  };
}

/** A lane for one caller at a time, whose keys never share a sub-queue by chance. */
function keyedScene() {
  const clock = new VirtualClock();
  const bounds = { limit: 1, queueMax: 20, deadlineMs: 1_000 };
  const lane = new Lane({ name: 'work', ...bounds, clock, random: seededRandom(1) });
  const seen: string[] = [];
  const held: Permit[] = [];
  const serveAll = async (all: readonly Promise<void>[]): Promise<void> => {
    for (let i = 0; i < all.length; i += 1) {
      await clock.advance(1);
      held.shift()?.[Symbol.dispose]();
    }
    await Promise.all(all);
  };
  return { clock, seen, held, enter: enterer(lane, seen, held), serveAll };
}

describe('Lane', () => {
  it('serves in the order of arrival, and counts what it did', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'work', limit: 1, queueMax: 9, deadlineMs: 1_000, clock });
    const seen: number[] = [];
    const work = [1, 2, 3].map((number) =>
      lane.run(async () => {
        await sleep(clock, 100);
        seen.push(number);
      }),
    );
    await clock.run(Promise.all(work));
    assert.deepEqual(seen, [1, 2, 3]);
    const { arrived, started, finished, waitMs, serviceMs, inside, waiting } = lane.stats;
    assert.deepEqual({ arrived, started, finished }, { arrived: 3, started: 3, finished: 3 });
    assert.deepEqual({ inside, waiting }, { inside: 0, waiting: 0 });
    assert.equal(waitMs.max, 200);
    assert.equal(waitMs.mean, 100);
    assert.equal(serviceMs.mean, 100);
    assert.ok(Math.abs(serviceMs.p99 - 100) <= 3, `p99 ${serviceMs.p99}`);
    assert.equal(clock.pending, 0);
  });

  it('refuses at once what finds the queue full, and says when to come back', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'work', limit: 2, queueMax: 2, deadlineMs: 60_000, clock });
    const task = () => sleep(clock, 3_000);
    await clock.run(Promise.all([lane.run(task), lane.run(task)]));
    const four = [1, 2, 3, 4].map(() => lane.run(task));
    // Two inside and two waiting: a fifth would be served third in line, at 3 s for each two.
    await assert.rejects(entering(lane), (error) => {
      assert.ok(error instanceof SpillwayError);
      assert.equal(error.code, 'LANE_FULL');
      assert.equal(error.status, 503);
      assert.equal(error.retryAfterMs, 4_500);
      assert.deepEqual(error.headers, { 'retry-after': '5' });
      return true;
    });
    assert.equal(lane.tryEnter(), undefined);
    assert.equal(lane.stats.refused.full, 2);
    await clock.run(Promise.all(four));
  });

  it('counts the time in the queue towards the deadline, and starts nothing past it', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({
      name: 'work',
      limit: { fixed: 1 },
      queueMax: 9,
      deadlineMs: 1_000,
      clock,
    });
    const started: string[] = [];
    const first = lane.run(async () => {
      started.push('first');
      await sleep(clock, 900);
    });
    const second = lane.run(async (signal) => {
      started.push('second');
      await sleep(clock, 50);
      assert.equal(signal.aborted, false);
      await sleep(clock, 60);
    });
    await clock.advance(500);
    const third = lane.run(async () => {
      started.push('third');
    });
    const late = assert.rejects(second, { code: 'DEADLINE', status: 504 });
    await clock.run(Promise.all([first, late, third]));
    assert.equal(clock.now(), 1_010, 'the third runs when the second has really ended');
    assert.deepEqual(started, ['first', 'second', 'third']);

    using _stuck = await lane.enter();
    const hopeless = assert.rejects(entering(lane), { code: 'DEADLINE', status: 504 });
    await clock.advance(1_000);
    await hopeless;
    assert.equal(lane.stats.refused.deadline, 1);
    assert.equal(clock.pending, 0);
  });

  it('lets a waiter go the moment its signal aborts, and leaves nothing behind', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'work', limit: 1, queueMax: 9, deadlineMs: 1_000, clock });
    using permit = await lane.enter();
    const quitter = new AbortController();
    const gone = entering(lane, { signal: quitter.signal });
    quitter.abort('enough');
    await assert.rejects(gone, (reason) => reason === 'enough');
    assert.equal(lane.stats.waiting, 0);
    assert.equal(lane.stats.refused.aborted, 1);
    assert.equal(clock.pending, 0);
    assert.equal(permit.signal.aborted, false);
    await assert.rejects(
      entering(lane, { signal: quitter.signal }),
      (reason) => reason === 'enough',
    );
  });

  it('aborts the work with its caller, and keeps the permit until the work has ended', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'work', limit: 1, queueMax: 0, deadlineMs: 1_000, clock });
    const caller = new AbortController();
    const stubborn = lane.run(() => sleep(clock, 400), { signal: caller.signal });
    await clock.advance(100);
    caller.abort('gone');
    await assert.rejects(stubborn, (reason) => reason === 'gone');
    assert.equal(lane.stats.inside, 1);
    await clock.advance(300);
    assert.equal(lane.stats.inside, 0);
    assert.equal(clock.pending, 0);
  });

  it('lets higher priorities pass, and keys take turns', async () => {
    const { seen, enter, serveAll } = keyedScene();
    const all = [enter('first')];
    for (const name of ['a1', 'a2', 'a3', 'a4']) all.push(enter(name, { key: 'a' }));
    for (const name of ['b1', 'b2']) all.push(enter(name, { key: 'b' }));
    all.push(enter('urgent', { priority: 7 }));
    all.push(enter('c1', { key: 'c' }));
    await serveAll(all);
    assert.deepEqual(seen, ['first', 'urgent', 'a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
  });

  it('serves a key that did not wait before one that always does', async () => {
    const { clock, seen, held, enter, serveAll } = keyedScene();
    const all = ['a1', 'a2', 'a3', 'a4'].map((name) => enter(name, { key: 'a' }));
    await clock.advance(1);
    held.shift()?.[Symbol.dispose]();
    all.push(enter('b1', { key: 'b' }));
    await serveAll(all);
    assert.ok(seen.indexOf('b1') < seen.indexOf('a3'), seen.join());
  });

  it('makes the tenant that fills the queue pay for it, and nobody else', async () => {
    const clock = new VirtualClock();
    const bounds = { limit: 1, queueMax: 4, deadlineMs: 1_000 };
    // One seed in 256 would have the two share a sub-queue.
    const lane = new Lane({ name: 'work', ...bounds, clock, random: seededRandom(1) });
    using _busy = await lane.enter();
    const greedy = [1, 2, 3, 4].map(() =>
      entering(lane, { key: 'greedy' }).catch((error) => error),
    );
    const modest = entering(lane, { key: 'modest' });
    const pushedOut = await Promise.race(greedy);
    assert.equal(pushedOut.code, 'LANE_FULL');
    await assert.rejects(entering(lane, { key: 'greedy' }), { code: 'LANE_FULL' });
    assert.equal(lane.stats.waiting, 4);
    _busy[Symbol.dispose]();
    for (const entering of [greedy[0], modest]) {
      await clock.advance(1);
      (await entering)[Symbol.dispose]();
    }
    await clock.advance(2_000);
  });

  it('gives a heavy caller its turn, though light ones could slip past it', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'work', limit: 4, queueMax: 9, deadlineMs: 1_000, clock });
    const seen: string[] = [];
    const held: Permit[] = [];
    const enter = enterer(lane, seen, held);
    const all = [enter('a'), enter('b'), enter('c')];
    await Promise.all(all);
    all.push(enter('heavy', { weight: 4 }), enter('light'));
    assert.equal(lane.tryEnter(), undefined, 'one permit is free, but it is not the newcomer’s');
    for (let i = 0; i < 3; i += 1) held.shift()?.[Symbol.dispose]();
    await clock.advance(1);
    assert.deepEqual(seen, ['a', 'b', 'c', 'heavy']);
    held.shift()?.[Symbol.dispose]();
    await Promise.all(all);
    assert.deepEqual(seen, ['a', 'b', 'c', 'heavy', 'light']);
    held.shift()?.[Symbol.dispose]();
    await enter('d');
    const quitter = new AbortController();
    const quitting = entering(lane, { weight: 4, signal: quitter.signal });
    const behind = enter('behind');
    quitter.abort();
    await Promise.all([assert.rejects(quitting), behind]);
    assert.equal(seen.at(-1), 'behind', 'nobody waits for one that has left');
    assert.throws(() => lane.enter({ weight: 5 }), /weight: must be an integer from 1 to 4, got 5/);
  });

  it('takes back as many permits as it gave, though the caller uses its entry again', async () => {
    const lane = new Lane({ name: 'work', limit: 4, queueMax: 9, deadlineMs: 1_000 });
    const entry = { weight: 3 };
    const first = await entering(lane, entry);
    const waiting = entering(lane, entry);
    entry.weight = 1;
    first[Symbol.dispose]();
    const second = await waiting;
    assert.equal(lane.stats.inside, 3);
    second[Symbol.dispose]();
    assert.equal(lane.stats.inside, 0);
  });

  it('holds fresh work instead of dead work under lasting overload, if told so', async () => {
    const clock = new VirtualClock();
    const options = { name: 'work', limit: 1, queueMax: 100, deadlineMs: 10_000, clock };
    const lane = new Lane({ ...options, codel: { targetMs: 20, intervalMs: 100 } });
    const waits: number[] = [];
    const refused: string[] = [];
    let newest = 0;
    let servedNewest = 0;
    // Work of 10 ms comes every 5 ms: twice what can be done.
    for (let at = 0; at < 4_000; at += 5) {
      clock.after(at, () => {
        const arrivedAt = clock.now();
        newest = arrivedAt;
        lane
          .run(async () => {
            if (arrivedAt === newest) servedNewest += 1;
            waits.push(clock.now() - arrivedAt);
            await sleep(clock, 10);
          })
          .catch((error) => refused.push(error.code));
      });
    }
    await clock.advance(60_000);
    const standing = waits.slice(20);
    assert.ok(Math.max(...standing) <= 30, `waited ${Math.max(...standing)} ms`);
    assert.ok(waits.length >= 395, `${waits.length} of 400 possible were done`);
    assert.deepEqual(new Set(refused), new Set(['LANE_STALE']));
    assert.ok(servedNewest > 350, `${servedNewest} times the newest was served first`);
    assert.equal(waits.length + refused.length, 800);
    assert.equal(clock.pending, 0);
  });

  it('lets a burst that drains within the interval pass whole', async () => {
    const clock = new VirtualClock();
    const options = { name: 'work', limit: 1, queueMax: 100, deadlineMs: 10_000, clock };
    const lane = new Lane({ ...options, codel: {} });
    const burst = Array.from({ length: 9 }, () => lane.run(() => sleep(clock, 10)));
    await clock.run(Promise.all(burst));
    assert.equal(lane.stats.finished, 9);
  });

  it('yields to I/O in a long chain of grants, and refuses nobody for it', async () => {
    // Its time stands still: how many grants fit into the 2 ms of a turn depends on the machine.
    const clock = new VirtualClock();
    const written = { limit: 1, deadlineMs: 60_000, clock };
    const lane = new Lane({ name: 'work', queueMax: 5_000, ...written });
    const strict = new Lane({ name: 'strict', queueMax: 0, ...written });
    let turnsSeen = 0;
    let done = false;
    const turn = () => {
      turnsSeen += 1;
      if (!done) setImmediate(turn);
    };
    setImmediate(turn);
    await Promise.all(Array.from({ length: 5_000 }, () => lane.run(async () => {})));
    // A turn of the loop has at most twice 1,024 grants.
    assert.ok(turnsSeen >= 2, `the loop turned ${turnsSeen} times in 5,000 grants`);
    turnsSeen = 0;
    for (let i = 0; i < 5_000; i += 1) {
      using _permit = await strict.enter();
    }
    assert.ok(turnsSeen >= 2, `the loop turned ${turnsSeen} times in 5,000 passes`);
    for (let i = 0; i < 2_000; i += 1) {
      using permit = strict.tryEnter();
      assert.ok(permit !== undefined);
    }
    done = true;
    assert.equal(strict.stats.refused.full, 0);
    assert.equal(lane.stats.refused.full, 0);
  });

  it('lets nobody in once closed, and is closed when the last has left', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'work', limit: 1, queueMax: 9, deadlineMs: 1_000, clock });
    const inner = new Lane({ name: 'in', limit: 1, queueMax: 9, deadlineMs: 99, parent: lane });
    const work = lane.run(() => sleep(clock, 100));
    const waiting = lane.run(() => sleep(clock, 100));
    let closed = false;
    const closing = lane.close().then(() => {
      closed = true;
    });
    await assert.rejects(entering(lane), { code: 'LANE_CLOSED', status: 503, retryable: false });
    await assert.rejects(entering(inner), { code: 'LANE_CLOSED' });
    await clock.advance(150);
    assert.equal(closed, false);
    await clock.run(Promise.all([work, waiting, closing]));
    assert.equal(clock.now(), 200);
  });

  it('refuses those who still wait when closing takes too long', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'work', limit: 1, queueMax: 9, deadlineMs: 9_000, clock });
    using _stuck = await lane.enter();
    const waiting = assert.rejects(entering(lane), { code: 'LANE_CLOSED' });
    assert.equal(lane.ready, true);
    const closing = lane.close({ withinMs: 100 });
    assert.equal(lane.ready, false);
    await clock.advance(100);
    await Promise.all([waiting, closing]);
    assert.deepEqual([lane.stats.inside, lane.stats.waiting, clock.pending], [1, 0, 0]);
  });

  it('counts what it began by its outcome, and no cut work as service time', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'work', limit: 9, queueMax: 0, deadlineMs: 100, clock });
    const caller = new AbortController();
    const abortable = (signal: AbortSignal) =>
      new Promise<void>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    const work = [
      lane.run(() => sleep(clock, 40)),
      lane.run(() => Promise.reject(new Error('its own fault'))),
      lane.run(abortable),
      lane.run(abortable, { signal: caller.signal }),
      lane.run(() => Promise.reject(Object.assign(new Error('none'), { status: 404 }))),
    ];
    clock.after(10, () => caller.abort());
    await clock.run(Promise.allSettled(work));
    const { outcomes, finished, serviceMs } = lane.stats;
    assert.deepEqual(outcomes, { ok: 2, failed: 1, late: 1, aborted: 1 });
    assert.deepEqual([finished, serviceMs.count, serviceMs.max], [5, 2, 40]);
  });

  it('says when to come back by its deadline, or not at all, before it knows better', async () => {
    for (const deadlineMs of [9_000, Infinity]) {
      const lane = new Lane({ name: 'work', limit: 1, queueMax: 0, deadlineMs });
      using _first = await lane.enter();
      const retryAfterMs = deadlineMs === Infinity ? undefined : deadlineMs;
      assert.throws(() => lane.enter(), { code: 'LANE_FULL', retryAfterMs });
    }
  });

  it('names the option and the rule it breaks', () => {
    const good = { name: 'work', limit: 1, queueMax: 1, deadlineMs: 1 };
    const parent = new Lane({ ...good, limit: 5 });
    const wrong = (change: object) => () => new Lane({ ...good, ...change });
    assert.throws(
      wrong({ limit: 0 }),
      /Lane: limit: must be an integer from 1, .* or a Limit, got 0/,
    );
    assert.throws(wrong({ limit: Number.NaN }), /limit: .* got NaN/);
    assert.throws(wrong({ limit: { fixed: 1e308 } }), /limit: .* got { fixed: 1e\+308 }/);
    assert.throws(() => parent.resize(2 ** 53), /limit: must be an integer from 1, got 900719925/);
    assert.throws(wrong({ queueMax: 1.5 }), /queueMax: must be an integer from 0, got 1.5/);
    assert.throws(wrong({ deadlineMs: 0 }), /deadlineMs: must be a number above 0, got 0/);
    assert.throws(wrong({ name: '' }), /name: must be a string that is not empty/);
    assert.throws(wrong({ parent, guaranteed: 6 }), /guaranteed: .* not promised yet, got 6/);
    assert.throws(wrong({ codel: { targetMs: -1 } }), /codel: targetMs: must be a number from 0/);
    assert.throws(wrong({ concurrency: 5 }), /Lane: concurrency: is not an option/);
    assert.throws(wrong({ limit: '3' }), /limit: must be .*, got '3'/);
    assert.throws(() => parent.enter({ priority: 8 }), /priority: must be an integer from 0 to 7/);
  });

  it('refuses each waiter once, though a hook clears the lane meanwhile', async () => {
    const terms = { name: 'work', limit: { fixed: 1 }, queueMax: 3, deadlineMs: 1_000 };
    const lane: Lane = new Lane({ ...terms, onRefuse: () => lane.clear() });
    const inside = await lane.enter();
    const waiting = [1, 2, 3].map(() => Promise.resolve(lane.enter()).catch(() => 'refused'));
    lane.clear();
    assert.deepEqual(await Promise.all(waiting), ['refused', 'refused', 'refused']);
    assert.equal(lane.stats.refused.cleared, 3);
    inside[Symbol.dispose]();
  });
});
