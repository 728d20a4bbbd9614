import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { openDispatcher as open } from './fixtures/manual-threads.ts';

describe('Dispatcher: affinity', () => {
  it('binds by chance: another pool binds other tasks together', async () => {
    const names = Array.from({ length: 40 }, (_, i) => `${i}`);
    const split = async (random: number) => {
      const { threads, ...scene } = await open({
        workers: 2,
        concurrency: 100,
        random: () => random,
      });
      for (const affinity of names) await scene.send(affinity, { affinity });
      return [...(threads[0]?.sent.values() ?? [])];
    };
    const first = await split(0.25);
    assert.ok(first.length > 5 && first.length < 35);
    assert.notDeepEqual(first, await split(0.75));
  });

  it('has its turn by age, however many others always wait', async () => {
    for (const workers of [1, 2]) {
      const { clock, threads, ...scene } = await open({ workers, deadlineMs: Infinity });
      const order: unknown[] = [];
      const send = async (name: string, options = {}) => {
        await scene.send(name, options);
        await clock.advance(1);
      };
      for (let i = 0; i < 20; i += 1) await send(`free ${i}`);
      await send('bound', { affinity: 'x' });
      // Each thread ends one task of 50 ms after the other, and for each a new one comes.
      for (let n = 20; n < 60; n += 1) {
        for (const thread of threads) {
          const input = [...thread.sent.values()].find((each) => !order.includes(each));
          order.push(input);
          const ticket = thread.begin(input);
          await clock.advance(50);
          await send(`free ${n}.${threads.indexOf(thread)}`);
          thread.answer(ticket, 1, 50);
          await turn();
        }
      }
      assert.equal(order.length, 40 * workers);
      const at = order.indexOf('bound');
      assert.ok(at >= 20 - workers && at <= 20 + workers, `begun as number ${at}`);
      assert.deepEqual(
        order.slice(0, 15),
        Array.from({ length: 15 }, (_, i) => `free ${i}`),
      );
    }
  });

  it('lets those of a higher priority go first, also if they came later', async () => {
    const { thread, clock, ...scene } = await open();
    const first = await scene.send('first');
    const ticket = thread.begin('first');
    await scene.send('second');
    await clock.advance(1);
    await scene.send('bound', { affinity: 'x', priority: 1 });
    await scene.send('low');
    await clock.advance(1);
    await scene.send('high', { priority: 2 });
    thread.answer(ticket, 1, 50);
    await first.promise;
    await turn();
    assert.deepEqual([...thread.sent.values()], ['first', 'second', 'high']);
    thread.answer(thread.begin('second'), 1, 50);
    await turn();
    thread.answer(thread.begin('high'), 1, 50);
    await turn();
    assert.deepEqual([...thread.sent.values()].slice(3), ['bound', 'low']);
  });

  it('lets none overtake those of its affinity when the pool is resized', async () => {
    const { dispatcher, threads, ...scene } = await open({ concurrency: 2 });
    const affinity = 'x';
    const before = await scene.send('before', { affinity });
    const ticket = scene.thread.begin('before');
    dispatcher.resize(8);
    for (const thread of threads.slice(1)) thread.ready();
    await scene.send('after', { affinity });
    const others = ['p', 'q', 'r', 's'];
    for (const other of others) await scene.send(other, { affinity: other });
    const sent = () => threads.flatMap((thread) => [...thread.sent.values()]);
    assert.equal(sent().includes('after'), false);
    assert.ok(others.some((other) => sent().includes(other)));
    scene.thread.answer(ticket, 1);
    await before.promise;
    await turn();
    assert.equal(sent().includes('after'), true);
  });

  it('lets none overtake those of a worker that is being replaced', async () => {
    const { workers, threads, ...scene } = await open({ concurrency: 2 });
    const before = await scene.send('before', { affinity: 'x' });
    const ticket = scene.thread.begin('before');
    workers.recycle(0);
    threads[1]?.ready();
    await scene.send('after', { affinity: 'x' });
    await scene.send('free');
    assert.deepEqual([...(threads[1]?.sent.values() ?? [])], ['free']);
    scene.thread.answer(ticket, 1);
    await before.promise;
    await turn();
    assert.deepEqual([...(threads[1]?.sent.values() ?? [])], ['free', 'after']);
  });

  /** Tasks that a worker has and has not begun; the buffers of two of them have moved there. */
  async function moved() {
    const scene = await open({ concurrency: 8 });
    const [first, second] = [new ArrayBuffer(8), new ArrayBuffer(8)];
    await scene.send('free');
    await scene.send('older', { affinity: 'x' });
    const bound = await scene.send(first, { affinity: 'x', transfer: [first] });
    await scene.send('newer', { affinity: 'x' });
    const free = await scene.send(second, { transfer: [second] });
    return { ...scene, bound, free };
  }

  it('keeps a task whose buffer has moved, and those of its affinity before it', async () => {
    const { dispatcher, thread, bound, free } = await moved();
    dispatcher.pause();
    assert.deepEqual(
      ['free', 'newer', 'older'].map((input) => thread.begin(input) !== undefined),
      [false, false, true],
    );
    assert.deepEqual([bound.worker, free.worker].includes(undefined), false);
  });

  it('loses only such tasks with a worker that has begun none', async () => {
    const { dispatcher, thread, bound, free } = await moved();
    thread.exit(new Error('crash'));
    for (const task of [bound, free]) await assert.rejects(task.promise, { code: 'WORKER_LOST' });
    assert.equal(dispatcher.stats.waiting, 3);
  });

  it('sends what waits to its new worker when the pool is resized, if that is idle', async () => {
    const names = Array.from({ length: 40 }, (_, i) => `${i}`);
    const boundTo = async (index: number, workers: number) => {
      const { threads, ...scene } = await open({ workers, concurrency: 100 });
      for (const affinity of names) await scene.send(affinity, { affinity });
      return [...(threads[index]?.sent.values() ?? [])] as string[];
    };
    const [before, after] = [await boundTo(1, 2), await boundTo(0, 3)];
    const [affinity] = before.filter((name) => after.includes(name));
    const [other] = before.filter((name) => name !== affinity);
    const { dispatcher, threads, ...scene } = await open({ workers: 2 });
    await scene.send('busy', { affinity: other });
    threads[1]?.begin('busy');
    await scene.send('waits', { affinity });
    assert.equal(threads[1]?.begin('waits'), undefined);
    dispatcher.resize(3);
    await turn();
    assert.notEqual(threads[0]?.begin('waits'), undefined);
  });
});

