import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, it } from 'node:test';
import { Backlog } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { assertBalanced, type Job, job, keyed, manual } from './fixtures/manual-backlog.ts';

describe('Backlog', () => {
  it('returns before the work starts, and does it in the order it came', async () => {
    const { backlog, started, items, settle } = manual<string>({ queueMax: 9 });
    for (const item of ['a', 'b', 'c']) assert.equal(backlog.add(item), 'added');
    assert.deepEqual(items(), []);
    for (let i = 0; i < 3; i += 1) {
      await settle();
      assert.equal(started.length, i + 1);
      started[i]?.done();
    }
    await backlog.idle();
    assert.deepEqual(items(), ['a', 'b', 'c']);
    assert.equal(backlog.stats.done, 3);
  });

  it('drops what is over its size, tells why, and takes more once there is room', async () => {
    const { backlog, drops, started, settle } = manual<string>({ queueMax: 2 });
    assert.deepEqual(
      ['a', 'b', 'c'].map((item) => backlog.add(item)),
      ['added', 'added', 'dropped'],
    );
    assert.deepEqual(drops, [['c', 'full', undefined]]);
    await settle();
    started[0]?.done();
    await settle();
    assert.equal(backlog.add('d'), 'added');
    assert.deepEqual(backlog.stats.dropped, {
      attempts: 0,
      cleared: 0,
      closed: 0,
      error: 0,
      full: 1,
    });
    assertBalanced(backlog);
  });

  it('runs a key once more after the latest event, and not more often', async () => {
    const { backlog, items, started, settle } = manual<Job>({ queueMax: 9, ...keyed });
    backlog.add(job('a', 1));
    assert.equal(backlog.add(job('a', 2)), 'merged');
    await settle();
    assert.equal(backlog.add(job('a', 3)), 'added');
    for (let id = 4; id <= 20; id += 1) assert.equal(backlog.add(job('a', id)), 'merged');
    started[0]?.done();
    await settle();
    started[1]?.done();
    await backlog.idle();
    const later = Array.from({ length: 18 }, (_, i) => i + 3);
    assert.deepEqual(items(), [job('a', 1, 2), job('a', ...later)]);
    assertBalanced(backlog);
  });

  it('keeps the newest of a key when no merge is given', async () => {
    const { backlog, items, settle } = manual<Job>({ queueMax: 9, key: ({ key }) => key });
    backlog.add(job('a', 1));
    backlog.add(job('a', 2));
    await settle();
    assert.deepEqual(items(), [job('a', 2)]);
  });

  it('keeps the place of an item that others are merged into, even when it is full', async () => {
    const { backlog, items, started, settle } = manual<Job>({ queueMax: 3, ...keyed });
    backlog.add(job('a', 1));
    await settle();
    backlog.add(job('a', 2));
    backlog.add(job('b', 3));
    assert.equal(backlog.add(job('a', 4)), 'merged');
    for (let i = 0; i < 3; i += 1) {
      started[i]?.done();
      await settle();
    }
    assert.deepEqual(items(), [job('a', 1), job('a', 2, 4), job('b', 3)]);
  });

  it('passes over a key that runs, with several consumers, until it is free', async () => {
    const options = { queueMax: 9, consumers: 2, ...keyed };
    const { backlog, items, started, settle } = manual<Job>(options);
    backlog.add(job('a', 1));
    await settle();
    backlog.add(job('a', 2));
    backlog.add(job('b', 3));
    backlog.add(job('c', 4));
    await settle();
    assert.deepEqual(items(), [job('a', 1), job('b', 3)]);
    started[0]?.done();
    await settle();
    assert.deepEqual(items().at(-1), job('a', 2));
  });

  it('tries again after a jittered, doubling wait, while others go on', async () => {
    const options = { queueMax: 9, attemptsMax: 4, backoffMs: 100, backoffMsMax: 300 };
    const { backlog, clock, drops, items, started, settle } = manual<string>(options);
    backlog.add('bad');
    await settle();
    started[0]?.fail(new Error('first'));
    backlog.add('good');
    await settle();
    assert.deepEqual(items(), ['bad', 'good']);
    assert.equal(backlog.stats.retrying, 1);
    started[1]?.done();
    // Half of 100, 200 and then 300, where the doubling ends.
    const waits = [50, 100, 150];
    for (const [i, waitMs] of waits.entries()) {
      await clock.advance(waitMs - 1);
      assert.equal(started.length, i + 2);
      await clock.advance(1);
      assert.equal(started.length, i + 3);
      started[i + 2]?.fail(new Error(`attempt ${i + 2}`));
      await settle();
    }
    assert.deepEqual(drops, [['bad', 'attempts', new Error('attempt 4')]]);
    const { done, failed, dropped } = backlog.stats;
    assert.deepEqual(
      { done, failed, attempts: dropped.attempts },
      { done: 1, failed: 4, attempts: 1 },
    );
    await backlog.idle();
    assert.equal(clock.pending, 0);
  });

  it('counts an item that waits for its retry, and merges its key into it', async () => {
    const { backlog, clock, items, started, settle } = manual<Job>({ queueMax: 1, ...keyed });
    backlog.add(job('a', 1));
    await settle();
    started[0]?.fail(new Error('no'));
    await settle();
    assert.equal(backlog.add(job('b', 2)), 'dropped');
    assert.equal(backlog.add(job('a', 3)), 'merged');
    await clock.advance(100);
    assert.deepEqual(items(), [job('a', 1), job('a', 1, 3)]);
    assertBalanced(backlog);
  });

  it('merges a failed item with the one of its key that came meanwhile', async () => {
    const options = { queueMax: 9, attemptsMax: 2, ...keyed };
    const { backlog, clock, drops, items, started, settle } = manual<Job>(options);
    backlog.add(job('a', 1));
    await settle();
    backlog.add(job('a', 2));
    started[0]?.fail(new Error('no'));
    await settle();
    assert.equal(backlog.stats.waiting, 0);
    assert.equal(backlog.stats.retrying, 1);
    await clock.advance(100);
    backlog.add(job('a', 3));
    started[1]?.fail(new Error('never'));
    await settle();
    assert.deepEqual(items(), [job('a', 1), job('a', 1, 2), job('a', 3)]);
    assert.deepEqual(drops, [[job('a', 1, 2), 'attempts', new Error('never')]]);
    assertBalanced(backlog);
  });

  it('fails an item whose consumer throws before it gives a promise', async () => {
    const clock = new VirtualClock();
    const backlog = new Backlog<string>({
      queueMax: 1,
      attemptsMax: 1,
      clock,
      consume: () => {
        throw new Error('at once');
      },
    });
    backlog.add('a');
    await backlog.idle();
    assert.equal(backlog.stats.dropped.attempts, 1);
  });
});

