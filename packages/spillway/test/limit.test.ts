import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AimdLimit, FixedLimit, GradientLimit, type LimitOptions, type Sample } from 'spillway';
import { explore } from 'spillway/testing';
import { assertSize, assertWithin, Downstream, Feed, Load } from './fixtures/downstream.ts';

describe('FixedLimit', () => {
  it('is what it was told to be', () => {
    const limit = new FixedLimit(7);
    limit.observe();
    assert.deepEqual(limit.stats, { size: 7, sizeMax: 7 });
    assert.throws(() => new FixedLimit(0), /size: must be an integer from 1, got 0/);
  });
});

for (const [name, make] of [
  ['AimdLimit', (options: LimitOptions) => new AimdLimit(options)],
  ['GradientLimit', (options: LimitOptions) => new GradientLimit(options)],
] as const) {
  describe(`${name}, as every limit that learns,`, () => {
    it('says which option is wrong, and why', () => {
      assert.throws(() => make({ sizeMax: 0 }), /sizeMax: must be an integer from 1, got 0/);
      assert.throws(() => make({ sizeMax: Number.NaN }), /sizeMax: must be an integer from 1/);
      assert.throws(() => make({ sizeMax: 9, sizeMin: 10 }), /sizeMin: must be .* from 1 to 9/);
      assert.throws(() => make({ sizeMax: 9, size: 1.5 }), /size: must be an integer from 1 to 9/);
      assert.throws(() => make({ sizeMax: 9, latencyMsMax: 0 }), /latencyMsMax: must be/);
    });

    it('begins with 20, or with the nearest to it that is allowed', () => {
      assert.equal(make({ sizeMax: 100 }).size, 20);
      assert.equal(make({ sizeMax: 5 }).size, 5);
      assert.equal(make({ sizeMax: 100, sizeMin: 30 }).size, 30);
    });

    it('learns nothing from what was aborted', () => {
      const limit = make({ sizeMax: 100 });
      const feed = new Feed(limit);
      const before = limit.stats;
      for (const latencyMs of [0, 50, 5_000]) feed.trip(500, latencyMs, { outcome: 'ignored' });
      assert.deepEqual(limit.stats, before);
    });

    it('does not grow while idle', () => {
      const limit = make({ sizeMax: 1000 });
      const feed = new Feed(limit);
      for (let i = 0; i < 500; i += 1) feed.trip(40, 50, { inside: 9 });
      assert.equal(limit.size, 20);
    });

    it('takes a burst of drops as one event, and the next round trip as another', () => {
      const limit = make({ sizeMax: 1000, size: 100 });
      for (let i = 0; i < 100; i += 1) {
        limit.observe({ outcome: 'dropped', startedAt: i, endedAt: 200 + i, inside: 100 });
      }
      assert.equal(limit.size, 90);
      limit.observe({ outcome: 'dropped', startedAt: 200, endedAt: 400, inside: 90 });
      assert.equal(limit.size, 81);
    });

    it('falls to its smallest size while everything is dropped, and stays', () => {
      const limit = make({ sizeMax: 1000, sizeMin: 2 });
      const feed = new Feed(limit);
      for (let i = 0; i < 5_000; i += 1) feed.trip(10, 900, { outcome: 'dropped' });
      assert.equal(limit.size, 2);
    });

    it('takes what was as slow as the time-out for dropped', () => {
      const limit = make({ sizeMax: 1000, latencyMsMax: 1_000 });
      const feed = new Feed(limit);
      for (let i = 0; i < 5_000; i += 1) feed.trip(10, 1_000);
      assert.equal(limit.size, 1);
    });

    it('is an integer within its bounds, whatever comes', async () => {
      await explore(2_000, async (random) => {
        const sizeMax = 1 + Math.floor(random() ** 3 * 500);
        const sizeMin = 1 + Math.floor(random() ** 3 * sizeMax);
        const limit = make({ sizeMax, sizeMin, latencyMsMax: random() < 0.5 ? Infinity : 3_000 });
        let now = 0;
        let mood: () => Partial<Sample> & { ms: number } = () => ({ ms: 1 });
        for (let i = 0; i < 400; i += 1) {
          if (i % 40 === 0) {
            const ms = random() < 0.1 ? 0 : 10 ** (4 * random());
            const jitter = random();
            const dropped = random() ** 4;
            mood = () => ({
              ms: ms * (1 + jitter * random()),
              outcome: random() < dropped ? 'dropped' : random() < 0.1 ? 'ignored' : 'ok',
              inside: random() < 0.7 ? limit.size : 1 + Math.floor(random() * 2 * sizeMax),
            });
          }
          const { ms, outcome = 'ok', inside = 1 } = mood();
          now += random() * ms;
          limit.observe({ outcome, startedAt: now - ms, endedAt: now, inside });
          const { size } = limit;
          assert.ok(Number.isInteger(size) && size >= sizeMin && size <= sizeMax, `${size}`);
        }
      });
    });
  });
}

describe('AimdLimit', () => {
  for (const serviceMs of [50, 500, 3_000]) {
    for (const servers of [20, 45]) {
      it(`stays about the ${servers} that a downstream of ${serviceMs} ms takes`, async () => {
        const downstream = new Downstream(servers, serviceMs);
        downstream.queueMax = 2;
        const limit = new AimdLimit({ sizeMax: 1000 });
        await using load = new Load(limit, downstream);
        await load.play(60 * serviceMs);
        const { mean, perMs } = await load.play(100 * serviceMs);
        assertSize(mean, servers);
        assertWithin((perMs * serviceMs) / servers, 0.9, 1.05, 'the share of the capacity');
      });
    }
  }

  it('follows within 40 round trips when the capacity halves or doubles', async () => {
    const downstream = new Downstream(40, 500);
    downstream.queueMax = 2;
    const limit = new AimdLimit({ sizeMax: 1000 });
    await using load = new Load(limit, downstream);
    for (const servers of [40, 20, 40]) {
      downstream.servers = servers;
      await load.play(40 * 500);
      assertSize((await load.play(60 * 500)).mean, servers);
    }
  });

  it('holds the latency where it was told, when nothing is ever refused', async () => {
    const downstream = new Downstream(20, 500);
    const limit = new AimdLimit({ sizeMax: 1000, latencyMsMax: 750 });
    await using load = new Load(limit, downstream);
    await load.play(60 * 500);
    assertSize((await load.play(100 * 500)).mean, 20);
  });

  it('grows by one for each round trip of successes', () => {
    const limit = new AimdLimit({ sizeMax: 1000, size: 10 });
    const feed = new Feed(limit);
    feed.trip(11, 50);
    assert.equal(limit.size, 11);
    feed.trip(12, 50);
    assert.deepEqual(limit.stats, { size: 12, sizeMax: 1000, cuts: 0 });
  });

  it('refuses a backoff that would not back off', () => {
    const wrong = { sizeMax: 9, backoff: 1 };
    assert.throws(() => new AimdLimit(wrong), /backoff: must be a number from 0.1 to 0.99, got 1/);
  });
});
