import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { type DispatcherScene, openDispatcher as open } from './fixtures/manual-threads.ts';

/** Tests of `Dispatcher` on threads that do what the test says. */
describe('Dispatcher: tasks', () => {
  it('sends a task and gives its result, and counts both', async () => {
    const { dispatcher, clock, ...scene } = await open();
    await clock.advance(500);
    const task = await scene.send('a');
    assert.deepEqual(count(dispatcher), { limit: 1, inside: 1, waiting: 0, arrived: 1 });
    await clock.advance(30);
    const ticket = scene.thread.begin('a');
    scene.thread.answer(ticket, { is: 'done' }, 20);
    assert.deepEqual(await task.promise, { is: 'done' });
    const { outcomes, waitMs, serviceMs } = dispatcher.stats;
    assert.deepEqual(outcomes, { ok: 1, failed: 0, late: 0, aborted: 0 });
    assert.deepEqual([Math.round(waitMs.mean), Math.round(serviceMs.mean)], [10, 20]);
    assert.deepEqual(count(dispatcher), { limit: 1, inside: 0, waiting: 0, arrived: 1 });
    assert.equal(task.handler.expectedMs, 20);
    scene.thread.answer(ticket, 'again');
    scene.thread.say({ type: 'chunk', ticket: ticket as number, value: 1 });
    assert.equal(dispatcher.stats.finished, 1);
  });

  it('rejects with what the handler threw, and learns its time', async () => {
    const { dispatcher, ...scene } = await open();
    const task = await scene.send('a');
    scene.thread.fail(scene.thread.begin('a'), 'too far', 7);
    await assert.rejects(task.promise, { name: 'RangeError', message: 'too far' });
    assert.deepEqual([dispatcher.stats.outcomes.failed, task.handler.expectedMs], [1, 7]);
  });

  it('never says that a task waited for less than nothing', async () => {
    const { dispatcher, ...scene } = await open();
    const task = await scene.send('a');
    scene.thread.answer(scene.thread.begin('a'), 1, 20);
    await task.promise;
    assert.equal(dispatcher.stats.waitMs.mean, 0);
  });

  it('knows its handlers by name, and says which there are', async () => {
    const { dispatcher } = await open();
    assert.throws(
      () => dispatcher.submit('none', 1, {}),
      /one of the module's handlers: work, other/,
    );
    assert.throws(() => dispatcher.submit('work', 1, { priority: 8 }), /priority/);
    assert.equal(dispatcher.stats.arrived, 0);
    assert.equal(dispatcher.submit('other', 1, {}).handler.number, 1);
    assert.equal(
      dispatcher.submit('work', 1, {}).handler,
      dispatcher.submit('work', 2, {}).handler,
    );
  });

  it('passes chunks on until the caller has left', async () => {
    const { dispatcher, ...scene } = await open();
    const chunks: unknown[] = [];
    const task = dispatcher.submit('work', 'a', {}, (value) => chunks.push(value));
    await turn();
    const ticket = scene.thread.begin('a') as number;
    scene.thread.say({ type: 'chunk', ticket, value: 1 });
    dispatcher.end(task, new Error('left'));
    scene.thread.say({ type: 'chunk', ticket, value: 2 });
    await assert.rejects(task.promise, /left/);
    assert.deepEqual(chunks, [1]);
    const plain = await scene.send('b');
    scene.thread.say({ type: 'chunk', ticket: plain.ticket, value: 3 });
  });

  it('refuses alone a task that cannot be copied', async () => {
    const { dispatcher, ...scene } = await open({ concurrency: 4 });
    const [good, bad] = [scene.submit('a'), scene.submit(() => {})];
    const refused = assert.rejects(bad.promise, /input/);
    await turn();
    await refused;
    assert.deepEqual(count(dispatcher), { limit: 4, inside: 1, waiting: 0, arrived: 2 });
    assert.equal(dispatcher.stats.refused.aborted, 1);
    scene.thread.answer(scene.thread.begin('a'), 1);
    assert.equal(await good.promise, 1);
  });

  it('sends all that is due at the end of a turn in one go, and not before', async () => {
    const { ...scene } = await open({ concurrency: 4 });
    scene.submit('a');
    scene.submit('b');
    assert.equal(scene.thread.sent.size, 0);
    await turn();
    assert.deepEqual([scene.thread.sent.size, scene.thread.posts], [2, 1]);
  });
});

