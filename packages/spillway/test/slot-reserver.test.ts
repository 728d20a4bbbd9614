import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Clock, MemoryStore, type Store } from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';
import { SlotReserver } from '../src/shared/slot-reserver.ts';

/** A way to the store whose length is known, which keeps what was asked. */
class Line extends FaultyStore {
  readonly asked: { readonly n: number; readonly restMs: number }[] = [];

  override apply(
    ...args: Parameters<NonNullable<Store['apply']>>
  ): ReturnType<NonNullable<Store['apply']>> {
    this.asked.push(args[2] as unknown as (typeof this.asked)[number]);
    return super.apply(...args);
  }
}

/** Processes that share a bucket; without other figures slots are 10 ms apart, good for 100 ms. */
function scene({ ratePerSecond = 100, burst = 10 } = {}) {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  const rule = { ratePerSecond, burst, recoverMs: 60_000 };
  const party = () => {
    /** `wayMs` is how long a message is on its way, `jumpMs` how far the clock has jumped. */
    const way = { wayMs: 0, jumpMs: 0 };
    const line = new Line(store, { clock, delayMsMax: 1_000, random: () => way.wayMs / 1_000 });
    const local: Clock = {
      now: () => clock.now() + way.jumpMs,
      after: (ms, callback) => clock.after(ms, callback),
    };
    const reserver = new SlotReserver({ store: line, name: 'x', clock: local }, rule);
    const reserve = (n: number, together = 0) => clock.run(reserver.reserve(n, together));
    const slow = (retryAfterMs: number) => clock.run(reserver.slow(retryAfterMs));
    return { way, line, reserver, reserve, slow };
  };
  return { clock, party, ...party() };
}

