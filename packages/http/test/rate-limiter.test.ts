import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MemoryStore, type Random, type StoreCallOptions, type StoreReading } from 'spillway';
import { explore, FaultyStore, VirtualClock } from 'spillway/testing';
import { type NamedRule, namedRule, RateLimiter } from 'spillway-http';

const seeds = Number(process.env.SPILLWAY_SEEDS ?? 30);

/**
 * Fails if more than the limit was let through in any window, at these times, of which each may
 * have been told up to `lateMs` after it was decided.
 */
function checkRate({ rule }: NamedRule, times: readonly number[], lateMs = 0): void {
  const { limit, windowMs } = rule;
  const sorted = times.toSorted((a, b) => a - b);
  for (const [first, from] of sorted.entries()) {
    for (let last = first; last < sorted.length; last += 1) {
      const n = last - first + 1;
      const ms = (sorted[last] as number) - from + lateMs;
      if (ms >= windowMs - 1e-6) break;
      assert.ok(n <= limit, `${n} in ${ms} ms from ${from}, ${limit} / ${windowMs}`);
    }
  }
}

function randomRule(random: Random, name = 'x'): NamedRule {
  const limit = 1 + Math.floor(random() ** 2 * 200);
  return namedRule(name, { limit, windowMs: 50 + random() * 3000 });
}

/** Counts the calls of a store. */
class CountingStore extends MemoryStore {
  calls = 0;

  override read(names: readonly string[], options?: StoreCallOptions): Promise<StoreReading> {
    this.calls += 1;
    return super.read(names, options);
  }
}

describe('RateLimiter', () => {
  it('lets no more than the limit through in any window, whenever requests come', async () => {
    await explore(seeds, async (random) => {
      const clock = new VirtualClock();
      const limiter = new RateLimiter({ clock });
      const rule = randomRule(random);
      const times: number[] = [];
      const stepMs = (rule.rule.windowMs / rule.rule.limit) * 2 * random();
      for (let i = 0; i < 400; i += 1) {
        const verdict = await limiter.take([{ rule, key: 'a' }]);
        if (verdict?.admitted) times.push(clock.now());
        else assert.ok(verdict !== undefined && verdict.resetMs > 0);
        if (random() < 0.3) await clock.advance(stepMs * random() * 8);
      }
      checkRate(rule, times);
    });
  });

  it('admits one as soon as it said it would', async () => {
    await explore(seeds, async (random) => {
      const clock = new VirtualClock();
      const limiter = new RateLimiter({ clock });
      const rule = randomRule(random);
      const claims = [{ rule, key: 'a' }];
      for (let round = 0; round < 20; round += 1) {
        await clock.advance(random() * rule.rule.windowMs);
        let verdict = await limiter.take(claims);
        while (verdict?.admitted) verdict = await limiter.take(claims);
        await clock.advance((verdict?.resetMs ?? 0) * 0.99);
        assert.equal((await limiter.take(claims))?.admitted, false);
        await clock.advance((verdict?.resetMs ?? 0) * 0.01 + 1e-6);
        assert.equal((await limiter.take(claims))?.admitted, true);
      }
    });
  });

  it('lets the whole limit through again, a sixteenth of a window late at most', async () => {
    const clock = new VirtualClock();
    const limiter = new RateLimiter({ clock });
    const rule = namedRule('x', { limit: 8, windowMs: 1600 });
    const fill = async () => {
      let n = 0;
      while ((await limiter.take([{ rule, key: 'a' }]))?.admitted) n += 1;
      return n;
    };
    assert.equal(await fill(), 8);
    await clock.advance(1599);
    assert.equal(await fill(), 0);
    await clock.advance(101);
    assert.equal(await fill(), 8);
  });

  it('charges no count if another has no room', async () => {
    const limiter = new RateLimiter({ clock: new VirtualClock() });
    const narrow = namedRule('narrow', { limit: 1, windowMs: 1000 });
    const wide = namedRule('wide', { limit: 3, windowMs: 1000 });
    const both = [wide, narrow].map((rule) => ({ rule, key: 'a' }));
    const admitted: unknown[] = [];
    for (let i = 0; i < 5; i += 1) admitted.push((await limiter.take(both))?.admitted);
    assert.deepEqual(admitted, [true, false, false, false, false]);
    assert.equal((await limiter.take([{ rule: wide, key: 'a' }]))?.remaining, 1);
  });

  it('keeps every count in use, however many keys come', async () => {
    const clock = new VirtualClock();
    const limiter = new RateLimiter({ clock, keysMax: 100 });
    const rule = namedRule('x', { limit: 2, windowMs: 1000 });
    const take = async (key: string) => (await limiter.take([{ rule, key }]))?.admitted;
    assert.deepEqual([await take('a'), await take('a'), await take('a')], [true, true, false]);
    let passed = 0;
    for (let i = 0; i < 20_000; i += 1) if (await take(`flood ${i % 5000}`)) passed += 1;
    assert.equal(await take('a'), false);
    assert.ok(passed <= (99 + 256) * 2, `${passed} of 20,000`);
    assert.deepEqual(limiter.stats, { keys: 100, shared: 256 });
    await clock.advance(2000);
    for (let i = 0; i < 50; i += 1) assert.equal(await take(`later ${i}`), true);
    assert.ok(limiter.stats.keys <= 100);
  });

  it('refuses wrong rules and options, naming them', () => {
    const rule = { limit: 1, windowMs: 1000 };
    assert.throws(
      () => namedRule('x', { ...rule, limit: 0.5 }),
      /^AssertionError.* limit: must be/,
    );
    assert.throws(() => namedRule('x', { ...rule, windowMs: 0 }), /windowMs: must be/);
    assert.throws(() => namedRule('x', { ...rule, by: ['x' as 'route'] }), /by: must be/);
    assert.throws(() => new RateLimiter({ keysMax: 0 }), /keysMax: must be/);
    assert.throws(() => new RateLimiter({ name: '' }), /name: must be/);
  });
});

