import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { Gate, Lane, systemClock } from 'spillway';
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

  for (const isFirst of [false, true]) {
    const when = isFirst ? 'before spillway is loaded' : 'after spillway was loaded';
    it(`of Jest, Vitest and sinon are told too, installed ${when}`, () => {
      const install = 'timers = FakeTimers.install();';
      // Those that were there first are in the place of all that spillway loads, too.
      const useOthers = `
        const gate = new Gate({ limit: 1, queueMax: 5_000 });
        await Promise.all(Array.from({ length: 2_000 }, () => gate.run(async () => {})));
        await new Promise((resolve) => {
          new Backlog({ queueMax: 1, consume: resolve }).add(1);
        });
        const { VirtualClock } = await import('spillway/testing');
        await new VirtualClock().advance(1_000);`;
      const program = `
        import FakeTimers from '@sinonjs/fake-timers';
        let timers;
        ${isFirst ? install : ''}
        const { Backlog, Gate, systemClock } = await import('spillway');
        ${isFirst ? '' : install}
        systemClock.after(5, () => console.log('fired in real time'));
        timers.tick(60_000);
        ${isFirst ? '' : useOthers}`;
      const args = ['--input-type=module', '-e', program];
      const options = { cwd: import.meta.dirname, encoding: 'utf8', timeout: 60_000 } as const;
      const { status, stdout, stderr } = spawnSync(process.execPath, args, options);
      assert.equal(status, 0, stderr);
      assert.equal(stdout, 'fired in real time\n');
      assert.equal(stderr.match(/SPILLWAY_FAKE_TIMERS/g)?.length, 1, stderr);
    });
  }

  it('leave turns of the event loop as they are: gates and the virtual clock go on', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'setImmediate'] });
    const gate = new Gate({ limit: 1, queueMax: 5_000 });
    let done = 0;
    const task = async (): Promise<void> => {
      done += 1;
    };
    // More than one turn of the loop grants.
    await Promise.all(Array.from({ length: 2_000 }, () => gate.run(task)));
    assert.equal(done, 2_000);
    await new VirtualClock().advance(1_000);
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
