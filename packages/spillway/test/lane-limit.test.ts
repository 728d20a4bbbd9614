import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  AimdLimit,
  type Clock,
  deadline,
  Lane,
  type Limit,
  type Sample,
  SpillwayError,
} from 'spillway';
import { VirtualClock } from 'spillway/testing';

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
    const seen = limit.samples.map(({ outcome, startedAt, endedAt, inside }) => {
      return `${outcome} ${startedAt}-${endedAt} of ${inside}`;
    });
    assert.deepEqual(seen, [
      'ok 0-40 of 2',
      'dropped 40-50 of 2',
      'ok 0-100 of 2',
      'ignored 100-130 of 2',
      'dropped 50-2050 of 1',
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
    const heavy = lane.enter({ weight: 3 });
    await clock.run(Promise.all(work));
    (await heavy)[Symbol.dispose]();
    assert.equal(lane.stats.inside, 0, 'one that needs more than there is gets in alone');
    assert.equal(clock.pending, 0);
  });

  it('finds the place where the other side begins to refuse', async () => {
    const clock = new VirtualClock();
    const limit = new AimdLimit({ size: 2, sizeMax: 100 });
    const lane = new Lane({ name: 'calls', limit, queueMax: 99, deadlineMs: 60_000, clock });
    let inside = 0;
    const call = async () => {
      if (inside >= 30) throw new SpillwayError('LANE_FULL', 'the other side is full');
      inside += 1;
      await sleep(clock, 100);
      inside -= 1;
    };
    const client = async () => {
      while (clock.now() < 60_000) await lane.run(call).catch(() => sleep(clock, 10));
    };
    await clock.run(Promise.all(Array.from({ length: 80 }, client)));
    const { limit: size } = lane.stats;
    assert.ok(size >= 24 && size <= 32, `ended at ${size} for 30`);
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
    const hopeless = assert.rejects(lane.enter(), { code: 'DEADLINE' });
    await virtual.advance(99);
    const fresh = lane.enter();
    await virtual.advance(2);
    permit[Symbol.dispose]();
    await hopeless;
    (await fresh)[Symbol.dispose]();
    assert.equal(virtual.now(), 101, 'neither had to wait for the timer');
  });
});
