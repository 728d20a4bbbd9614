import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';

/** Share of the calls of the last ten bursts that ended in time, at a service with many places. */
async function servedOfBursts(options: {
  readonly calls: number;
  readonly everyMs: number;
  readonly deadlineMs: number;
  serviceMs(): number;
}): Promise<number> {
  const { calls, everyMs, deadlineMs, serviceMs } = options;
  const clock = new VirtualClock();
  const lane = new Lane({ name: 'calls', limit: 1_000, queueMax: 1_000, deadlineMs, clock });
  const call = () => new Promise<void>((resolve) => void clock.after(serviceMs(), resolve));
  let before = 0;
  for (let burst = 0; burst < 30; burst += 1) {
    if (burst === 20) before = lane.stats.outcomes.ok;
    for (let i = 0; i < calls; i += 1) void lane.run(call).catch(() => {});
    await clock.advance(everyMs);
  }
  return (lane.stats.outcomes.ok - before) / (10 * calls);
}

describe('the size that a lane finds', () => {
  it('grows to that of bursts with nothing in between', async () => {
    const even = { calls: 500, everyMs: 10_000, deadlineMs: 2_000, serviceMs: () => 1_000 };
    const share = await servedOfBursts(even);
    assert.equal(share, 1, 'with even times');
    const short = { calls: 100, everyMs: 2_000, deadlineMs: 190, serviceMs: () => 100 };
    const shareOfShort = await servedOfBursts(short);
    assert.equal(shareOfShort, 1, 'with a deadline below two service times');
  });

  it('grows to that of bursts whose calls end in the order of their durations', async () => {
    const random = seededRandom(1);
    const serviceMs = () => -Math.log(1 - random()) * 1_000;
    const share = await servedOfBursts({
      calls: 500,
      everyMs: 10_000,
      deadlineMs: 4_000,
      serviceMs,
    });
    assert.ok(share > 0.97, `${share}, where 0.98 take less than the deadline`);
  });
});
