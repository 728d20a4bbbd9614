import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { inspect } from 'node:util';
import { Breaker, Bucket, Gate, Lane, Pool } from 'spillway';
import { entering } from './fixtures/entering.ts';

/** Tells a promise that is rejected before anybody can listen: Node notes it as unhandled. */
function isRejectedAtOnce(promise: Promise<unknown>): boolean {
  return inspect(promise).includes('<rejected>');
}

async function checkRefusal(ask: () => Promise<unknown>, code: string): Promise<void> {
  const promise = ask();
  assert.equal(isRejectedAtOnce(promise), false);
  await assert.rejects(promise, { code });
}

const forever = () => new Promise<never>(() => {});

describe('a refusal', () => {
  it('is known to be rejected at once when it is', async () => {
    const promise = Promise.reject(new Error('at once'));
    assert.equal(isRejectedAtOnce(promise), true);
    await assert.rejects(promise);
  });

  it('comes when the caller of a gate can listen', async () => {
    const gate = new Gate({ limit: 1, queueMax: 0 });
    using _place = await gate.enter();
    await checkRefusal(() => gate.run(forever), 'GATE_FULL');
    assert.throws(() => gate.enter(), { code: 'GATE_FULL' });
  });

  for (const queueMax of [0, 1]) {
    it(`comes when the caller of a lane with a queue of ${queueMax} can listen`, async () => {
      const lane = new Lane({ name: 'small', limit: 1, queueMax, deadlineMs: Infinity });
      const permit = await lane.enter();
      const waiting = Array.from({ length: queueMax }, () => entering(lane));
      await checkRefusal(() => lane.run(async () => {}), 'LANE_FULL');
      assert.throws(() => lane.enter({}), { code: 'LANE_FULL' });
      permit[Symbol.dispose]();
      for (const one of await Promise.all(waiting)) one[Symbol.dispose]();
    });
  }

  it('comes when the caller of a bucket or a breaker can listen', async () => {
    const bucket = new Bucket({ ratePerSecond: 0.001, burst: 1, queueMax: 0 });
    await bucket.take();
    await checkRefusal(() => bucket.take(), 'BUCKET_FULL');
    const breaker = new Breaker();
    const failing = () => Promise.reject(new Error('down'));
    while (breaker.stats.state === 'closed') await breaker.run(failing).catch(() => {});
    await checkRefusal(() => breaker.run(forever), 'BREAKER_OPEN');
  });

  it('comes when the caller of a pool can listen', async () => {
    const module = new URL('./fixtures/pool-worker.ts', import.meta.url);
    await using pool = await Pool.open<typeof import('./fixtures/pool-worker.ts')>({
      module,
      workers: 1,
      queueMax: 0,
      deadlineMs: 10_000,
    });
    const first = pool.run('add', { a: 1, b: 3 });
    await checkRefusal(() => pool.run('add', { a: 1, b: 3 }), 'POOL_FULL');
    assert.equal(await first, 4);
  });
});