describe('RateLimiter, shared by many', () => {
  it('remembers that a count has no room: asks nobody, and charges no other count', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    let asked = 0;
    const apply = store.apply.bind(store);
    store.apply = (...words) => {
      asked += 1;
      return apply(...words);
    };
    const limiter = new RateLimiter({ clock, store });
    const narrow = namedRule('narrow', { limit: 1, windowMs: 1_000 });
    const wide = namedRule('wide', { limit: 9, windowMs: 1_000 });
    const both = [wide, narrow].map((rule) => ({ rule, key: 'a' }));
    const admitted = async () => (await limiter.take(both))?.admitted;
    assert.deepEqual([await admitted(), await admitted()], [true, false]);
    const before = asked;
    for (let i = 0; i < 5; i += 1) assert.equal(await admitted(), false);
    const alone = await limiter.take([{ rule: narrow, key: 'a' }]);
    assert.deepEqual([alone?.admitted, asked], [false, before]);
    assert.equal((await limiter.take([{ rule: wide, key: 'a' }]))?.remaining, 7);
    await clock.advance(2_000);
    assert.equal(await admitted(), true);
  });

  it('begins a new count with another window, and locks nobody out for ever', async () => {
    const clock = new VirtualClock();
    await clock.advance(1e12);
    const store = new MemoryStore({ clock });
    const take = async (limiter: RateLimiter, windowMs: number) => {
      const rule = namedRule('r', { limit: 4, windowMs });
      return (await limiter.take([{ rule, key: 'a' }]))?.admitted;
    };
    // One deployment after the other, each with limiters of its own.
    const [older, newer] = [new RateLimiter({ clock, store }), new RateLimiter({ clock, store })];
    for (let i = 0; i < 3; i += 1) assert.equal(await take(older, 1_000), true);
    for (let i = 0; i < 4; i += 1) assert.equal(await take(newer, 60_000), true);
    assert.equal(await take(older, 1_000), true);
    assert.deepEqual([await take(older, 1_000), await take(newer, 60_000)], [false, false]);
    await clock.advance(70_000);
    assert.deepEqual([await take(older, 1_000), await take(newer, 60_000)], [true, true]);
  });

  it('lets no more wait for the store than could be admitted', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const { promise, resolve } = Promise.withResolvers<void>();
    const apply = store.apply.bind(store);
    store.apply = async (...words) => {
      await promise;
      return await apply(...words);
    };
    const limiter = new RateLimiter({ clock, store });
    const rule = namedRule('x', { limit: 2, windowMs: 1_000 });
    const take = async () => (await limiter.take([{ rule, key: 'a' }]))?.admitted;
    const waiting = [take(), take()];
    assert.equal(await take(), false);
    resolve();
    assert.deepEqual(await Promise.all(waiting), [true, true]);
  });

  it('never exceeds the limit, whatever happens on the way to the store', async () => {
    await explore(seeds, async (random) => {
      const clock = new VirtualClock();
      const store = new MemoryStore({ clock });
      const rule = randomRule(random);
      const times: number[] = [];
      const uses: Promise<void>[] = [];
      const delayMsMax = 8 * random() ** 2;
      const nodes = Array.from({ length: 3 }, () => {
        const faults = { delayMsMax, faultShare: 0.1 * random() };
        const line = new FaultyStore(store, { clock, random, ...faults });
        return new RateLimiter({ store: line, clock, random, deadlineMs: 300 });
      });
      const stepMs = (rule.rule.windowMs / rule.rule.limit) * 2 * random();
      for (let i = 0; i < 200; i += 1) {
        const node = nodes[Math.floor(random() * nodes.length)] as RateLimiter;
        const use = node.take([{ rule, key: 'a' }]).then(
          (verdict) => void (verdict?.admitted && times.push(clock.now())),
          (error) => assert.equal(error.code, 'STORE_UNREACHABLE'),
        );
        uses.push(use);
        if (random() < 0.5) await clock.advance(stepMs * random() * 8);
      }
      await clock.advance(2000);
      await Promise.all(uses);
      // Between the store's word and ours are three messages: its answer, a commit, its answer.
      checkRate(rule, times, 3 * delayMsMax);
      assert.ok(times.length > 0 || uses.length === 0);
      assert.equal(clock.pending, 0);
    });
  });

  it('gives all of the limit to many instances, and no more', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const nodes = [1, 2, 3].map(() => {
      const line = new FaultyStore(store, { clock, delayMsMax: 2 });
      return new RateLimiter({ store: line, clock });
    });
    const rule = namedRule('x', { limit: 10, windowMs: 60_000 });
    const tries = Array.from({ length: 60 }, (_, i) =>
      (nodes[i % 3] as RateLimiter).take([{ rule, key: 'a' }]),
    );
    const verdicts = await clock.run(Promise.all(tries));
    assert.equal(verdicts.filter((verdict) => verdict?.admitted).length, 10);
  });

  it('asks the store far less often than it lets requests through', async () => {
    const clock = new VirtualClock();
    const store = new CountingStore({ clock });
    const nodes = [1, 2].map(() => new RateLimiter({ store, clock }));
    const rule = namedRule('x', { limit: 6000, windowMs: 60_000 });
    let admitted = 0;
    for (let i = 0; i < 10_000; i += 1) {
      const verdict = await (nodes[i % 2] as RateLimiter).take([{ rule, key: 'a' }]);
      if (verdict?.admitted) admitted += 1;
      if (i % 10 === 0) await clock.advance(5);
    }
    assert.ok(admitted <= 6000 && admitted > 5900, `${admitted} of 6000`);
    assert.ok(store.calls < admitted / 10, `${store.calls} visits for ${admitted}`);
  });

  it('counts a budget when it ends, for it may be used as late as that', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const [a, b] = [1, 2].map(() => new RateLimiter({ store, clock })) as [
      RateLimiter,
      RateLimiter,
    ];
    const rule = namedRule('x', { limit: 640, windowMs: 16_000 });
    const times: number[] = [];
    const takeAll = async (limiter: RateLimiter, max: number) => {
      for (let i = 0; i < max; i += 1) {
        if (!(await limiter.take([{ rule, key: 'a' }]))?.admitted) return;
        times.push(clock.now());
      }
    };
    await clock.advance(950);
    // Doubles its budget with each visit; what it has at last it keeps for later.
    await takeAll(a, 90);
    await clock.advance(890);
    await takeAll(a, 999);
    await takeAll(b, 999);
    await clock.advance(15_180);
    await takeAll(b, 999);
    await takeAll(a, 999);
    assert.ok(times.length > 640, `${times.length}`);
    await clock.advance(40_000);
    await takeAll(a, 90);
    await clock.advance(40_000);
    await takeAll(b, 999);
    await takeAll(a, 999);
    checkRate(rule, times);
  });

  it('answers a flood of one client without the store', async () => {
    const clock = new VirtualClock();
    const store = new CountingStore({ clock });
    const limiter = new RateLimiter({ store, clock });
    const rule = namedRule('x', { limit: 5, windowMs: 60_000 });
    for (let i = 0; i < 1000; i += 1) await limiter.take([{ rule, key: 'a' }]);
    assert.ok(store.calls <= 6, `${store.calls} visits`);
  });

  it('keeps to `whenDown` while the store is down, and counts again later', async () => {
    const clock = new VirtualClock();
    const line = new FaultyStore(new MemoryStore({ clock }), { clock });
    const limiter = new RateLimiter({ store: line, clock, deadlineMs: 500 });
    const closed = [{ rule: namedRule('c', { limit: 9, windowMs: 60_000 }), key: 'a' }];
    const open = [
      { rule: namedRule('o', { limit: 2, windowMs: 60_000, whenDown: 'open' }), key: 'a' },
    ];
    line.down = true;
    const first = limiter.take(closed);
    await assert.rejects(clock.run(first), { code: 'STORE_UNREACHABLE', status: 503 });
    assert.ok(clock.now() <= 500);
    const before = clock.now();
    await assert.rejects(limiter.take(closed), { code: 'STORE_UNREACHABLE' });
    const alone = [await limiter.take(open), await limiter.take(open), await limiter.take(open)];
    assert.deepEqual(
      alone.map((verdict) => verdict?.admitted),
      [true, true, false],
    );
    assert.equal(clock.now(), before);
    line.down = false;
    await clock.advance(500);
    assert.equal((await clock.run(limiter.take(closed)))?.remaining, 8);
    assert.equal(clock.pending, 0);
  });
});
