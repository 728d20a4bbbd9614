import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MemoryStore, SharedBucket, type SharedBucketOptions, type Store } from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';

/** A way to the store that takes `wayMs`, and keeps when and for how many tokens it was asked. */
class Line extends FaultyStore {
  readonly asked: (readonly [at: number, n: number | undefined])[] = [];
  readonly #clock: VirtualClock;

  constructor(store: Store, clock: VirtualClock, way: { readonly wayMs: number }) {
    super(store, { clock, delayMsMax: 1_000, random: () => way.wayMs / 1_000 });
    this.#clock = clock;
  }

  override apply(
    ...args: Parameters<NonNullable<Store['apply']>>
  ): ReturnType<NonNullable<Store['apply']>> {
    const { n } = args[2] as { readonly n?: number };
    this.asked.push([this.#clock.now(), n]);
    return super.apply(...args);
  }
}

/** Processes that share a bucket; without other figures 100 a second, good for 100 ms. */
function scene(options: Partial<SharedBucketOptions> = {}) {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  const rule = { name: 'x', ratePerSecond: 100, burst: 10, queueMax: 500, clock };
  const party = () => {
    const way = { wayMs: 0 };
    const line = new Line(store, clock, way);
    const bucket = new SharedBucket({ store: line, ...rule, ...options });
    const uses: number[] = [];
    /** Takes tokens, and keeps when they came. */
    const take = async (n = 1) => {
      await bucket.take(n);
      uses.push(clock.now());
    };
    const takeMany = (callers: number) => {
      return Promise.all(Array.from({ length: callers }, () => take()));
    };
    const asked = () => line.asked.splice(0);
    /** Reserves slots that nobody uses: the caller who wants them leaves before they come. */
    const reserve = async (n: number) => {
      const leaving = new AbortController();
      const left = assert.rejects(bucket.take(n, leaving));
      leaving.abort();
      await clock.advance(2 * way.wayMs);
      await left;
    };
    return { way, line, bucket, uses, take, takeMany, asked, reserve };
  };
  return { clock, store, party, ...party() };
}

describe('SharedBucket: visits to the store', () => {
  it('asks once for a token that was not there, and never for one that was', async () => {
    const { clock, bucket, asked, reserve } = scene();
    assert.deepEqual([bucket.tryTake(), bucket.tryTake()], [false, false]);
    assert.deepEqual(asked(), [[0, 1]], 'the second while the answer is on its way');
    await clock.advance(0);
    assert.equal(bucket.tryTake(), true);
    assert.deepEqual(asked(), []);
    await reserve(2);
    assert.deepEqual(asked(), [[0, 2]]);
  });

  it('asks again when a quarter of what it lately took is left, and for the rest', async () => {
    const { clock, bucket, asked } = scene({ ratePerSecond: 1_000, burst: 900 });
    const takeEach = async (ms: number) => {
      for (let i = 0; i < 300; i += 1) {
        await clock.advance(ms);
        bucket.tryTake();
      }
      return asked();
    };
    const visits = await takeEach(1);
    // A batch is what comes in 50 ms: 12 are less than a quarter of 50.
    assert.deepEqual(
      visits.slice(-3).map(([, n]) => n),
      [38, 38, 38],
    );
    const [before = 0, last = 0] = visits.slice(-2).map(([at]) => at);
    assert.equal(last - before, 38);
    const fewer = await takeEach(2);
    assert.deepEqual(
      fewer.slice(-3).map(([, n]) => n),
      [19, 19, 19],
      '6 are less than a quarter of 25',
    );
  });

  it('uses what it has for 900 ms, and then asks before it uses more', async () => {
    const { clock, bucket, asked, take, reserve } = scene({ burst: 300 });
    await clock.run(take());
    await reserve(20);
    assert.deepEqual([bucket.stats.tokens, asked().length], [20, 2]);
    await clock.advance(899.5);
    assert.deepEqual([bucket.tryTake(), asked()], [true, []]);
    await clock.advance(0.5);
    assert.equal(bucket.tryTake(), false);
    assert.equal(asked().length, 1);
    await clock.advance(0);
    assert.equal(bucket.tryTake(), true);
  });

  it('confirms a slot far ahead shortly before its time, for nobody else', async () => {
    for (const [earlyMs, visitMs] of [
      [9, 2],
      [3.5, 2],
      [2.9, 2.9],
      [2.5, 2.5],
    ] as const) {
      // The second slot comes 2.5 s after the first, whose life is half over.
      const { clock, asked, take, reserve, uses } = scene({ ratePerSecond: 0.4, burst: 1 });
      await clock.run(take());
      await reserve(1);
      asked();
      // Its time is known less well the older the last answer is: by then to 1.75 ms.
      await clock.advance(1_751.75 - earlyMs);
      void take();
      await clock.advance(100);
      const [[at, n] = [0, 1], ...more] = asked();
      assert.deepEqual([n, more], [0, []]);
      assert.ok(Math.abs(at - (1_751.753 - visitMs)) < 0.01, `asked at ${at}`);
      assert.ok((uses[1] ?? 0) >= 1_750 && (uses[1] ?? 0) < 1_750.01, `used at ${uses[1]}`);
    }
  });

  it('asks for those who wait beyond what it has, up to a batch of whole wishes', async () => {
    for (const [wishes, n] of [
      [[1, 3, 2, 1], 6],
      [[1, 20, 12, 1], 32],
      [[1, 20, 13, 1], 20],
      [[1, 40, 1], 40],
      [[1, 1, 32, 1], 1],
      [[1, 1, 1], undefined],
      [[1, 1, 1, 1, 1], 4],
    ] as const) {
      const { clock, bucket, party, asked, reserve, take } = scene({ burst: 100 });
      // Another process has used the burst, so that the next slot is ahead.
      await clock.run(party().take(100));
      await clock.advance(1);
      await reserve(1);
      await reserve(1);
      assert.equal(bucket.stats.tokens, 1);
      bucket.pause();
      const taking = Promise.allSettled(wishes.map((wish) => take(wish)));
      asked();
      bucket.resume();
      assert.deepEqual(asked(), n === undefined ? [] : [[1, n]], `${wishes}`);
      bucket.clear();
      await clock.run(taking);
    }
  });

  it('asks for slots in a run if those that it has will not do for a wish', async () => {
    const { clock, bucket, asked, take, reserve, uses } = scene();
    await clock.run(take());
    await reserve(9);
    asked();
    await clock.run(take(10));
    assert.ok(Number(asked()[0]?.[1]) >= 10);
    assert.equal(uses.length, 2);
    assert.equal(bucket.stats.taken, 11);
  });

  it('asks for as many again as wait, while others do, up to a batch', async () => {
    // A quarter of the callers has what came last, but for one; the others wait for this visit.
    for (const [callers, n] of [
      [20, 34],
      [45, 50],
    ] as const) {
      const { clock, asked, take, party } = scene({ ratePerSecond: 1_000, burst: 100 });
      const other = party();
      const takeOn = async (one: { readonly take: () => Promise<void> }) => {
        while (clock.now() < 1_000) await one.take();
      };
      const all = [{ take }, other].flatMap((one) => Array.from({ length: callers }, () => one));
      const taking = all.map(takeOn);
      await clock.advance(600);
      const ns = [asked(), other.asked()].map((each) => each.slice(-3).map(([, wish]) => wish));
      assert.deepEqual(ns, [
        [n, n, n],
        [n, n, n],
      ]);
      await clock.run(Promise.all(taking));
    }
  });
});

describe('SharedBucket: who waits', () => {
  it('is told how long it takes at the least when it is refused', async () => {
    const { clock, bucket, take, reserve } = scene({ queueMax: 2 });
    await clock.run(take());
    await reserve(4);
    const { tokens } = bucket.stats;
    bucket.pause();
    const waiting = [assert.rejects(take(10)), assert.rejects(take(10))];
    // What is reserved and a whole burst may be there at once.
    const retryAfterMs = (20 + 5 - tokens - 10) * 10;
    await assert.rejects(take(5), { code: 'BUCKET_FULL', retryAfterMs });
    bucket.clear();
    await Promise.all(waiting);
    const none = scene({ queueMax: 0 });
    await assert.rejects(none.take(3), { code: 'BUCKET_FULL', retryAfterMs: 0 });
  });

  it('waits out a 429 for as long as the other side asks, and asks nothing meanwhile', async () => {
    for (const [slow, pausedMs] of [
      [undefined, 0],
      [{ retryAfterMs: 2_000 }, 2_000],
    ] as const) {
      const { clock, bucket, asked, take, uses } = scene();
      await clock.advance(1_000);
      await clock.run(take());
      bucket.slow(slow);
      await clock.advance(0);
      assert.deepEqual([bucket.stats.slowed, bucket.stats.pausedMs], [1, pausedMs]);
      asked();
      const taking = take();
      await clock.run(taking);
      assert.equal(asked()[0]?.[0], 1_000 + pausedMs);
      assert.ok(Number(uses[1]) >= 1_000 + pausedMs, `used at ${uses[1]}`);
    }
  });

  it('counts no 429 that the store was not told of', async () => {
    const { clock, line, bucket, take } = scene();
    await clock.run(take());
    line.down = true;
    for (let i = 0; i < 9; i += 1) bucket.slow({ retryAfterMs: 2_000 });
    await clock.advance(5_000);
    assert.deepEqual([bucket.stats.slowed, bucket.stats.pausedMs], [0, 0]);
    line.down = false;
    await clock.run(take());
  });

  it('is closed when the visit that is under way has ended', async () => {
    const { clock, bucket, way } = scene();
    way.wayMs = 10;
    assert.equal(bucket.tryTake(), false);
    await clock.run(bucket.close());
    assert.equal(clock.now(), 20);
    assert.throws(() => bucket.tryTake(), { code: 'BUCKET_CLOSED' });
  });
});
