import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ReservedSlots } from '../src/shared/reserved-slots.ts';
import { StoreTime } from '../src/shared/store-time.ts';

/** The time here at which the store's time became known, and the store's time then. */
const here = 100;
const store = 5_000;

/** Slots 10 ms apart, each of them good for 100 ms; the store's time is known to 1 ms. */
function reserved({ ratePerSecond = 100, burst = 10, tripMs = 0 } = {}) {
  const time = new StoreTime();
  time.note({ sentAt: here - tripMs, receivedAt: here, now: store });
  return { time, slots: new ReservedSlots({ ratePerSecond, burst, recoverMs: 1_000 }, time) };
}

describe('ReservedSlots', () => {
  it('gives a token from the moment on at which its slot has surely come, and not before', () => {
    const { slots, time } = reserved();
    slots.add({ at: store, stepMs: 10, n: 3 });
    for (const used of [0, 1, 2]) {
      const ms = slots.msUntil(1, here) ?? Infinity;
      const lateMs = here + ms - time.arrival(store + 10 * used);
      assert.ok(lateMs > 0 && lateMs < 0.01, `${lateMs} ms after the slot`);
      assert.equal(slots.spend(1, here + ms - 0.5), false);
      assert.equal(slots.left, 3 - used);
      // A timer this short would not move the clock.
      assert.equal(slots.msUntil(1, here + ms - 0.000_2), 0);
      assert.equal(slots.spend(1, here + ms - 0.000_2), true);
      assert.equal(slots.left, 2 - used);
    }
    assert.equal(slots.msUntil(1, here), undefined);
    assert.equal(slots.spend(1, here + 1_000), false);
  });

  it('takes runs in the order of their time, not of their coming', () => {
    const { slots } = reserved();
    slots.add({ at: store + 50, stepMs: 10, n: 2 });
    slots.add({ at: store - 10, stepMs: 10, n: 1 });
    slots.add({ at: store - 20, stepMs: 10, n: 1 });
    assert.deepEqual([slots.spend(1, here), slots.spend(1, here), slots.left], [true, true, 2]);
    assert.equal(Math.round(slots.msUntil(1, here) ?? 0), 50);
  });

  it('waits for the last of several tokens, which are of one run', () => {
    const { slots } = reserved();
    slots.add({ at: store - 20, stepMs: 10, n: 2 });
    slots.add({ at: store - 5, stepMs: 10, n: 4 });
    assert.equal(Math.round(slots.msUntil(2, here) ?? 99), 0);
    assert.equal(Math.round(slots.msUntil(4, here) ?? 99), 25);
    assert.equal(slots.msUntil(5, here), undefined);
    assert.equal(slots.spend(4, here + 26), true);
    assert.deepEqual(
      [slots.left, slots.spend(3, here + 26), slots.spend(2, here + 26)],
      [2, false, true],
    );
  });

  it('skips slots that may be too old, and forgets a run that has only such', () => {
    const { slots } = reserved();
    slots.add({ at: store, stepMs: 10, n: 5 });
    // It is 125 to 126 ms later at the store: the first three may be older than 100 ms.
    assert.equal(slots.spend(1, here + 125), true);
    assert.equal(slots.left, 1);
    assert.equal(slots.msUntil(1, here + 145), undefined);
    assert.equal(slots.left, 0);
  });

  it('counts a slot that is exactly as old as it may be as a good one', () => {
    const { slots, time } = reserved();
    slots.add({ at: store, stepMs: 10, n: 1 });
    const lateMs = time.at(here + 98).latest - store - 100;
    assert.ok(lateMs < 0 && lateMs > -1, `${lateMs} ms too old`);
    assert.equal(slots.spend(1, here + 98), true);
  });

  it('needs a longer run for tokens together, the less is known of the time', () => {
    // Slots are 1 ms apart and good for 20 ms; the store's time is known to 10 ms.
    const { slots } = reserved({ ratePerSecond: 1_000, burst: 20, tripMs: 9 });
    // The first of fifteen is too old a hair less than 6 ms after the last has come. Within 10 ms
    // that is not sure: five slots more are used up.
    const ofFifteen = 15 + 5;
    // The time is known less well when the answer has come: 2 ms are added to what is asked for.
    assert.deepEqual([slots.cost(1, here), slots.cost(15, here)], [1, ofFifteen + 2]);
    slots.add({ at: store, stepMs: 1, n: ofFifteen - 1 });
    assert.equal(slots.msUntil(15, here), undefined);
    slots.clear();
    assert.equal(slots.left, 0);
    slots.add({ at: store, stepMs: 1, n: ofFifteen });
    const ms = slots.msUntil(15, here) ?? Infinity;
    assert.ok(ms > 14 && ms < 14.1, `${ms} ms`);
  });
});
