import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { deadline, systemClock } from 'spillway';
import { VirtualClock } from 'spillway/testing';

describe('VirtualClock', () => {
  it('runs what is due in order of time, then of asking', async () => {
    const clock = new VirtualClock();
    const seen: string[] = [];
    clock.after(20, () => seen.push('b'));
    clock.after(10, () => seen.push('a'));
    clock.after(20, () => seen.push('c'));
    clock.after(21, () => seen.push('late'));
    await clock.advance(20);
    assert.deepEqual(seen, ['a', 'b', 'c']);
    assert.equal(clock.now(), 20);
    assert.equal(clock.pending, 1);
  });

  it('settles promises between one timer and the next', async () => {
    const clock = new VirtualClock();
    const seen: string[] = [];
    const sleep = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));
    const chain = async () => {
      await sleep(10);
      for (let i = 0; i < 50; i += 1) await undefined;
      seen.push(`chain at ${clock.now()}`);
      await sleep(5);
      seen.push(`again at ${clock.now()}`);
    };
    void chain();
    clock.after(11, () => seen.push('timer'));
    await clock.advance(100);
    assert.deepEqual(seen, ['chain at 10', 'timer', 'again at 15']);
  });

  it('forgets what was disposed, and counts what is left behind', async () => {
    const clock = new VirtualClock();
    let called = false;
    const timer = clock.after(10, () => {
      called = true;
    });
    timer[Symbol.dispose]();
    timer[Symbol.dispose]();
    assert.equal(clock.pending, 0);
    await clock.advance(100);
    assert.equal(called, false);
  });

  it('runs a day of ticks, and the timers that timers start', async () => {
    const clock = new VirtualClock();
    let ticks = 0;
    const tick = () => {
      ticks += 1;
      clock.after(1_000, tick);
    };
    clock.after(1_000, tick);
    await clock.advance(86_400_000);
    assert.equal(ticks, 86_400);
  });

  it('runs until a promise settles, and says so when nothing can settle it', async () => {
    const clock = new VirtualClock();
    const late = new Promise<string>((resolve) => clock.after(5_000, () => resolve('done')));
    assert.equal(await clock.run(late), 'done');
    assert.equal(clock.now(), 5_000);
    await assert.rejects(clock.run(new Promise(() => {})), /promise: must be one that some timer/);
  });

  it('refuses a time that is no time', async () => {
    const clock = new VirtualClock();
    assert.throws(() => clock.after(Number.NaN, () => {}), /ms: must be a number from 0, got NaN/);
    await assert.rejects(clock.advance(-1), /ms: must be a finite number from 0, got -1/);
  });
});

describe('systemClock', () => {
  it('never calls back early, though the loop was busy when the timer was made', async () => {
    const busyUntil = systemClock.now() + 20;
    while (systemClock.now() < busyUntil);
    const startedAt = systemClock.now();
    await new Promise<void>((resolve) => systemClock.after(10, resolve));
    assert.ok(systemClock.now() - startedAt >= 10);
  });

  it('waits for more than setTimeout can, instead of firing at once', async () => {
    let fired = false;
    const month = systemClock.after(2 ** 32, () => {
      fired = true;
    });
    const forever = systemClock.after(Infinity, () => {
      fired = true;
    });
    await new Promise<void>((resolve) => systemClock.after(5, resolve));
    month[Symbol.dispose]();
    forever[Symbol.dispose]();
    assert.equal(fired, false);
  });
});

describe('deadline', () => {
  it('aborts with DEADLINE when the time is over', async () => {
    const clock = new VirtualClock();
    using limit = deadline(clock, 60_000);
    await clock.advance(59_999);
    assert.equal(limit.signal.aborted, false);
    await clock.advance(1);
    assert.throws(() => limit.signal.throwIfAborted(), { code: 'DEADLINE', status: 504 });
    assert.equal(clock.pending, 0);
  });

  it('tells its time in whole milliseconds', async () => {
    const clock = new VirtualClock();
    using limit = deadline(clock, 19.87128100000001);
    await clock.advance(20);
    assert.equal(limit.signal.reason.message, 'not done within 20 ms');
  });

  it('follows its parent with the parent’s reason, and leaves no timer behind', () => {
    const clock = new VirtualClock();
    const parent = new AbortController();
    using limit = deadline(clock, 60_000, parent.signal);
    parent.abort('gone');
    assert.equal(limit.signal.reason, 'gone');
    assert.equal(clock.pending, 0);
    using stillborn = deadline(clock, 60_000, parent.signal);
    assert.equal(stillborn.signal.reason, 'gone');
    assert.equal(clock.pending, 0);
  });

  it('is over when it is disposed', async () => {
    const clock = new VirtualClock();
    const limit = deadline(clock, 10);
    limit[Symbol.dispose]();
    await clock.advance(100);
    assert.equal(limit.signal.aborted, false);
    const parent = new AbortController();
    deadline(clock, 10, parent.signal)[Symbol.dispose]();
    assert.deepEqual(getEventListeners(parent.signal, 'abort'), []);
  });
});
