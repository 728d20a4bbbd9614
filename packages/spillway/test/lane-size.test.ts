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

describe('a queue that stands', () => {
  it('refuses callers as soon as those before them take all the time they have', async () => {
    const { clock, lane, call, serve } = served({ limit: 50, deadlineMs: 2_000 });
    const readyAt = new Array<number>(10).fill(0);
    const places = () => {
      const place = readyAt.indexOf(Math.min(...readyAt));
      readyAt[place] = Math.max(readyAt[place] as number, clock.now()) + 400;
      return call((readyAt[place] as number) - clock.now());
    };
    await serve(75, 20, places);
    const waits: number[] = [];
    const perSecond = await serve(75, 20, places, (waitMs) => waits.push(waitMs));
    const meanMs = waits.reduce((sum, ms) => sum + ms, 0) / waits.length;
    assert.ok(meanMs < 600, `${meanMs} ms until a refusal in the mean`);
    assert.ok(perSecond > 24.5, `${perSecond} of 25 a second at a size of ${lane.stats.limit}`);
  });
});

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

  it('grows again when even times have become longer without a queue', async () => {
    const { lane, call, serve } = served({ limit: 50, deadlineMs: 2_000 });
    await serve(30, 10, () => call(100));
    await serve(30, 60, () => call(900));
    const perSecond = await serve(30, 20, () => call(900));
    assert.ok(perSecond >= 29, `${perSecond} of 30 a second, at a size of ${lane.stats.limit}`);
  });

  it('is found anew after a resize below the size to which late work would go back', async () => {
    const { clock, lane, call, serve } = served({ limit: 50, deadlineMs: 400 });
    await serve(400, 10, () => call(100));
    assert.ok(lane.stats.limit >= 40, `${lane.stats.limit}`);
    await serve(400, 3, () => call(2_000));
    lane.resize(20);
    let readyAt = 0;
    const queue = () => {
      readyAt = Math.max(readyAt, clock.now()) + 20;
      return call(readyAt - clock.now() + 80);
    };
    await serve(150, 30, queue);
    let sum = 0;
    for (let i = 0; i < 20; i += 1) {
      await serve(150, 1, queue);
      sum += lane.stats.limit;
    }
    assert.ok(sum / 20 < 10, `${sum / 20} at a service that does 50 calls a second in 100 ms`);
  });
});

/** A lane, and calls that come evenly and take a given time. */
function served(options: { readonly limit: number; readonly deadlineMs: number }) {
  const clock = new VirtualClock();
  const lane = new Lane({ name: 'calls', queueMax: 100, clock, ...options });
  const call = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  /** Good answers a second. */
  const serve = async (
    perSecond: number,
    seconds: number,
    task: () => Promise<void>,
    onRefuse: (waitMs: number) => void = () => {},
  ) => {
    const before = lane.stats.outcomes.ok;
    for (let i = 0; i < perSecond * seconds; i += 1) {
      const at = clock.now();
      void lane.run(task).catch(() => onRefuse(clock.now() - at));
      await clock.advance(1_000 / perSecond);
    }
    return (lane.stats.outcomes.ok - before) / seconds;
  };
  return { clock, lane, call, serve };
}