describe('Dispatcher: refusals', () => {
  it('takes as many as can run and wait, and not one more', async () => {
    const { dispatcher, threads, ...scene } = await open({
      workers: 2,
      concurrency: 2,
      queueMax: 3,
    });
    for (let i = 0; i < 7; i += 1) scene.submit(i);
    assert.equal(dispatcher.stats.refused.full, 0);
    const surplus = scene.submit(7);
    await assert.rejects(surplus.promise, { code: 'POOL_FULL', message: '7 tasks wait or run' });
    await assert.rejects(surplus.promise, ({ retryAfterMs }) => retryAfterMs === undefined);
    await turn();
    assert.deepEqual(count(dispatcher), { limit: 4, inside: 4, waiting: 3, arrived: 8 });
    assert.equal(dispatcher.stats.refused.full, 1);
    for (let i = 0; i < 7; i += 1) {
      for (const thread of threads) {
        const ticket = thread.begin(i);
        if (ticket !== undefined) thread.answer(ticket, i);
      }
      await turn();
    }
    assert.equal(dispatcher.stats.finished, 7);
    assert.ok(threads.every(({ sent }) => ![...sent.values()].includes(7)));
  });

  it('says when to come again, by the queue and the time of tasks', async () => {
    const { ...scene } = await open({ queueMax: 3 });
    const first = await scene.send('a');
    scene.thread.answer(scene.thread.begin('a'), 1, 20);
    await first.promise;
    for (let i = 0; i < 4; i += 1) scene.submit(i);
    await assert.rejects(scene.submit('b').promise, ({ retryAfterMs }) => {
      return Math.round(retryAfterMs) === 80;
    });
  });

  it('refuses a signal that has aborted before', async () => {
    const { dispatcher, ...scene } = await open();
    const task = scene.submit('a', { signal: AbortSignal.abort(new Error('gone')) });
    await assert.rejects(task.promise, /gone/);
    await turn();
    assert.deepEqual([dispatcher.stats.refused.aborted, scene.thread.sent.size], [1, 0]);
    assert.equal(dispatcher.stats.waiting, 0);
  });

  it('takes away a task that has not begun, and stops one that has', async () => {
    const { dispatcher, ...scene } = await open();
    const [running, waiting] = [new AbortController(), new AbortController()];
    const first = await scene.send('a', { signal: running.signal });
    const second = await scene.send('b', { signal: waiting.signal });
    scene.thread.begin('a');
    waiting.abort(new Error('second'));
    await assert.rejects(second.promise, /second/);
    assert.deepEqual([dispatcher.stats.refused.aborted, dispatcher.stats.waiting], [1, 0]);
    assert.equal(scene.thread.begin('b'), undefined);
    assert.deepEqual(scene.thread.aborts, []);
    running.abort(new Error('first'));
    await assert.rejects(first.promise, /first/);
    assert.deepEqual(scene.thread.aborts, [first.ticket]);
    assert.deepEqual([dispatcher.stats.refused.aborted, dispatcher.stats.inside], [1, 1]);
    assert.equal(dispatcher.ready, false, 'its one worker is stuck');
    scene.thread.answer(first.ticket, 'too late');
    assert.equal(dispatcher.stats.outcomes.aborted, 1);
    assert.equal(dispatcher.ready, true);
  });

  it("with `cancel: 'queued'` lets a task that has begun go on", async () => {
    const { dispatcher, ...scene } = await open();
    const abort = new AbortController();
    const options = { signal: abort.signal, cancel: 'queued' } as const;
    const first = await scene.send('a', options);
    const second = await scene.send('b', options);
    const ticket = scene.thread.begin('a');
    abort.abort(new Error('gone'));
    await assert.rejects(second.promise, /gone/);
    assert.deepEqual([dispatcher.stats.refused.aborted, scene.thread.aborts], [1, []]);
    scene.thread.answer(ticket, 'whole');
    assert.equal(await first.promise, 'whole');
    assert.equal(dispatcher.stats.outcomes.ok, 1);
  });

  it('ends each task at its deadline, wherever it is', async () => {
    const { dispatcher, clock, ...scene } = await open({ deadlineMs: 100 });
    const first = await scene.send('a');
    scene.thread.begin('a');
    await clock.advance(10);
    const second = await scene.send('b');
    const third = await scene.send('c');
    await clock.advance(89);
    assert.deepEqual(count(dispatcher), { limit: 1, inside: 1, waiting: 2, arrived: 3 });
    await clock.advance(1);
    const late = { code: 'DEADLINE', message: 'not done within 100 ms' };
    await assert.rejects(first.promise, late);
    assert.deepEqual(count(dispatcher), { limit: 1, inside: 1, waiting: 2, arrived: 3 });
    await clock.advance(9);
    assert.equal(dispatcher.stats.refused.deadline, 0);
    await clock.advance(1);
    await Promise.all([assert.rejects(second.promise, late), assert.rejects(third.promise, late)]);
    assert.equal(dispatcher.stats.refused.deadline, 2);
    scene.thread.answer(first.ticket, 1);
    assert.deepEqual(dispatcher.stats.outcomes, { ok: 0, failed: 0, late: 1, aborted: 0 });
  });

  it('clears what has not begun', async () => {
    const { dispatcher, ...scene } = await open();
    const running = await scene.send('a');
    const ticket = scene.thread.begin('a');
    const [sent, waiting] = [await scene.send('b'), await scene.send('c')];
    dispatcher.clear();
    for (const task of [sent, waiting]) await assert.rejects(task.promise, { code: 'CLEARED' });
    assert.equal(dispatcher.stats.refused.cleared, 2);
    scene.thread.answer(ticket, 1);
    assert.equal(await running.promise, 1);
  });
});

