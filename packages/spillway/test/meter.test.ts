import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { entering } from './fixtures/entering.ts';

function sleep(clock: VirtualClock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.after(ms, resolve));
}

function openLane(clock: VirtualClock, limit = 1_000): Lane {
  return new Lane({
    name: 'work',
    limit: { fixed: limit },
    queueMax: 1_000,
    deadlineMs: Infinity,
    clock,
  });
}

describe('the numbers of a lane', () => {
  it('agree with Little’s law', async () => {
    const clock = new VirtualClock();
    const lane = openLane(clock);
    for (let at = 0; at < 60_000; at += 10) {
      clock.after(at, () => void lane.run(() => sleep(clock, 50)));
    }
    await clock.advance(60_000);
    const { arrivalsPerSecond, serviceMs, insideMean, insideByLittle } = lane.stats;
    assert.ok(Math.abs(arrivalsPerSecond - 100) < 1, `λ is ${arrivalsPerSecond}`);
    assert.equal(serviceMs.mean, 50);
    assert.ok(Math.abs(insideMean - 5) < 0.1, `L is ${insideMean}`);
    assert.ok(Math.abs(insideByLittle - 5) < 0.1, `λW is ${insideByLittle}`);
  });

  it('measure L while nothing has ended yet, where Little’s law cannot see it', async () => {
    const clock = new VirtualClock();
    const lane = openLane(clock);
    using _permit = await lane.enter();
    await clock.advance(4_000);
    assert.equal(lane.stats.insideMean, 1);
    assert.equal(lane.stats.insideByLittle, 0);
  });

  it('give quantiles within 4 % of the true ones, from microseconds to days', async () => {
    const clock = new VirtualClock();
    const lane = openLane(clock, 20_000);
    const random = seededRandom(7);
    const times: number[] = [];
    const work = Array.from({ length: 5_000 }, () => {
      const ms = 10 ** (random() * 11 - 3);
      times.push(ms);
      return lane.run(() => sleep(clock, ms));
    });
    await clock.run(Promise.all(work));
    times.sort((a, b) => a - b);
    // All that ended in the last windows are the longest; read them before they are forgotten.
    const { serviceMs } = lane.stats;
    assert.equal(serviceMs.max, times.at(-1));
    assert.equal(lane.stats.finished, 5_000);

    const other = openLane(clock, 20_000);
    const short = times.filter((ms) => ms < 5_000);
    await clock.run(Promise.all(short.map((ms) => other.run(() => sleep(clock, ms)))));
    for (const [name, share] of [
      ['p50', 0.5],
      ['p95', 0.95],
      ['p99', 0.99],
    ] as const) {
      const exact = short[Math.ceil(share * short.length) - 1] as number;
      const error = Math.abs(other.stats.serviceMs[name] / exact - 1);
      assert.ok(error < 0.04 || exact < 0.02, `${name}: ${error * 100} % off ${exact}`);
    }
  });

  it('count those who did not wait among the waits', async () => {
    const clock = new VirtualClock();
    const lane = openLane(clock, 90);
    for (let i = 0; i < 100; i += 1) void lane.run(() => sleep(clock, 400));
    await clock.advance(1_000);
    const { count, mean, p50, p95, max } = lane.stats.waitMs;
    assert.deepEqual([count, mean, p50, max], [100, 40, 0, 400]);
    assert.ok(Math.abs(p95 / 400 - 1) < 0.04, `p95 is ${p95}`);
  });

  it('are about the last seconds, while the totals are about all', async () => {
    const clock = new VirtualClock();
    const lane = openLane(clock);
    for (let i = 0; i < 100; i += 1) void lane.run(() => sleep(clock, 500));
    await clock.advance(1_000);
    assert.equal(lane.stats.serviceMs.count, 100);
    await clock.advance(60_000);
    await clock.run(lane.run(() => sleep(clock, 5)));
    const { serviceMs, finished, arrived, started, arrivalsPerSecond } = lane.stats;
    assert.equal(serviceMs.count, 1);
    assert.equal(serviceMs.max, 5);
    assert.deepEqual({ arrived, started, finished }, { arrived: 101, started: 101, finished: 101 });
    assert.ok(arrivalsPerSecond < 1_000, `${arrivalsPerSecond}`);
  });

  it('count every refusal by its reason', async () => {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'work', limit: 1, queueMax: 1, deadlineMs: 100, clock });
    using _permit = await lane.enter();
    const late = assert.rejects(entering(lane), { code: 'DEADLINE' });
    await assert.rejects(entering(lane), { code: 'LANE_FULL' });
    await clock.advance(100);
    await late;
    await assert.rejects(entering(lane, { signal: AbortSignal.abort() }), { name: 'AbortError' });
    void lane.close();
    await assert.rejects(entering(lane), { code: 'LANE_CLOSED' });
    const expected = { aborted: 1, cleared: 0, closed: 1, deadline: 1, full: 1, late: 0, stale: 0 };
    assert.deepEqual(lane.stats.refused, expected);
    assert.equal(lane.stats.arrived, 5);
  });
});
