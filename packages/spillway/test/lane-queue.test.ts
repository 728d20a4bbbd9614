import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { type Entry, LanePermit } from '../src/lane/permit.ts';
import { type CodelOptions, LaneQueue, type Lateness } from '../src/lane/queue.ts';

interface Settings {
  readonly codel?: CodelOptions;
  readonly waitMsMax?: number;
  readonly deadlineMs?: number;
  readonly random?: number;
}

/** A queue that notes which waiter it gave up, why and when, as a lane would. */
class Scene {
  readonly clock = new VirtualClock();
  readonly queue: LaneQueue;
  readonly gone: (readonly [string | undefined, Lateness, number])[] = [];
  /** The moments at which the queue's timer has fired. */
  readonly looks: number[] = [];
  /** Number of timers that the queue has made. */
  timers = 0;
  readonly #deadlineMs: number;

  constructor(settings: Settings = {}) {
    const { codel, waitMsMax = Infinity, deadlineMs = Infinity, random = 0.5 } = settings;
    const { clock } = this;
    this.#deadlineMs = deadlineMs;
    const onDue = (now: number) => {
      this.looks.push(clock.now());
      for (const [waiter, reason] of this.queue.overdue(now)) {
        this.gone.push([waiter.key, reason, clock.now()]);
        this.queue.remove(waiter);
      }
    };
    const counting = {
      now: () => clock.now(),
      after: (ms: number, callback: () => void) => {
        this.timers += 1;
        return clock.after(ms, callback);
      },
    };
    this.queue = new LaneQueue({ clock: counting, waitMsMax, codel, random: () => random, onDue });
  }

