import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane, type Runner, stack } from 'spillway';
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
