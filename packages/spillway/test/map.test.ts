import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { map } from 'spillway';
import { VirtualClock } from 'spillway/testing';

describe('map', () => {
  it('gives results in the order of the items, so many at once', async () => {
    const clock = new VirtualClock();
    let inside = 0;
    let most = 0;
    const mapped = map(
      [30, 10, 20, 5],
      async (ms, _signal, index) => {
        inside += 1;
        most = Math.max(most, inside);
        await new Promise<void>((resolve) => clock.after(ms, resolve));
        inside -= 1;
        return `${index}:${ms}`;
      },
      { limit: 2 },
    );
    await clock.advance(100);
    assert.deepEqual(await mapped, ['0:30', '1:10', '2:20', '3:5']);
    assert.equal(most, 2);
  });

  it('takes items from an async iterable only as it needs them', async () => {
    let taken = 0;
    async function* items() {
      for (;;) {
        taken += 1;
        yield taken;
      }
    }
    const failed = map(
      items(),
      async (item) => {
        if (item === 5) throw new Error('enough');
        return item;
      },
      { limit: 2 },
    );
    await assert.rejects(failed, { message: 'enough' });
    assert.ok(taken < 10, String(taken));
  });

  it('asks for few items however large the limit is', async () => {
    let asked = 0;
    const items = {
      [Symbol.iterator]: () => ({
        next: () => {
          asked += 1;
          return { value: asked, done: asked > 3 };
        },
      }),
    };
    const doubled = await map(items, async (item) => item * 2, { limit: 100_000 });
    assert.deepEqual(doubled, [2, 4, 6]);
    assert.ok(asked < 10, String(asked));
    assert.deepEqual(await map([], async () => 1, { limit: 100_000 }), []);
  });

  it('aborts those under way and begins no other at the first error', async () => {
    const begun: number[] = [];
    let reason: unknown;
    const failed = map(
      [1, 2, 3, 4],
      async (item, signal) => {
        begun.push(item);
        if (item === 2) throw new Error('second');
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        reason = signal.reason;
      },
      { limit: 2 },
    );
    await assert.rejects(failed, { message: 'second' });
    await new Promise(setImmediate);
    assert.equal((reason as Error).message, 'second');
    assert.deepEqual(begun, [1, 2]);
  });

  it('ends at once when the caller leaves, though tasks ignore their signal', async () => {
    const caller = new AbortController();
    const endless = map([1], () => new Promise(() => {}), { limit: 1, signal: caller.signal });
    caller.abort(new Error('gone'));
    await assert.rejects(endless, { message: 'gone' });
  });

  it('tells an abort and an error at once, though its source still waits', async () => {
    const never = new Promise<void>(() => {});
    async function* items() {
      yield 1;
      await never;
    }
    const caller = new AbortController();
    const { signal } = caller;
    const aborted = map(items(), async (item) => item, { limit: 2, signal });
    setImmediate(() => caller.abort(new Error('gone')));
    await assert.rejects(within(aborted), { message: 'gone' });
    const failed = map(items(), () => Promise.reject(new Error('first')), { limit: 2 });
    await assert.rejects(within(failed), { message: 'first' });
  });

  it('tells the first error, not that of a source that fails to close', async () => {
    const items = {
      [Symbol.iterator]: () => ({
        next: () => ({ value: 1, done: false }),
        return() {
          throw new Error('cannot close');
        },
      }),
    };
    const failed = map(items, () => Promise.reject(new Error('first')), { limit: 1 });
    await assert.rejects(failed, { message: 'first' });
  });

  it('lets timers run between tasks that end at once, so that its signal can abort', async () => {
    const signal = AbortSignal.timeout(5);
    function* endless() {
      for (let item = 0; item < 1e8; item += 1) yield item;
    }
    const work = map(endless(), async () => {}, { limit: 2, signal });
    await assert.rejects(work, { name: 'TimeoutError' });
  });

  it('names its argument when that is no iterable', async () => {
    for (const items of [null, undefined, 5, {}]) {
      const refused = map(items as never, async () => {}, { limit: 1 });
      await assert.rejects(refused, /^AssertionError.*: map: items: must be an iterable, as an ar/);
    }
  });

  it('takes the characters of a string', async () => {
    assert.deepEqual(await map('abc', async (letter) => letter, { limit: 2 }), ['a', 'b', 'c']);
  });
});

/** Fails instead of hanging, if the promise does not settle in time. */
function within<T>(promise: Promise<T>): Promise<T> {
  const late = AbortSignal.timeout(5_000);
  const end = new Promise<never>((_resolve, reject) => {
    late.addEventListener('abort', () => reject(late.reason));
  });
  return Promise.race([promise, end]);
}
