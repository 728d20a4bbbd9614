import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { Lane, systemClock } from 'spillway';
import { VirtualClock } from 'spillway/testing';

describe('fake timers of a test runner', () => {
  it('are noticed and told once; real time goes on', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'] });
    const warned = once(process, 'warning');
    const fired = new Promise<void>((resolve) => systemClock.after(5, resolve));
    t.mock.timers.tick(60_000);
    const [warning] = await warned;
    assert.equal(warning.code, 'SPILLWAY_FAKE_TIMERS');
    assert.match(warning.message, /Pass `clock: new VirtualClock\(\)`/);
    const more: unknown[] = [];
    const note = (each: unknown): void => void more.push(each);
    process.on('warning', note);
    await fired;
    await new Promise<void>((resolve) => systemClock.after(1, resolve));
    process.off('warning', note);
    assert.deepEqual(more, []);
  });

  it('and the virtual clock do not disturb each other', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'work', limit: 1, queueMax: 1, deadlineMs: 60_000, clock });
    using _inside = await lane.enter();
    const waits = assert.rejects(
      lane.run(async () => {}),
      { code: 'DEADLINE' },
    );
    let ticked = false;
    setTimeout(() => {
      ticked = true;
    }, 1_000);
    await clock.advance(60_000);
    await waits;
    assert.equal(ticked, false);
    t.mock.timers.tick(1_000);
    assert.equal(ticked, true);
  });
});
