import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Breaker, Gate, Lane, Retry, type Runner, stack } from 'spillway';
import { VirtualClock } from 'spillway/testing';

/** A runner that notes when it is passed, and gives a signal of its own to what is inside. */
function passage(name: string, seen: string[]): Runner {
  return {
    async run(task, { signal } = {}) {
      seen.push(`${name} in`);
      const own = new AbortController();
      signal?.addEventListener('abort', () => own.abort(`${signal.reason} via ${name}`));
      try {
        return await task(own.signal);
      } finally {
        seen.push(`${name} out`);
      }
    },
  };
}

/** A task that ignores its signal, and how many of it run. */
class Stubborn {
  now = 0;
  most = 0;
  readonly #ends: (() => void)[] = [];

  readonly task = async (): Promise<void> => {
    this.now += 1;
    this.most = Math.max(this.most, this.now);
    await new Promise<void>((resolve) => this.#ends.push(resolve));
    this.now -= 1;
  };

  end(): void {
    for (const end of this.#ends.splice(0)) end();
  }
}

const turned = () => new Promise((resolve) => setImmediate(resolve));

describe('a stack whose task ignores its signal', () => {
  const outers = {
    'a gate': () => new Gate({ limit: 2, queueMax: 99 }),
    'a lane': () => {
      return new Lane({ name: 'x', limit: { fixed: 2 }, queueMax: 99, deadlineMs: 60_000 });
    },
  };
  for (const [name, open] of Object.entries(outers)) {
    it(`holds the permit of ${name} until its task ends, after an attempt was cut`, async () => {
      const outer = open();
      const clock = new VirtualClock();
      const stubborn = new Stubborn();
      const call = stack(outer, new Retry({ attemptsMax: 1, attemptMsMax: 40, clock }));
      const calls = Array.from({ length: 6 }, () => call(stubborn.task));
      const told = Promise.all(calls.slice(0, 2).map((one) => assert.rejects(one)));
      await turned();
      await clock.advance(41);
      await told;
      await turned();
      assert.deepEqual([stubborn.now, outer.stats.inside, outer.stats.waiting], [2, 2, 4]);
      const rest = Promise.allSettled(calls);
      for (let round = 0; round < 3; round += 1) {
        stubborn.end();
        await turned();
        await clock.advance(41);
        await turned();
      }
      await rest;
      assert.deepEqual([stubborn.now, stubborn.most, outer.stats.inside], [0, 2, 0]);
    });

    it(`lets a retry around ${name} begin no attempt above its limit`, async () => {
      const inner = open();
      const clock = new VirtualClock();
      const stubborn = new Stubborn();
      const retry = new Retry({ attemptMsMax: 40, backoffMs: 0, clock });
      const call = stack(retry, inner);
      const calls = Promise.allSettled(Array.from({ length: 6 }, () => call(stubborn.task)));
      for (let round = 0; round < 3; round += 1) {
        await turned();
        await clock.advance(41);
      }
      assert.deepEqual([stubborn.now, inner.stats.inside], [2, 2]);
      stubborn.end();
      await calls;
      await turned();
      assert.deepEqual([stubborn.most, inner.stats.inside, retry.stats.retries], [2, 0, 12]);
    });

    it(`holds the permit of ${name} until its task ends, after its caller left`, async () => {
      const outer = open();
      const stubborn = new Stubborn();
      const call = stack(outer, new Retry(), new Breaker());
      const left = new AbortController();
      const gone = call(stubborn.task, { signal: left.signal });
      await turned();
      left.abort(new Error('gone'));
      await assert.rejects(gone, { message: 'gone' });
      await turned();
      assert.deepEqual([stubborn.now, outer.stats.inside], [1, 1]);
      stubborn.end();
      await turned();
      assert.deepEqual([stubborn.now, outer.stats.inside], [0, 0]);
    });
  }
});

describe('stacks whose callers share a signal', () => {
  const lane = { name: 'x', limit: { fixed: 2 }, queueMax: 9 };
  for (const outer of [
    new Gate({ limit: 2, queueMax: 9 }),
    new Lane({ ...lane, deadlineMs: Infinity }),
  ]) {
    it(`give the permit of a ${outer.stats.kind} back though another call hangs`, async () => {
      const clock = new VirtualClock();
      const { signal } = new AbortController();
      const hung = new Stubborn();
      const call = stack(outer, new Retry({ attemptsMax: 1, attemptMsMax: 40, clock }));
      const cut = assert.rejects(call(hung.task, { signal }));
      await turned();
      await clock.advance(41);
      await cut;
      for (let count = 0; count < 5; count += 1) {
        assert.equal(await call(async () => 'done', { signal }), 'done');
      }
      assert.equal(outer.stats.inside, 1);
      hung.end();
      await turned();
      assert.equal(outer.stats.inside, 0);
    });
  }
});

describe('stack', () => {
  it('runs a task through all runners, the first one outermost', async () => {
    const seen: string[] = [];
    const call = stack(passage('a', seen), passage('b', seen), passage('c', seen));
    assert.equal(await call(async () => 7), 7);
    assert.deepEqual(seen, ['a in', 'b in', 'c in', 'c out', 'b out', 'a out']);
  });

  it('gives each runner the signal of the one outside it', async () => {
    const caller = new AbortController();
    const call = stack(passage('a', []), passage('b', []));
    const reason = call(
      (signal) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => resolve(signal.reason));
          caller.abort('left');
        }),
      { signal: caller.signal },
    );
    assert.equal(await reason, 'left via a via b');
  });

  it('is the task itself if there is nothing in it, with a signal all the same', async () => {
    const { signal } = new AbortController();
    assert.equal(await stack()(async (given) => given, { signal }), signal);
    assert.equal((await stack()(async (given) => given)).aborted, false);
  });

  it('can be called many times at once, and runs what it is made of each time', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'one', limit: 1, queueMax: 9, deadlineMs: 1_000, clock });
    const call = stack(lane, passage('inside', []));
    const calls = [1, 2, 3].map((value) => call(async () => value));
    assert.deepEqual(await Promise.all(calls), [1, 2, 3]);
    assert.equal(lane.stats.inside, 0);
  });
});
