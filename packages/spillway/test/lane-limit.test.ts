import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Clock, deadline, Lane, type Limit, type Sample, SpillwayError } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { entering } from './fixtures/entering.ts';

function sleep(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.after(ms, resolve));
}

/** A limit that keeps what it was told, and is as large as it was set to. */
class Recorder implements Limit {
  readonly sizeMax = 10;
  readonly samples: Sample[] = [];
  size: number;

  constructor(size: number) {
    this.size = size;
  }

  observe(sample: Sample): void {
    this.samples.push(sample);
  }
}

describe('a lane whose limit learns', () => {
  it('tells the limit how each piece of work ended', async () => {
    const clock = new VirtualClock();
    const limit = new Recorder(2);
    const lane = new Lane({ name: 'calls', limit, queueMax: 9, deadlineMs: 1_000, clock });
    const caller = new AbortController();
    using callersLimit = deadline(clock, 50);
    const busy = { code: 'BUSY', status: 503, retryable: true };
    const work = [
      lane.run(() => sleep(clock, 100)),
      lane.run(() => sleep(clock, 40).then(() => Promise.reject(new Error('its own fault')))),
      lane.run(() => sleep(clock, 10).then(() => Promise.reject(new SpillwayError(busy, 'no')))),
      lane.run(() => sleep(clock, 2_000)),
      lane.run(() => sleep(clock, 30), { signal: caller.signal }),
      lane.run(() => sleep(clock, 30), { signal: callersLimit.signal }),
    ];
    clock.after(105, () => caller.abort());
    await clock.run(Promise.allSettled(work));
    await clock.advance(5_000);
    const seen = limit.samples.map(({ outcome, isWhole, startedAt, endedAt, inside }) => {
      return `${outcome} ${startedAt}-${endedAt} of ${inside}${isWhole ? '' : ', cut'}`;
    });
    assert.deepEqual(seen, [
      'failed 0-40 of 2, cut',
      'overloaded 40-50 of 2, cut',
      'ok 0-100 of 2',
      'aborted 100-130 of 2',
      'late 50-2050 of 1',
    ]);
    assert.equal(
      lane.stats.refused.aborted,
      1,
      'the caller whose own deadline passed in the queue',
    );
  });

  it('has as many permits as the limit says, from one piece of work to the next', async () => {
    const clock = new VirtualClock();
    const limit = new Recorder(4);
    const lane = new Lane({ name: 'calls', limit, queueMax: 99, deadlineMs: 60_000, clock });
    const work = Array.from({ length: 20 }, () => lane.run(() => sleep(clock, 100)));
    assert.equal(lane.stats.inside, 4);
    limit.size = 1;
    await clock.advance(150);
    assert.equal(lane.stats.inside, 1, 'those that are over its new size are not replaced');
    limit.size = 3;
    await clock.advance(100);
    assert.equal(lane.stats.inside, 3);
    limit.size = 1;
    const heavy = entering(lane, { weight: 3 });
    await clock.run(Promise.all(work));
    (await heavy)[Symbol.dispose]();
    assert.equal(lane.stats.inside, 0, 'one that needs more than there is gets in alone');
    assert.equal(clock.pending, 0);
  });

  it('tells the limits of all lanes above, too', async () => {
    const limit = new Recorder(4);
    const options = { queueMax: 9, deadlineMs: 1_000 };
    const root = new Lane({ name: 'root', limit, ...options });
    const child = new Lane({ name: 'child', limit: 4, parent: root, ...options });
    await Promise.all([child.run(async () => {}), root.run(async () => {})]);
    assert.equal(limit.samples.length, 2);
  });

  it('lets one in when the limit has shrunk below what is promised', async () => {
    const limit = new Recorder(10);
    const options = { queueMax: 9, deadlineMs: Infinity };
    const root = new Lane({ name: 'root', limit, ...options });
    new Lane({ name: 'kept', limit: 9, guaranteed: 9, parent: root, ...options });
    const other = new Lane({ name: 'other', limit: 9, parent: root, ...options });
    limit.size = 3;
    await other.run(async () => {});
    assert.equal(root.stats.limit, 3);
    const first = await other.enter();
    const second = entering(other);
    assert.equal(root.stats.inside, 1, 'promised are more than there are, so one at a time');
    first[Symbol.dispose]();
    (await second)[Symbol.dispose]();
  });

  it('finds the place where the other side begins to refuse', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'calls', limit: 100, queueMax: 99, deadlineMs: 60_000, clock });
    let inside = 0;
    let done = 0;
    let refused = 0;
    const call = async () => {
      if (inside >= 30) {
        refused += 1;
        throw new SpillwayError('LANE_FULL', 'the other side is full');
      }
      inside += 1;
      await sleep(clock, 100);
      inside -= 1;
      done += 1;
    };
    const client = async () => {
      while (clock.now() < 60_000) await lane.run(call).catch(() => sleep(clock, 10));
    };
    await clock.run(Promise.all(Array.from({ length: 80 }, client)));
    // It goes on trying whether there is more room, so its size at one moment says little.
    assert.ok(done >= 0.8 * 30 * 600, `${done} calls of ${30 * 600} were done`);
    assert.ok(refused <= 0.05 * done, `${refused} calls were refused, ${done} done`);
  });
});

describe('a lane whose times are fractions', () => {
  it('sends waiters away at their time, and its timer comes to rest', async () => {
    const clock = new VirtualClock();
    await clock.advance(0.1);
    const options = { name: 'work', limit: 1, queueMax: 99, deadlineMs: 1_000.3, clock };
    const lane = new Lane({ ...options, codel: { targetMs: 0.7, intervalMs: 10.1 } });
    using _stuck = await lane.enter();
    const waiting: Promise<unknown>[] = [];
    for (let i = 0; i < 50; i += 1) {
      await clock.advance(0.3);
      waiting.push(entering(lane).catch((error) => error.code));
    }
    await clock.advance(100);
    assert.deepEqual(new Set(await Promise.all(waiting)), new Set(['LANE_STALE']));
    assert.equal(clock.pending, 0);
  });
});

describe('a lane whose timers come late', () => {
  it('still starts nothing that is past its deadline', async () => {
    const virtual = new VirtualClock();
    const late: Clock = {
      now: () => virtual.now(),
      after: (ms, callback) => virtual.after(ms + 500, callback),
    };
    const lane = new Lane({ name: 'work', limit: 1, queueMax: 9, deadlineMs: 100, clock: late });
    const permit = await lane.enter();
    const hopeless = assert.rejects(entering(lane), { code: 'DEADLINE' });
    await virtual.advance(99);
    const fresh = entering(lane);
    await virtual.advance(2);
    permit[Symbol.dispose]();
    await hopeless;
    (await fresh)[Symbol.dispose]();
    assert.equal(virtual.now(), 101, 'neither had to wait for the timer');
  });
});