  waiter(key: string, entry: Entry = {}): LanePermit {
    const { clock } = this;
    const giver = { name: 'calls', clock, deadlineMs: this.#deadlineMs, leave() {}, abandon() {} };
    return new LanePermit(giver, { key, ...entry }, clock.now());
  }

  push(key: string, entry: Entry = {}): LanePermit {
    const waiter = this.waiter(key, entry);
    this.queue.push(waiter);
    return waiter;
  }

  /** Lets the next waiter in, now. */
  serve(): string | undefined {
    const now = this.clock.now();
    const next = this.queue.next(now);
    if (next !== undefined) this.queue.take(next, now);
    return next?.key;
  }
}

describe('LaneQueue: times', () => {
  it('gives up each waiter at the deadline of the lane, to the millisecond', async () => {
    const scene = new Scene({ deadlineMs: 100 });
    scene.push('a');
    await scene.clock.advance(30);
    scene.push('b');
    await scene.clock.advance(200);
    assert.deepEqual(scene.gone, [
      ['a', 'deadline', 100],
      ['b', 'deadline', 130],
    ]);
    assert.deepEqual(scene.looks, [100, 130]);
    assert.equal(scene.clock.pending, 0);
  });

  it('takes deadlines of callers in any order, its timer set for the earliest', async () => {
    const scene = new Scene({ deadlineMs: 100 });
    scene.push('lane');
    scene.push('late', { deadlineAt: 90 });
    scene.push('early', { deadlineAt: 40 });
    scene.push('between', { deadlineAt: 60 });
    assert.equal(scene.clock.pending, 1);
    await scene.clock.advance(200);
    assert.deepEqual(scene.gone, [
      ['early', 'deadline', 40],
      ['between', 'deadline', 60],
      ['late', 'deadline', 90],
      ['lane', 'deadline', 100],
    ]);
    assert.deepEqual(scene.looks, [40, 60, 90, 100]);
  });

  it('gives up all callers that are due together, in one look', async () => {
    const scene = new Scene({ deadlineMs: 100 });
    scene.push('lane');
    scene.push('b', { deadlineAt: 40 });
    scene.push('c', { deadlineAt: 50 });
    scene.push('d', { deadlineAt: 40 });
    await scene.clock.advance(45);
    assert.deepEqual(new Set(scene.gone.map(([key]) => key)), new Set(['b', 'd']));
    assert.deepEqual(scene.looks, [40]);
  });

  it('gives up waiters whose work would come too late, and those that wait too long', async () => {
    const scene = new Scene({ deadlineMs: 100, waitMsMax: 80 });
    scene.push('stale');
    await scene.clock.advance(80);
    scene.queue.adapt(30, Infinity);
    scene.push('late');
    await scene.clock.advance(10);
    scene.queue.adapt(30, 70);
    scene.push('impatient');
    await scene.clock.advance(200);
    assert.deepEqual(scene.gone, [
      ['stale', 'stale', 80],
      // 30 ms before its deadline, of 180: what was learnt of patience came after its timer.
      ['late', 'late', 150],
      ['impatient', 'late', 150],
    ]);
  });

  it('allows a tenth of the patience where work takes longer than that', async () => {
    const scene = new Scene();
    scene.queue.adapt(95, 100);
    scene.push('a');
    await scene.clock.advance(50);
    scene.queue.adapt(60, 100);
    scene.push('b');
    await scene.clock.advance(50);
    assert.deepEqual(scene.gone, [
      ['a', 'late', 10],
      ['b', 'late', 90],
    ]);
  });

  it('looks once at all that what it has learnt makes due at once', async () => {
    const scene = new Scene();
    scene.push('a');
    await scene.clock.advance(25);
    scene.push('b');
    await scene.clock.advance(25);
    scene.queue.adapt(0, 20);
    scene.push('c', { deadlineAt: 1_000 });
    await scene.clock.advance(0.5);
    assert.deepEqual(scene.gone, [
      ['a', 'late', 50],
      ['b', 'late', 50],
    ]);
    assert.deepEqual(scene.looks, [50]);
  });

  it('makes a new timer only for a caller that is due earlier than all', () => {
    const scene = new Scene({ deadlineMs: 100 });
    for (let i = 0; i < 9; i += 1) scene.push('a', { deadlineAt: 50 });
    for (let i = 0; i < 9; i += 1) scene.push('a', { deadlineAt: 60 });
    assert.equal(scene.timers, 1);
    scene.push('a', { deadlineAt: 40 });
    assert.equal(scene.timers, 2);
  });

  it('counts what work needs when a caller with a deadline comes', async () => {
    const scene = new Scene({ deadlineMs: 100 });
    scene.queue.adapt(30, Infinity);
    scene.push('lane');
    scene.push('own', { deadlineAt: 95 });
    await scene.clock.advance(100);
    assert.deepEqual(scene.gone, [
      ['own', 'late', 65],
      ['lane', 'late', 70],
    ]);
  });

  it('keeps the deadlines of callers, whoever else has left', async () => {
    for (const leaves of [{}, { deadlineAt: 90 }]) {
      const scene = new Scene({ deadlineMs: 100 });
      scene.push('lane');
      scene.push('own', { deadlineAt: 40 });
      scene.queue.remove(scene.push('gone', leaves));
      await scene.clock.advance(50);
      assert.deepEqual(scene.gone, [['own', 'deadline', 40]]);
    }
  });

  it('says how long a waiter may still wait, and why its time is over', () => {
    const { queue, waiter } = timed();
    assert.equal(queue.leftMs(waiter, 0), 70);
    assert.deepEqual(
      [69.5, 70, 99.5, 100].map((now) => queue.lateness(waiter, now)),
      [undefined, 'late', 'late', 'deadline'],
    );
    queue.adapt(30, 80);
    assert.equal(queue.leftMs(waiter, 10), 40);
    assert.deepEqual(
      [49.5, 50].map((now) => queue.lateness(waiter, now)),
      [undefined, 'late'],
    );
  });

  it('looks at no time at which nobody can be due', async () => {
    const scene = new Scene({ deadlineMs: 100 });
    const early = scene.push('early', { deadlineAt: 40 });
    assert.equal(scene.queue.remove(early), true);
    assert.equal(scene.clock.pending, 0);
    scene.push('a');
    assert.equal(scene.queue.remove(early), false);
    scene.push('b', { deadlineAt: 500 });
    await scene.clock.advance(99);
    assert.deepEqual(scene.looks, []);
    await scene.clock.advance(1);
    assert.deepEqual(scene.looks, [100]);
    assert.equal(scene.clock.pending, 0);
  });

  it('goes on without a timer that never ends when no time is limited', async () => {
    const scene = new Scene();
    scene.push('a');
    await scene.clock.advance(1e9);
    assert.deepEqual([scene.looks, scene.queue.size], [[], 1]);
  });
});

/** A waiter of 100 ms, 30 of which its work needs. */
function timed() {
  const scene = new Scene({ deadlineMs: 100 });
  scene.queue.adapt(30, Infinity);
  return { queue: scene.queue, waiter: scene.push('a') };
}

describe('LaneQueue: order', () => {
  const one = { key: undefined };

  it('serves by arrival until one is let in after a tenth of its spare time', async () => {
    for (const [waitedMs, isLate] of [
      [7, false],
      [7.5, true],
    ] as const) {
      // 70 ms to spare: 100 to the deadline, of which the work needs 30.
      const scene = new Scene({ deadlineMs: 100 });
      scene.queue.adapt(30, Infinity);
      await scene.clock.advance(50);
      const [first, second, third] = [0, 1, 2].map((n) => scene.push(String(n), one));
      await scene.clock.advance(waitedMs);
      const now = 50 + waitedMs;
      assert.equal(scene.queue.isStanding(now), false);
      assert.equal(scene.queue.next(now), first);
      scene.queue.take(first as LanePermit, now);
      assert.equal(scene.queue.isStanding(now), isLate);
      assert.equal(scene.queue.next(now), isLate ? third : second);
    }
  });

  it('measures the spare time by the patience of callers too', async () => {
    const scene = new Scene({ deadlineMs: 100 });
    scene.queue.adapt(30, 80);
    scene.push('a');
    scene.push('b');
    await scene.clock.advance(5);
    assert.equal(scene.serve(), 'a');
    assert.equal(scene.queue.isStanding(5), false);
    await scene.clock.advance(1);
    scene.push('c');
    assert.equal(scene.serve(), 'b');
    assert.equal(scene.queue.isStanding(6), true);
  });

  it('serves by arrival again once nobody waits', async () => {
    const scene = new Scene({ deadlineMs: 100 });
    scene.push('a', one);
    scene.push('b', one);
    await scene.clock.advance(50);
    scene.serve();
    assert.equal(scene.queue.isStanding(50), true);
    scene.serve();
    assert.equal(scene.queue.isStanding(50), false);
    assert.equal(scene.clock.pending, 0);
    const c = scene.push('c', one);
    scene.push('d', one);
    assert.equal(scene.queue.isStanding(50), false);
    assert.equal(scene.queue.next(50), c);
  });

  it('gives up, of a full queue that stands, the oldest in place of the newest', async () => {
    const scene = new Scene({ deadlineMs: 100 });
    scene.push('', one);
    await scene.clock.advance(1);
    const oldest = scene.push('', one);
    const newest = scene.push('', one);
    assert.equal(scene.queue.surplus(newest, 1), newest);
    await scene.clock.advance(49);
    scene.queue.take(scene.queue.next(50) as LanePermit, 50);
    assert.equal(scene.queue.surplus(newest, 50), oldest);
  });

  it('hashes keys by chance: those that share a sub-queue of one lane do not in the next', () => {
    const share = (random: number, [a = '', b = '']: readonly string[]) => {
      const scene = new Scene({ random });
      for (const key of [a, a, b]) scene.push(key);
      scene.serve();
      return scene.serve() === a;
    };
    const pairs = Array.from({ length: 2_000 }, (_, i) => [`a${i}`, `b${i}`]);
    const sharing = pairs.filter((pair) => share(0.25, pair));
    assert.ok(sharing.length > 0);
    assert.ok(sharing.some((pair) => !share(0.75, pair)));
  });

  it('knows how many are served before a newcomer', () => {
    const scene = new Scene();
    scene.push('a');
    scene.push('a');
    const [behind, before] = [scene.waiter('a'), scene.waiter('b', { priority: 1 })];
    assert.equal(scene.queue.hasAhead(behind, 2), true);
    assert.equal(scene.queue.hasAhead(behind, 1), false);
    assert.equal(scene.queue.hasAhead(before, 0), true);
  });
});

describe('LaneQueue: CoDel', () => {
  const codel = { targetMs: 5, intervalMs: 100 };

  it('stands when it was not empty for an interval, and not before', async () => {
    const scene = new Scene({ codel });
    await scene.clock.advance(40);
    const [a] = [scene.push('a', { key: undefined }), scene.push('b', { key: undefined })];
    const c = scene.waiter('c', { key: undefined });
    assert.equal(scene.queue.isStanding(139.5), false);
    assert.equal(scene.queue.next(139.5), a);
    assert.equal(scene.queue.isStanding(140), true);
    scene.queue.push(c);
    assert.equal(scene.queue.next(140), c);
    for (const waiter of [...scene.queue]) scene.queue.remove(waiter);
    assert.equal(scene.queue.isStanding(140), false);
  });

  it('then gives up what has waited longer than the target, and nothing before', async () => {
    const scene = new Scene({ codel, deadlineMs: 1_000 });
    scene.push('a');
    await scene.clock.advance(98);
    scene.push('b');
    await scene.clock.advance(1.5);
    assert.deepEqual(scene.looks, []);
    await scene.clock.advance(10);
    assert.deepEqual(scene.gone, [
      ['a', 'stale', 100],
      ['b', 'stale', 103],
    ]);
    scene.push('c');
    await scene.clock.advance(99.5);
    assert.equal(scene.queue.size, 1);
    await scene.clock.advance(0.5);
    assert.deepEqual(scene.gone.at(-1), ['c', 'stale', 209.5]);
  });

  it('leaves a late waiter to the interval alone', async () => {
    const scene = new Scene({ codel, deadlineMs: 60 });
    scene.push('a');
    scene.push('b');
    await scene.clock.advance(50);
    assert.equal(scene.serve(), 'a');
    assert.equal(scene.queue.isStanding(50), false);
  });

  it('may be set to give up at once all who cannot begin at once', async () => {
    const scene = new Scene({ codel: { targetMs: 0, intervalMs: 0 } });
    scene.push('a');
    await scene.clock.advance(0.5);
    assert.deepEqual(scene.gone, [['a', 'stale', 0]]);
    assert.throws(() => new Scene({ codel: { targetMs: -1 } }), /targetMs: must be/);
  });

  it('has a target of 5 ms and an interval of 100 unless told', () => {
    const scene = new Scene({ codel: {} });
    const waiter = scene.push('a');
    assert.equal(scene.queue.lateness(waiter, 99.5), undefined);
    assert.equal(scene.queue.lateness(waiter, 100), 'stale');
    const at96 = new LanePermit(
      { name: '', clock: scene.clock, deadlineMs: Infinity, leave() {}, abandon() {} },
      {},
      96,
    );
    assert.equal(scene.queue.lateness(at96, 100.5), undefined);
    assert.equal(scene.queue.lateness(at96, 101), 'stale');
  });
});