describe('SlotReserver', () => {
  it('reserves as many slots as it is asked for, and counts them and the visits', async () => {
    const { clock, reserver, reserve } = scene();
    assert.deepEqual([reserver.trips, reserver.borrowed, reserver.ratePerSecond], [0, 0, 100]);
    assert.deepEqual([reserver.isReachable, reserver.isContended], [true, false]);
    await clock.advance(50);
    await reserve(7);
    await reserve(1);
    assert.deepEqual([reserver.trips, reserver.borrowed, reserver.slots.left], [2, 8, 8]);
    assert.equal(reserver.trustedUntil, 950);
    await reserve(0);
    assert.deepEqual([reserver.trips, reserver.borrowed, reserver.slots.left], [3, 8, 8]);
    assert.equal(reserver.isReachable, true);
  });

  it('asks for a run as long as tokens together cost, and for slots with life left', async () => {
    const { line, way, reserver, reserve } = scene({ ratePerSecond: 1_000, burst: 100 });
    // The store's time is known to 1 ms: 98 together cost some more.
    await reserve(1);
    await reserve(0, 1);
    await reserve(3, 98);
    const cost = reserver.slots.cost(98, 0);
    assert.ok(cost > 98 && cost < 103, `${cost} slots`);
    assert.deepEqual(
      line.asked.map(({ n }) => n),
      [1, 1, cost],
    );
    // Nothing was known of the time at first: then half of the life is left.
    assert.deepEqual(
      line.asked.map(({ restMs }) => restMs),
      [50, 6, 6],
    );
    way.wayMs = 6;
    await reserve(1);
    await reserve(1);
    // Now the way takes 12 ms, and twice that may go by.
    assert.equal(Math.round(line.asked.at(-1)?.restMs ?? 0), 30);
  });

  it('asks earlier, and for more, the longer a visit takes of late', async () => {
    const { way, reserver, reserve } = scene({ ratePerSecond: 1_000, burst: 500 });
    const seen = () => [reserver.leadMs, reserver.batch];
    assert.deepEqual(seen(), [2, 50]);
    way.wayMs = 10;
    await reserve(1);
    assert.deepEqual(seen(), [2 + 2 * 20, 50 + 2 * 20]);
    way.wayMs = 0;
    await reserve(1);
    assert.deepEqual(seen(), [2 + 2 * 16, 50 + 2 * 16]);
    way.wayMs = 120;
    await reserve(1);
    assert.deepEqual(seen(), [2 + 2 * 100, 50 + 2 * 100], 'one slow answer counts up to 100 ms');
  });

  it('brings with a visit what 32 tokens are, or half a second has, whichever is less', () => {
    for (const [ratePerSecond, batch] of [
      [10, 5],
      [11, 6],
      [64, 32],
      [640, 32],
      [2_000, 100],
    ] as const) {
      assert.equal(scene({ ratePerSecond, burst: 100 }).reserver.batch, batch, `${ratePerSecond}`);
    }
  });

  it('gives up after three answers too slow to tell the time by, and reserves once', async () => {
    // Slots are good for 20 ms, and the store is 10 ms away.
    const { line, way, reserver, reserve } = scene({ ratePerSecond: 1_000, burst: 20 });
    const tooSlow = { code: 'STORE_UNREACHABLE', message: /known to 21 ms: burst is too small/ };
    const asked = () => line.asked.splice(0).map(({ n }) => n);
    way.wayMs = 10;
    await assert.rejects(reserve(5, 1), tooSlow);
    assert.deepEqual(asked(), [5, 0, 0]);
    assert.deepEqual([reserver.slots.left, reserver.isReachable], [0, false]);
    await assert.rejects(reserve(5, 2), tooSlow);
    assert.deepEqual(asked(), [0, 0, 0], 'slots that could not be used together');
    way.wayMs = 0;
    await reserve(5);
    await reserve(5);
    assert.deepEqual([reserver.slots.left, reserver.isReachable], [10, true]);
  });

  it('knows the time well enough if it knows it to half the life of a slot', async () => {
    for (const [wayMs, left] of [
      [4.5, 5],
      [4.6, 0],
    ] as const) {
      const { way, reserver, reserve } = scene({ ratePerSecond: 1_000, burst: 20 });
      way.wayMs = wayMs;
      await reserve(5).catch(() => {});
      assert.equal(reserver.slots.left, left, `${wayMs} ms away`);
    }
  });

  it('drops its slots when its clock goes back, those on their way too', async () => {
    const { clock, way, reserver, reserve } = scene();
    await clock.advance(500);
    await reserve(5);
    assert.equal(reserver.now(), 500);
    assert.equal(reserver.slots.left, 5);
    way.jumpMs = -100;
    assert.equal(reserver.now(), 400);
    assert.equal(reserver.slots.left, 0);
    way.wayMs = 10;
    const visit = reserver.reserve(5, 0);
    await clock.advance(10);
    way.jumpMs = -200;
    await clock.run(visit);
    assert.equal(reserver.slots.left, 0);
    await reserve(5);
    assert.equal(reserver.slots.left, 5);
  });

  it('drops its slots when its clock has jumped ahead during a visit', async () => {
    // A visit may take twice the deadline of 1,000 ms, and not more; its way takes 20 of them.
    for (const [jumpMs, left] of [
      [1_980, 10],
      [1_981, 0],
    ] as const) {
      const { clock, way, reserver, reserve } = scene({ ratePerSecond: 100, burst: 1_000 });
      await reserve(5);
      way.wayMs = 10;
      const visit = reserver.reserve(5, 0);
      await clock.advance(10);
      way.jumpMs = jumpMs;
      await clock.run(visit);
      assert.equal(reserver.slots.left, left);
    }
  });

  it('drops its slots at the first visit after a 429 that halved the rate, and once', async () => {
    const { party, reserver, reserve } = scene();
    const other = party();
    await reserve(5);
    await other.reserve(5);
    assert.equal(await other.slow(0), false, 'one of ten was refused');
    assert.deepEqual([reserver.slots.left, other.reserver.slots.left], [5, 5]);
    assert.equal(await other.slow(5_000), true);
    assert.deepEqual([reserver.slots.left, other.reserver.slots.left], [5, 0]);
    await reserve(3);
    assert.deepEqual([reserver.slots.left, Math.round(reserver.ratePerSecond)], [3, 50]);
    await reserve(2);
    assert.equal(reserver.slots.left, 5);
    assert.equal(await other.slow(0), false, 'of the same round');
  });

  it('is contended if others got slots in between and its own lie ahead', async () => {
    const { clock, party, reserver, reserve } = scene();
    const other = party();
    const isContended = async (n: number) => {
      await reserve(n);
      return reserver.isContended;
    };
    assert.equal(await isContended(20), false);
    assert.equal(await isContended(20), false, 'behind its own');
    await other.reserve(20);
    assert.equal(await isContended(0), false, 'a look reserves nothing');
    assert.equal(other.reserver.isContended, true);
    assert.equal(await isContended(20), true);
    await clock.advance(2_000);
    await other.reserve(2);
    assert.equal(await isContended(2), false, 'nobody has to wait');
  });
});
