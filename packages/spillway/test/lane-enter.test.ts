import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Clock, Lane, systemClock } from 'spillway';
import { nextTurn } from 'spillway/internal';
import { VirtualClock } from 'spillway/testing';
import { entering } from './fixtures/entering.ts';

describe('the way into a lane', () => {
  it('gives a free permit at once, and makes a signal only for who must wait', async () => {
    const lane = new Lane({ name: 'x', limit: 1, queueMax: 1, deadlineMs: 1_000 });
    let made = 0;
    const quitter = new AbortController();
    const entry = {
      get signal() {
        return this.makeSignal();
      },
      makeSignal() {
        made += 1;
        return quitter.signal;
      },
    };
    const permit = lane.enter(entry);
    assert.ok(!(permit instanceof Promise));
    assert.equal(made, 0);
    const waiting = lane.enter(entry);
    assert.ok(waiting instanceof Promise);
    assert.equal(made, 1);
    quitter.abort();
    await assert.rejects(waiting, { name: 'AbortError' });
    assert.throws(() => lane.enter(entry), { name: 'AbortError' });
    assert.deepEqual([lane.stats.inside, lane.stats.refused.aborted], [1, 2]);
    permit[Symbol.dispose]();
    assert.equal(lane.stats.inside, 0);
  });

  it('is open while something else takes many turns of the event loop', async () => {
    const lane = new Lane({ name: 'x', limit: 9, queueMax: 9, deadlineMs: 60_000 });
    const turns = 300;
    let turn = 0;
    const passedIn: number[] = [];
    const enter = async (): Promise<void> => {
      using _permit = await lane.enter();
      passedIn.push(turn);
    };
    const entered: Promise<void>[] = [];
    await new Promise<void>((resolve) => {
      const slice = (): void => {
        turn += 1;
        const until = performance.now() + 0.3;
        while (performance.now() < until);
        if (turn < turns) nextTurn(slice);
        else resolve();
        if (turn % 50 === 0) entered.push(enter());
      };
      slice();
    });
    await Promise.all(entered);
    const late = passedIn.filter((at, index) => at > 50 * (index + 1) + 2);
    assert.deepEqual(late, [], `who came in every 50th turn passed in ${passedIn.join(', ')}`);
  });

  it('is shut for a signal that has aborted, though a permit is free', () => {
    const lane = new Lane({ name: 'x', limit: 1, queueMax: 1, deadlineMs: 1_000 });
    const signal = AbortSignal.abort('gone');
    assert.throws(
      () => lane.enter({ signal }),
      (reason) => reason === 'gone',
    );
    assert.equal(lane.tryEnter({ signal }), undefined);
    assert.deepEqual([lane.stats.inside, lane.stats.refused.aborted], [0, 2]);
  });

  it('refuses a deadline or a signal that is none before it takes a permit', async () => {
    const lane = new Lane({ name: 'x', limit: { fixed: 2 }, queueMax: 1, deadlineMs: 1_000 });
    const ran = async () => 'ran';
    const wrong: readonly [object, RegExp][] = [
      [{ deadlineAt: Number.NaN }, /^deadlineAt: must be a number that is not NaN, got NaN/],
      [{ deadlineAt: '9' }, /^deadlineAt: must be a number that is not NaN, got '9'/],
      [{ signal: new AbortController() }, /^signal: must be an AbortSignal, got AbortController/],
      [{ makeSignal: 5 }, /^makeSignal: must be a function, got 5/],
      [{ signal: null }, /^signal: must be an AbortSignal, got null/],
    ];
    for (const [entry, message] of wrong) {
      await assert.rejects(lane.run(ran, entry), { name: 'AssertionError', message });
      assert.throws(() => lane.enter(entry), { message });
      assert.throws(() => lane.tryEnter(entry), { message });
      assert.deepEqual([lane.stats.inside, lane.stats.waiting], [0, 0]);
    }
    assert.equal(await lane.run(ran, { deadlineAt: Infinity, signal: undefined }), 'ran');
  });

  it('begins nothing for a caller whose deadline has passed, though it is free', async () => {
    const clock = new VirtualClock();
    await clock.advance(1_000);
    for (const limit of [2, { fixed: 2 }]) {
      const lane = new Lane({ name: 'x', limit, queueMax: 1, deadlineMs: 1_000, clock });
      for (const deadlineAt of [1_000, 999, -Infinity]) {
        assert.throws(() => lane.enter({ deadlineAt }), { code: 'DEADLINE' });
        assert.equal(lane.tryEnter({ deadlineAt }), undefined);
      }
      const { inside, refused } = lane.stats;
      assert.deepEqual([inside, refused.deadline], [0, 6]);
    }
  });

  it('turns each caller away at a deadline of its own, whoever came before it', async () => {
    const clock = new VirtualClock();
    const own = { name: 'x', limit: { fixed: 1 }, queueMax: 9, deadlineMs: 10_000, clock };
    const lane = new Lane(own);
    for (let round = 1; round <= 2; round += 1) {
      const permit = await lane.enter();
      const patient = lane.enter();
      const at = clock.now();
      for (const ms of [500, 200]) {
        void Promise.resolve(lane.enter({ deadlineAt: at + ms })).catch(() => {});
      }
      await clock.advance(199);
      assert.equal(lane.stats.waiting, 3);
      await clock.advance(1);
      assert.equal(lane.stats.waiting, 2, 'the last to come has the least time');
      await clock.advance(300);
      assert.deepEqual([lane.stats.waiting, lane.stats.refused.deadline], [1, 2 * round]);
      permit[Symbol.dispose]();
      (await patient)[Symbol.dispose]();
    }
    assert.equal(clock.pending, 0);
  });

  it('lets nobody wait for longer than `waitMsMax`, though its deadline is far', async () => {
    const clock = new VirtualClock();
    const own = { name: 'x', limit: { fixed: 1 }, queueMax: 9, deadlineMs: 10_000, clock };
    const lane = new Lane({ ...own, waitMsMax: 300 });
    using _permit = await lane.enter();
    const refused = assert.rejects(Promise.resolve(lane.enter()), { code: 'LANE_STALE' });
    await clock.advance(299);
    assert.equal(lane.stats.waiting, 1);
    await clock.advance(1);
    await refused;
    assert.equal(lane.stats.refused.stale, 1);
  });

  it('gives the permit or the place in the queue back if a signal cannot be made', async () => {
    const lane = new Lane({ name: 'x', limit: { fixed: 1 }, queueMax: 1, deadlineMs: 1_000 });
    const ran = async () => 'ran';
    const makers = [
      () => ({}) as AbortSignal,
      () => {
        throw new Error('signal: must be made');
      },
    ];
    for (const makeSignal of makers) {
      await assert.rejects(lane.run(ran, { makeSignal }), /signal: must be/);
      const permit = await lane.enter();
      assert.throws(() => lane.enter({ makeSignal }), /signal: must be/);
      assert.deepEqual([lane.stats.inside, lane.stats.waiting], [1, 0]);
      permit[Symbol.dispose]();
      assert.equal(lane.stats.inside, 0);
    }
    assert.equal(await lane.run(ran), 'ran');
  });

  it('keeps its numbers though a hook enters again with each refusal', async () => {
    const terms = { name: 'work', limit: { fixed: 1 }, queueMax: 0, deadlineMs: 1_000 };
    let told = 0;
    const lane: Lane = new Lane({
      ...terms,
      onRefuse: () => {
        told += 1;
        assert.throws(() => lane.enter(), { code: 'LANE_FULL' });
      },
    });
    const permit = await lane.enter();
    assert.throws(() => lane.enter(), { code: 'LANE_FULL' });
    const { refused, waiting } = lane.stats;
    assert.deepEqual([refused.full, waiting], [told + 1, 0]);
    permit[Symbol.dispose]();
    assert.equal(lane.stats.inside, 0);
    lane.tryEnter()?.[Symbol.dispose]();
    assert.deepEqual([lane.stats.inside, lane.stats.finished], [0, 2]);
  });

  it('refuses a waiter once, though the hook that is told of it aborts its signal', async () => {
    const caller = new AbortController();
    const onRefuse = () => caller.abort();
    const lane = new Lane({ name: 'calls', limit: 1, queueMax: 9, deadlineMs: 1_000, onRefuse });
    using _permit = await lane.enter();
    const waiting = entering(lane, { signal: caller.signal });
    lane.clear();
    await assert.rejects(Promise.resolve(waiting), { code: 'CLEARED' });
    // A second rejection, which nobody listens to, would end the process by now.
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(lane.stats.refused.cleared, 1);
    assert.equal(lane.stats.refused.aborted, 0);
  });

  it('answers a caller who is let in or refused while its signal is made', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'calls', limit: 1, queueMax: 9, deadlineMs: 1_000, clock });
    const first = await lane.enter();
    const caller = new AbortController();
    const makeSignal = (act: () => void) => () => {
      act();
      return caller.signal;
    };
    const cleared = () => lane.enter({ makeSignal: makeSignal(() => lane.clear()) });
    assert.throws(cleared, { code: 'CLEARED' });
    const entered = lane.enter({ makeSignal: makeSignal(() => first[Symbol.dispose]()) });
    assert.ok(!(entered instanceof Promise), 'its turn came before it had to wait');
    assert.equal(lane.stats.inside, 1);
    entered[Symbol.dispose]();
    assert.equal(lane.stats.inside, 0);
  });

  it('keeps no permit of a caller whose signal cannot be made after it was let in', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'calls', limit: 1, queueMax: 9, deadlineMs: 1_000, clock });
    const makeSignal = (act: () => void) => () => {
      act();
      throw new TypeError('no signal');
    };
    const first = await lane.enter();
    const cleared = () => lane.enter({ makeSignal: makeSignal(() => lane.clear()) });
    assert.throws(cleared, { message: 'no signal' });
    const entered = () => lane.enter({ makeSignal: makeSignal(() => first[Symbol.dispose]()) });
    assert.throws(entered, { message: 'no signal' });
    const { arrived, finished, inside, refused } = lane.stats;
    assert.deepEqual([arrived, finished, inside], [3, 2, 0]);
    assert.deepEqual([refused.cleared, refused.aborted], [1, 0]);
  });

  it('yields to I/O after 2 ms of grants, however few they are', async () => {
    let time = 0;
    const clock: Clock = { ...systemClock, now: () => time };
    const lane = new Lane({ name: 'work', limit: 1, queueMax: 200, deadlineMs: 60_000, clock });
    let turns = 0;
    let done = false;
    const turn = () => {
      turns += 1;
      if (!done) setImmediate(turn);
    };
    // All lanes share one budget: the second of two turns begins it again, without any time of
    // the clocks of other tests.
    await new Promise<void>(nextTurn);
    await new Promise<void>(nextTurn);
    setImmediate(turn);
    const work = async () => {
      time += 0.5;
    };
    await Promise.all(Array.from({ length: 200 }, () => lane.run(work)));
    done = true;
    // A turn of the loop has at most twice 2 ms.
    assert.ok(turns >= 20, `the loop turned ${turns} times in 100 ms of grants`);
  });
});
