import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Random } from 'spillway';
import { Deadlines } from 'spillway/internal';
import { explore, VirtualClock } from 'spillway/testing';

describe('Deadlines', () => {
  it('arms one timer for the earliest, and none when there is nothing to watch over', async () => {
    const clock = new VirtualClock();
    const calls: number[] = [];
    const deadlines = new Deadlines(clock, (now) => {
      calls.push(now);
      return now < 30 ? 30 : Infinity;
    });
    deadlines.watch(20);
    deadlines.watch(25);
    assert.equal(clock.pending, 1);
    deadlines.watch(10);
    assert.equal(clock.pending, 1);
    await clock.advance(100);
    assert.deepEqual(calls, [10, 30]);
    assert.equal(clock.pending, 0);
    deadlines.watch(150);
    deadlines.clear();
    assert.equal(clock.pending, 0);
    deadlines.watch(Infinity);
    assert.equal(clock.pending, 0);
  });

  it('ends what is due however its moment was rounded', async () => {
    await explore(500, async (random) => {
      const clock = new VirtualClock();
      await clock.advance(random());
      const dueAt = clock.now() + random() * 1e6;
      let calls = 0;
      const deadlines = new Deadlines(clock, (now) => {
        calls += 1;
        return dueAt <= now ? Infinity : dueAt;
      });
      deadlines.watch(dueAt);
      await clock.advance(2e6);
      assert.equal(calls, 1);
    });
  });

  it('ends each at its moment, whoever comes, leaves and comes meanwhile', async () => {
    await explore(200, play);
  });
});

async function play(random: Random): Promise<void> {
  const clock = new VirtualClock();
  const due = new Set<number>();
  const ended = new Map<number, number>();
  const deadlines = new Deadlines(clock, (now) => {
    for (const dueAt of [...due]) {
      if (dueAt > now) continue;
      due.delete(dueAt);
      ended.set(dueAt, clock.now());
    }
    return Math.min(...due);
  });
  const left = new Set<number>();
  const all: number[] = [];
  for (let at = 0; at < 30; at += 1) {
    const dueAt = clock.now() + random() * 50;
    due.add(dueAt);
    all.push(dueAt);
    deadlines.watch(dueAt);
    const [first] = due;
    if (random() < 0.3 && first !== undefined && due.delete(first)) left.add(first);
    if (due.size === 0) deadlines.clear();
    if (random() < 0.6) await clock.advance(random() * 20);
  }
  await clock.advance(100);
  for (const dueAt of all.filter((one) => !left.has(one))) {
    const lateMs = (ended.get(dueAt) ?? Infinity) - dueAt;
    assert.ok(Math.abs(lateMs) < 1e-6, `${lateMs} ms late`);
  }
  assert.equal(clock.pending, 0);
}
