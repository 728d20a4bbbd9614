import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GradientLimit, type LimitOptions, type Sample } from 'spillway';
import { explore } from 'spillway/testing';
import { Feed } from './fixtures/downstream.ts';

const make = (options: LimitOptions) => new GradientLimit(options);

describe('a limit that learns', () => {
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
    for (const latencyMs of [0, 50, 5_000]) feed.trip(500, latencyMs, { outcome: 'aborted' });
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
    const feed = new Feed(limit);
    for (let i = 0; i < 100; i += 1) {
      feed.trip(1, 0, { outcome: 'overloaded', startedAt: i, endedAt: 200 + i });
    }
    assert.equal(limit.size, 90);
    feed.trip(1, 0, { outcome: 'overloaded', startedAt: 200, endedAt: 400 });
    assert.equal(limit.size, 81);
  });

  it('falls to its smallest size while everything is dropped, and stays', () => {
    const limit = make({ sizeMax: 1000, sizeMin: 2 });
    const feed = new Feed(limit);
    for (let i = 0; i < 5_000; i += 1) feed.trip(10, 900, { outcome: 'overloaded' });
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
            outcome: random() < dropped ? 'overloaded' : random() < 0.1 ? 'aborted' : 'ok',
            inside: random() < 0.7 ? limit.size : 1 + Math.floor(random() * 2 * sizeMax),
          });
        }
        const { ms, outcome = 'ok', inside = 1 } = mood();
        now += random() * ms;
        const isWhole = outcome === 'ok';
        limit.observe({ outcome, isWhole, startedAt: now - ms, endedAt: now, inside });
        const { size } = limit;
        assert.ok(Number.isInteger(size) && size >= sizeMin && size <= sizeMax, `${size}`);
      }
    });
  });
});