describe('Backlog with callbacks that throw', () => {
  const broken = (): never => {
    throw new Error('broken');
  };

  it('drops an item whose key cannot be found, and goes on', async () => {
    const { backlog, drops, started, settle } = manual<Job>({
      queueMax: 9,
      key: (item) => (item.key === 'bad' ? broken() : item.key),
    });
    assert.equal(backlog.add(job('bad', 1)), 'dropped');
    assert.equal(backlog.add(job('good', 2)), 'added');
    await settle();
    assert.equal(started.length, 1);
    assert.deepEqual(drops, [[job('bad', 1), 'error', new Error('broken')]]);
  });

  it('keeps the waiting item when merge throws, and drops the other', async () => {
    const options = { queueMax: 9, key: keyed.key, merge: broken };
    const { backlog, drops, items, started, settle } = manual<Job>(options);
    backlog.add(job('a', 1));
    assert.equal(backlog.add(job('a', 2)), 'dropped');
    await settle();
    backlog.add(job('a', 3));
    started[0]?.fail(new Error('no'));
    await settle();
    assert.deepEqual(items(), [job('a', 1), job('a', 3)]);
    assert.deepEqual(
      drops.map(([item, reason]) => [item.ids[0], reason]),
      [
        [2, 'error'],
        [1, 'error'],
      ],
    );
    assertBalanced(backlog);
  });

  it('tells the diagnostics channel of what it drops', (t) => {
    const told: unknown[] = [];
    const listen = (message: unknown) => told.push(message);
    subscribe('spillway:dropped', listen);
    t.after(() => unsubscribe('spillway:dropped', listen));
    const { backlog } = manual<string>({ queueMax: 1 });
    backlog.add('a');
    backlog.add('b');
    assert.deepEqual(told, [{ part: backlog, item: 'b', reason: 'full', error: undefined }]);
  });

  it('goes on when onDrop throws', async () => {
    const options = { queueMax: 1, attemptsMax: 1, onDrop: broken };
    const { backlog, started, settle } = manual<string>(options);
    backlog.add('a');
    assert.equal(backlog.add('b'), 'dropped');
    await settle();
    started[0]?.fail(new Error('no'));
    await backlog.idle();
    assert.equal(backlog.add('c'), 'added');
    await settle();
    await assert.rejects(backlog.close({ signal: AbortSignal.abort() }), { code: 'BACKLOG_LEFT' });
    assert.deepEqual(backlog.stats.dropped, {
      attempts: 1,
      cleared: 0,
      closed: 1,
      error: 0,
      full: 1,
    });
  });

  it('does not look again and again at what waits behind a slow key', async () => {
    /** CPU time, which other programs do not use up, for so many items behind one slow key. */
    const cpuOf = async (count: number) => {
      const { promise: slow, resolve: end } = Promise.withResolvers<void>();
      const backlog = new Backlog<string>({
        queueMax: count + 2,
        consumers: 2,
        key: (item) => item,
        consume: (item) => (item === 'slow' ? slow : undefined),
      });
      backlog.add('slow');
      await new Promise(setImmediate);
      backlog.add('slow');
      const before = process.cpuUsage();
      for (let at = 0; at < count; at += 1) backlog.add(`item ${at}`);
      while (backlog.stats.done < count) await new Promise(setImmediate);
      const { user } = process.cpuUsage(before);
      end();
      await backlog.close();
      assert.equal(backlog.stats.done, count + 2);
      return user;
    };
    await cpuOf(3_000);
    let apart = 0;
    for (let round = 0; round < 8; round += 1) apart += await cpuOf(3_000);
    const together = await cpuOf(24_000);
    // Equal if each item costs the same; 8 times as much if each costs what waits before it.
    assert.ok(together < 4 * apart, `${together} us together, ${apart} us apart`);
  });

  it('runs each item in the AsyncLocalStorage context of the caller that added it', async () => {
    const request = new AsyncLocalStorage<string>();
    const seen: [string, string | undefined][] = [];
    await using backlog = new Backlog<string>({
      queueMax: 9,
      consume: async (item) => {
        await Promise.resolve();
        seen.push([item, request.getStore()]);
      },
    });
    request.run('first', () => backlog.add('a'));
    request.run('second', () => backlog.add('b'));
    backlog.add('c');
    await backlog.idle();
    assert.deepEqual(seen, [
      ['a', 'first'],
      ['b', 'second'],
      ['c', undefined],
    ]);
  });

  it('is a part of a service: it has a name, and is ready until it closes', async () => {
    const backlog = new Backlog<string>({ name: 'mails', queueMax: 1, consume: () => {} });
    assert.deepEqual([backlog.name, backlog.ready, backlog.stats.kind], ['mails', true, 'backlog']);
    await backlog.close();
    assert.equal(backlog.ready, false);
  });
});
