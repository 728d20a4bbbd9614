// Slow: plays many random schedules.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Backlog, type Random } from 'spillway';
import { explore, VirtualClock } from 'spillway/testing';
import { assertBalanced, type Job, job, keyed, size } from './fixtures/manual-backlog.ts';

/** Random traffic; checks what must hold at each moment, and at the end that no id was lost. */
async function traffic(random: Random, closeEarly: boolean): Promise<void> {
  const pick = (max: number) => Math.floor(random() * max);
  const clock = new VirtualClock();
  const consumers = 1 + pick(3);
  const queueMax = 1 + pick(6);
  const running = new Set<string>();
  const broken: string[] = [];
  const done: Job[] = [];
  const dropped: Job[] = [];
  const backlog = new Backlog<Job>({
    ...keyed,
    queueMax,
    consumers,
    attemptsMax: 1 + pick(3),
    clock,
    random,
    onDrop: (item) => dropped.push(item),
    consume: async (item) => {
      // An assertion here would only fail the item.
      if (running.has(item.key)) broken.push('two of one key at once');
      running.add(item.key);
      if (running.size > consumers) broken.push('too many at once');
      if (random() < 0.7) await new Promise<void>((end) => clock.after(pick(200), end));
      running.delete(item.key);
      if (random() < 0.4) throw new Error('no');
      done.push(item);
    },
  });
  const count = 10 + pick(20);
  for (let id = 0; id < count; id += 1) {
    backlog.add(job(String(pick(4)), id));
    assertBalanced(backlog);
    assert.ok(size(backlog.stats) <= queueMax, 'over its size');
    if (random() < 0.7) await clock.advance(pick(120));
  }
  if (closeEarly) {
    const closed = backlog.close({ withinMs: pick(300) }).catch((error) => {
      assert.equal(error.code, 'BACKLOG_LEFT');
    });
    await clock.run(closed);
  } else {
    await clock.run(backlog.idle());
    await backlog.close();
  }
  assert.deepEqual(broken, []);
  const over = [...done, ...dropped].flatMap(({ ids }) => ids);
  assert.equal(size(backlog.stats), 0);
  assertBalanced(backlog);
  assert.equal(over.length, count, 'an item was lost or doubled');
  assert.equal(new Set(over).size, count, 'an item was lost or doubled');
  for (const key of ['0', '1', '2', '3']) {
    const ids = done.filter((item) => item.key === key).flatMap((item) => item.ids);
    assert.deepEqual(
      ids,
      ids.toSorted((a, b) => a - b),
      'a key was done out of order',
    );
  }
  if (closeEarly) await clock.advance(1_000);
  assert.equal(clock.pending, 0);
}

describe('Backlog under random traffic', () => {
  it('loses nothing, keeps each key in order and alone, and drains', async () => {
    await explore(1_500, (random) => traffic(random, false));
  });

  it('accounts for everything when it is closed in the middle', async () => {
    await explore(1_500, (random) => traffic(random, true));
  });

  it('lets I/O happen in the middle of a long chain of short items', async () => {
    let turned = false;
    let doneBefore = 0;
    const backlog = new Backlog<number>({
      queueMax: 10_000,
      consume: async () => {
        if (!turned) doneBefore += 1;
      },
    });
    for (let i = 0; i < 10_000; i += 1) backlog.add(i);
    setImmediate(() => {
      turned = true;
    });
    await backlog.idle();
    // The loop turns after two budgets of 1,024 items at most, however fast the machine is.
    assert.ok(doneBefore < 2_100, `${doneBefore} items before the loop turned`);
    assert.equal(backlog.stats.done, 10_000);
  });
});
