import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Backlog, type BacklogOptions } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { assertBalanced, type Job, job, keyed, manual, size } from './fixtures/manual-backlog.ts';

describe('Backlog at its end', () => {
  it('is idle at once when it has nothing to do, and stops waiting when told to', async () => {
    const { backlog, settle, started } = manual<string>({ queueMax: 9 });
    await backlog.idle();
    backlog.add('a');
    const quitter = new AbortController();
    const gone = assert.rejects(backlog.idle({ signal: quitter.signal }), /enough/);
    quitter.abort(new Error('enough'));
    await gone;
    await assert.rejects(backlog.idle({ signal: quitter.signal }), /enough/);
    await settle();
    started[0]?.done();
    await backlog.idle();
  });

  it('finishes what it has, retries included, and takes nothing more', async () => {
    const { backlog, clock, drops, items, started, settle } = manual<string>({ queueMax: 9 });
    backlog.add('a');
    backlog.add('b');
    await settle();
    const closed = backlog.close({ withinMs: 1_000 });
    assert.equal(backlog.add('late'), 'dropped');
    started[0]?.fail(new Error('no'));
    await settle();
    started[1]?.done();
    await clock.advance(100);
    started[2]?.done();
    await closed;
    await backlog[Symbol.asyncDispose]();
    assert.deepEqual(items(), ['a', 'b', 'a']);
    assert.deepEqual(drops, [['late', 'closed', undefined]]);
    assert.equal(clock.pending, 0);
  });

  it('aborts and drops what is left when the time is over, and says how much', async () => {
    const clock = new VirtualClock();
    const drops: string[] = [];
    const signals: AbortSignal[] = [];
    const backlog = new Backlog<string>({
      queueMax: 9,
      consumers: 2,
      clock,
      onDrop: (item, reason) => drops.push(`${item} ${reason}`),
      consume: async (item, signal) => {
        if (item === 'failing') throw new Error('no');
        signals.push(signal);
        await new Promise(() => {});
      },
      backoffMs: 86_400_000,
      random: () => 0.9,
    });
    for (const item of ['stuck', 'failing', 'stuck too', 'waiting']) backlog.add(item);
    await clock.advance(10);
    const idle = backlog.idle();
    const closed = assert.rejects(backlog.close({ withinMs: 1_000 }), {
      code: 'BACKLOG_LEFT',
      message: '4 items were left, 2 of them running',
    });
    await clock.advance(999);
    assert.deepEqual(drops, []);
    await clock.advance(1);
    await closed;
    await idle;
    assert.deepEqual(drops, [
      'stuck closed',
      'stuck too closed',
      'failing closed',
      'waiting closed',
    ]);
    assert.equal(signals.length, 2);
    assert.ok(signals.every((signal) => signal.aborted));
    assertBalanced(backlog);
    assert.equal(size(backlog.stats), 0);
    assert.equal(clock.pending, 0);
  });

  it('counts a dropped item once, though its consumer ends after all', async () => {
    const { backlog, started, settle } = manual<Job>({ queueMax: 9, ...keyed });
    backlog.add(job('a', 1));
    await settle();
    await assert.rejects(backlog.close({ signal: AbortSignal.abort() }), { code: 'BACKLOG_LEFT' });
    started[0]?.done();
    await settle();
    assert.equal(backlog.stats.done, 0);
    assertBalanced(backlog);
  });

  it('refuses wrong options, naming the option and its rule', async () => {
    const consume = () => {};
    const make = (options: Partial<BacklogOptions<string>>) => () =>
      new Backlog<string>({ queueMax: 1, consume, ...options });
    assert.throws(make({ queueMax: 0 }), /queueMax: must be an integer from 1, got 0/);
    assert.throws(make({ consumers: 1.5 }), /consumers: must be an integer from 1/);
    assert.throws(make({ attemptsMax: Infinity }), /attemptsMax: must be an integer from 1/);
    assert.throws(make({ backoffMs: Number.NaN }), /backoffMs: must be a number from 0/);
    assert.throws(make({ backoffMs: 9, backoffMsMax: 8 }), /backoffMsMax: must be a number from 9/);
    assert.throws(make({ merge: (item) => item }), /merge: must be given together with `key`/);
    assert.throws(make({ consume: undefined as never }), /consume: must be a function/);
    const backlog = make({})();
    await assert.rejects(backlog.close({ withinMs: -1 }), /withinMs: must be a number from 0/);
    assert.equal(backlog.add('still open'), 'added');
    await backlog.close();
  });
});