describe('Dispatcher: news', () => {
  it('has a worker replaced that has done its tasks', async () => {
    const recycle = { tasksMax: 2, intervalMs: 0 };
    const { threads, ...scene } = await open({ recycle });
    for (const [done, started] of [1, 1, 2].entries()) {
      assert.equal(threads.length, started);
      if (done === 2) break;
      await scene.send(done);
      scene.thread.answer(scene.thread.begin(done), 1);
      await turn();
    }
  });

  it('tells of a refusal whose it is', async () => {
    const told: unknown[] = [];
    const note = (message: unknown) => told.push((message as { part: unknown }).part);
    const { part, ...scene } = await open({ queueMax: 0 });
    subscribe('spillway:refused', note);
    scene.submit('a');
    scene.submit('b');
    unsubscribe('spillway:refused', note);
    assert.deepEqual(told, [part]);
    assert.equal(told[0], part);
  });
});

describe('Dispatcher: results that no message tells of', () => {
  it('reads them on a timer while a worker has more than one task', async () => {
    const { clock, ...scene } = await open();
    const [first, second] = [scene.submit('a'), scene.submit('b')];
    await turn();
    scene.thread.leave(scene.thread.begin('a'), 5);
    await clock.advance(2);
    assert.equal(await first.promise, 5);
    scene.thread.leave(scene.thread.begin('b'), 6);
    await clock.advance(2);
    assert.equal(await second.promise, 6);
    await clock.advance(1_000);
    assert.equal(clock.pending, 0, 'no timer is left');
  });
});