describe('Dispatcher: tasks that do not stop', () => {
  it('lets one stop by itself, and leaves its worker alone then', async () => {
    const { dispatcher, clock, ...scene } = await open();
    const task = await scene.send('a');
    const ticket = scene.thread.begin('a');
    dispatcher.end(task, new Error('left'));
    await clock.advance(49);
    scene.thread.answer(ticket, 1);
    await clock.advance(100);
    assert.deepEqual([scene.thread.isEnded, scene.thread.isAskedToClose], [false, false]);
  });

  it('ends the worker of one that does not, alone in it, in time', async () => {
    const { dispatcher, clock, ...scene } = await open();
    const task = await scene.send('a');
    scene.thread.begin('a');
    dispatcher.end(task, new Error('left'));
    dispatcher.end(task, new Error('left twice'));
    assert.equal(scene.thread.aborts.length, 1);
    await clock.advance(49);
    assert.equal(scene.thread.isEnded, false);
    await clock.advance(1);
    assert.equal(scene.thread.isEnded, true);
  });

  it('gives those beside it as long again to end', async () => {
    for (const hasBegun of [true, false]) {
      const { dispatcher, clock, ...scene } = await open({ concurrency: 2 });
      const bad = await scene.send('bad');
      const good = await scene.send('good');
      scene.thread.begin('bad');
      const ticket = hasBegun ? scene.thread.begin('good') : undefined;
      dispatcher.end(bad, new Error('left'));
      await clock.advance(50);
      assert.equal(scene.thread.isEnded, !hasBegun);
      await clock.advance(49);
      assert.equal(scene.thread.isEnded, !hasBegun);
      await scene.send('next');
      assert.equal(scene.thread.begin('next'), undefined, 'it takes no more');
      if (hasBegun) {
        scene.thread.answer(ticket, 1);
        assert.equal(await good.promise, 1);
      }
      await clock.advance(1);
      assert.equal(scene.thread.isEnded, true);
    }
  });

  it('loses what a worker had begun, and sends the rest to the next', async () => {
    const { dispatcher, clock, threads, ...scene } = await open();
    const begun = await scene.send('a');
    const waiting = await scene.send('b');
    scene.thread.begin('a');
    scene.thread.exit(new Error('out of memory'));
    const lost = { code: 'WORKER_LOST', message: "the task's worker ended: out of memory" };
    await assert.rejects(begun.promise, lost);
    assert.equal(dispatcher.stats.serviceMs.mean, 0, 'nobody knows how long it took');
    assert.deepEqual(count(dispatcher), { limit: 1, inside: 0, waiting: 1, arrived: 2 });
    assert.equal(dispatcher.ready, false);
    await clock.advance(0);
    threads[1]?.ready();
    await turn();
    threads[1]?.answer(threads[1].begin('b'), 2);
    assert.equal(await waiting.promise, 2);
    assert.deepEqual(dispatcher.stats.outcomes, { ok: 1, failed: 1, late: 0, aborted: 0 });
  });

  it('reads the results that a worker has left before it ended', async () => {
    const { ...scene } = await open();
    const task = await scene.send('a');
    scene.thread.leave(scene.thread.begin('a'), 5);
    scene.thread.exit(new Error('crash'));
    assert.equal(await task.promise, 5);
  });
});

