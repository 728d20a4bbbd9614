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
});
