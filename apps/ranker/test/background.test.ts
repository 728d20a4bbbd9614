import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { Background } from '../src/learn/background.ts';
import { Foreground } from '../src/learn/foreground.ts';

/** Says these times one after another, and then the last one for good. */
function clockOf(...times: number[]) {
  const now = () => (times.length > 1 ? (times.shift() as number) : (times[0] as number));
  return { now, after: () => assert.fail('nothing is put off') };
}

describe('work in the background', () => {
  it('goes on at once while nobody is in the foreground', () => {
    const foreground = new Foreground();
    foreground.enter()[Symbol.dispose]();
    const background = new Background(foreground.inside, clockOf(0, 3_600_000));
    background.makeWay();
    assert.equal(foreground.inside[0], 0);
  });

  it('counts each who is inside once, however often it leaves', () => {
    const foreground = new Foreground();
    const [one, other] = [foreground.enter(), foreground.enter()];
    one[Symbol.dispose]();
    one[Symbol.dispose]();
    assert.equal(foreground.inside[0], 1);
    other[Symbol.dispose]();
    assert.equal(foreground.inside[0], 0);
  });

  it('has a twentieth of the time when somebody is always in the foreground', () => {
    const foreground = new Foreground();
    using _inside = foreground.enter();
    // A piece of 2 ms: it looks at 2, at 39 and at 40, when its time has come.
    const seen: number[] = [];
    const clock = clockOf(0, 2, 39, 40);
    const background = new Background(foreground.inside, {
      ...clock,
      now: () => {
        seen.push(clock.now());
        return seen.at(-1) as number;
      },
    });
    background.makeWay();
    assert.deepEqual(seen, [0, 2, 39, 40, 40]);
  });

  it('goes on when the last one has left, on another thread', async () => {
    const foreground = new Foreground();
    const [one, other] = [foreground.enter(), foreground.enter()];
    const module = JSON.stringify(import.meta.resolve('../src/learn/background.ts'));
    const program = `
      import { parentPort, workerData } from 'node:worker_threads';
      import { Background } from ${module};
      const times = [0, 3_600_000];
      const now = () => times.shift() ?? 3_600_000;
      const background = new Background(workerData, { now });
      parentPort.postMessage('waits');
      background.makeWay();
      parentPort.postMessage('goes on');`;
    const address = new URL(`data:text/javascript,${encodeURIComponent(program)}`);
    const worker = new Worker(address, { workerData: foreground.inside });
    await once(worker, 'message');
    one[Symbol.dispose]();
    const goesOn = once(worker, 'message');
    other[Symbol.dispose]();
    assert.deepEqual(await goesOn, ['goes on']);
    await once(worker, 'exit');
  });
});
