import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Random, WriteBehind } from 'spillway';
import { explore, VirtualClock } from 'spillway/testing';

/** Random use over a disk that is slow and fails; checks what holds at each moment. */
async function traffic(random: Random): Promise<void> {
  const pick = (max: number) => Math.floor(random() * max);
  const clock = new VirtualClock();
  const pause = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));
  const disk = new Map<number, number>();
  const truth = new Map<number, number>();
  const broken: string[] = [];
  const sizeMax = 1 + pick(6);
  const dirtyMax = 1 + pick(sizeMax);
  const flushMsMax = pick(200);
  const failing = random() * 0.6;
  let flushing = 0;
  const cache = new WriteBehind<number, number>({
    sizeMax,
    dirtyMax,
    flushMsMax,
    clock,
    random,
    load: async (key) => {
      const value = disk.get(key) ?? 0;
      if (random() < 0.7) await pause(pick(30));
      if (random() < 0.1) throw new Error('no load');
      if (value !== (disk.get(key) ?? 0)) broken.push('flushed while it was loaded');
      return value;
    },
    flush: async (records) => {
      flushing += 1;
      if (flushing > 1) broken.push('two flushes at once');
      if (records.size > dirtyMax) broken.push('too many dirty');
      const written = new Map(records);
      if (random() < 0.7) await pause(pick(100));
      flushing -= 1;
      if (random() < failing) throw new Error('no flush');
      for (const [key, value] of written) {
        if (value < (disk.get(key) ?? 0)) broken.push('an older value came last');
        disk.set(key, value);
      }
    },
  });
  const use = async (key: number): Promise<void> => {
    try {
      const value = await cache.update(key, (n) => {
        if (n !== (truth.get(key) ?? 0)) broken.push(`saw ${n}, not ${truth.get(key)}`);
        truth.set(key, n + 1);
        return n + 1;
      });
      if (random() < 0.5) return;
      await cache.durable(key);
      if ((disk.get(key) ?? 0) < value) broken.push('told durable, and it is not');
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      if (code !== 'WRITE_BEHIND_FULL' && message !== 'no load') broken.push(message);
    }
  };
  const uses: Promise<void>[] = [];
  for (let i = 10 + pick(30); i > 0; i -= 1) {
    uses.push(use(pick(8)));
    const { size, dirty } = cache.stats;
    assert.ok(size <= sizeMax && dirty <= dirtyMax, `${size} records, ${dirty} dirty`);
    if (random() < 0.6) await clock.advance(pick(80));
  }
  await clock.run(Promise.all(uses));
  await clock.run(cache.close({ withinMs: 1e9 }));
  assert.deepEqual(broken, []);
  for (const [key, value] of truth) assert.equal(disk.get(key), value, `key ${key}`);
  assert.equal(cache.stats.dirty, 0);
  assert.equal(clock.pending, 0);
}

describe('WriteBehind under random use', () => {
  it('loses nothing, tells the truth about durability and keeps to its bounds', async () => {
    await explore(1_000, traffic);
  });
});