describe('Dispatcher: changes', () => {
  it('begins nothing while it is paused', async () => {
    const { dispatcher, ...scene } = await open();
    const begun = await scene.send('a');
    const ticket = scene.thread.begin('a');
    await scene.send('b');
    dispatcher.pause();
    assert.equal(scene.thread.begin('b'), undefined);
    await scene.send('c');
    scene.thread.answer(ticket, 1);
    assert.equal(await begun.promise, 1);
    await turn();
    assert.deepEqual(count(dispatcher), { limit: 1, inside: 0, waiting: 2, arrived: 3 });
    dispatcher.resume();
    await turn();
    assert.notEqual(scene.thread.begin('b'), undefined);
    assert.equal(dispatcher.stats.inside, 1);
  });

  it('drains: takes no more, resumes, and ends when all is done', async () => {
    const { dispatcher, ...scene } = await open();
    dispatcher.pause();
    const task = await scene.send('a');
    let isDrained = false;
    const drained = dispatcher.drain(new AbortController().signal).then(() => {
      isDrained = true;
    });
    dispatcher.pause();
    await turn();
    const late = scene.submit('b');
    await assert.rejects(late.promise, { code: 'POOL_CLOSED', message: 'the pool is closed' });
    assert.deepEqual(
      [dispatcher.stats.refused.closed, dispatcher.ready, isDrained],
      [1, false, false],
    );
    scene.thread.answer(scene.thread.begin('a'), 1);
    assert.equal(await task.promise, 1);
    await drained;
    await dispatcher.drain(new AbortController().signal);
  });

  it('drains until its limit, and refuses those that are left', async () => {
    const { dispatcher, clock, ...scene } = await open({ killAfterMs: Infinity });
    const [begun, waiting] = [await scene.send('a'), await scene.send('b')];
    scene.thread.begin('a');
    const limit = new AbortController();
    const drained = dispatcher.drain(limit.signal);
    limit.abort();
    await drained;
    for (const task of [begun, waiting]) {
      await assert.rejects(task.promise, {
        code: 'POOL_CLOSED',
        message: /before the task was done/,
      });
    }
    assert.equal(dispatcher.stats.refused.closed, 1);
    assert.equal(clock.pending, 1, 'no timer but that of the thread that must end');
  });

  it('holds the process only while it has tasks, if it is told to', async () => {
    const { clock, ...scene } = await open({ ref: false });
    assert.equal(scene.thread.isHeld, false);
    const first = await scene.send('a');
    assert.equal(scene.thread.isHeld, true);
    const second = await scene.send('b');
    for (const [input, task] of [
      ['a', first],
      ['b', second],
    ] as const) {
      assert.equal(scene.thread.isHeld, true);
      scene.thread.answer(scene.thread.begin(input), 1);
      await task.promise;
    }
    assert.equal(scene.thread.isHeld, false);
    assert.equal(clock.pending, 0);
    const held = await open();
    await held.send('a');
    held.thread.answer(held.thread.begin('a'), 1);
    assert.equal(held.thread.isHeld, true);
    assert.ok(held.clock.pending > 0, 'the timer of deadlines stays');
  });

  it('has idle workers take over what waits in busy ones', async () => {
    const { threads, ...scene } = await open({ workers: 2 });
    const tasks = ['a', 'b', 'c', 'd'].map((input) => scene.submit(input));
    await turn();
    const inputs = threads.map(({ sent }) => [...sent.values()].length);
    assert.deepEqual(inputs, [2, 2]);
    for (const input of threads[0]?.sent.values() ?? []) {
      threads[0]?.answer(threads[0].begin(input), input);
    }
    await turn();
    assert.equal(threads[0]?.sent.size, 3);
    for (const task of tasks.slice(0, 1)) assert.equal(await task.promise, 'a');
  });
});

function count({ stats }: DispatcherScene['dispatcher']) {
  const { limit, inside, waiting, arrived } = stats;
  return { limit, inside, waiting, arrived };
}
