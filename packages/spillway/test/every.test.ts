import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { every } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { pause } from '../src/wait/wait-queue.ts';

const name = 'sweep';

describe('every', () => {
  it('runs again and again, with a pause after each run, from start until close', async () => {
    const clock = new VirtualClock();
    const times: number[] = [];
    const part = every({
      name,
      periodMs: 100,
      clock,
      run: async () => {
        times.push(clock.now());
        await pause(clock, 30);
      },
    });
    await clock.advance(500);
    assert.deepEqual([times, part.ready], [[], false]);
    part.start();
    part.start();
    assert.equal(part.ready, true);
    await clock.advance(400);
    assert.deepEqual(times, [600, 730, 860]);
    await part.close();
    await clock.advance(500);
    assert.equal(times.length, 3);
    assert.equal(part.ready, false);
    assert.equal(clock.pending, 0);
  });

  it('can run at the start, too', async () => {
    const clock = new VirtualClock();
    let runs = 0;
    const run = async () => {
      runs += 1;
    };
    await using part = every({ name, periodMs: 100, atStart: true, clock, run });
    part.start();
    await clock.advance(150);
    assert.equal(runs, 2);
  });

  it('goes on after a failure, which it counts and tells', async () => {
    const clock = new VirtualClock();
    const told: unknown[] = [];
    const onError = (error: unknown) => told.push(error);
    const run = async () => {
      throw new Error(`at ${clock.now()}`);
    };
    const part = every({ name, periodMs: 10, clock, run, onError });
    part.start();
    await clock.advance(25);
    assert.deepEqual(told.map(String), ['Error: at 10', 'Error: at 20']);
    assert.deepEqual(part.stats, { kind: 'every', runs: 0, failures: 2, isRunning: false });
    await part.close();
  });

  it('goes on when its hook throws', async (t) => {
    const clock = new VirtualClock();
    const warned = t.mock.method(process, 'emitWarning', () => {});
    const onError = () => {
      throw new Error('hook');
    };
    const fail = () => Promise.reject(new Error('run'));
    const part = every({ name, periodMs: 10, clock, onError, run: fail });
    part.start();
    await clock.advance(25);
    assert.deepEqual([part.stats.failures, warned.mock.callCount()], [2, 2]);
    await part.close();
  });

  it('waits for the run under way on closing, and aborts it when the time is over', async () => {
    const clock = new VirtualClock();
    const short = every({ name, periodMs: 10, clock, run: () => pause(clock, 50) });
    short.start();
    await clock.advance(20);
    const closed = short.close({ withinMs: 100 });
    await clock.run(closed);
    assert.deepEqual([clock.now(), short.stats.runs], [60, 1]);
    const long = every({ name, periodMs: 10, clock, run: (signal) => pause(clock, 500, signal) });
    long.start();
    await clock.advance(20);
    const late = assert.rejects(long.close({ withinMs: 100 }), { code: 'DEADLINE' });
    await clock.run(late);
    await clock.advance(0);
    assert.equal(long.stats.isRunning, false);
    assert.equal(clock.pending, 0);
  });

  it('refuses wrong options', () => {
    const run = async () => {};
    assert.throws(() => every({ name, periodMs: 0, run }), /every: periodMs: must be a number/);
    const wrong = { name, periodMs: 1, run, interval: 3 };
    assert.throws(() => every(wrong), /every: interval: is not an option/);
  });
});
