import { MemoryStore, SharedBucket, type Store, seededRandom } from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';
import { type Figures, mostWithin } from './measure.ts';

const machines = 256;
const callers = 4;
const ratePerSecond = 2_000;
/** The longest delay of a message to the store, in milliseconds. */
const delayMsMax = 20;
const seconds = 2;

/** A store that counts the decisions that it makes. */
class Counted extends FaultyStore {
  calls = 0;

  override apply(...args: Parameters<NonNullable<Store['apply']>>) {
    this.calls += 1;
    return super.apply(...args);
  }
}

/** A rate shared by 256 machines that all start at once, in virtual time. */
export async function simulateMachines(): Promise<Figures> {
  const clock = new VirtualClock();
  const random = seededRandom(1);
  const store = new MemoryStore({ clock });
  const endMs = 1_000 + seconds * 1_000;
  const starts: number[] = [];
  let failed = 0;
  const parties = Array.from({ length: machines }, () => {
    const far = new Counted(store, { clock, random, delayMsMax });
    const rule = { name: 'x', ratePerSecond, queueMax: 99 };
    return { far, bucket: new SharedBucket({ store: far, clock, random, ...rule }) };
  });
  const take = async (bucket: SharedBucket): Promise<void> => {
    for (; clock.now() < endMs; starts.push(clock.now())) await bucket.take();
  };
  for (const { bucket } of parties) {
    for (let i = 0; i < callers; i += 1) {
      void take(bucket).catch((error) => {
        if (error.code !== 'BUCKET_CLOSED') failed += 1;
      });
    }
  }
  await clock.advance(endMs);
  const taken = parties.map(({ bucket }) => bucket.stats.taken);
  const calls = parties.reduce((sum, { far }) => sum + far.calls, 0);
  for (const { bucket } of parties) void bucket.close();
  await clock.advance(5_000);
  const steady = starts.filter((at) => at >= 1_000 && at < endMs).length;
  return {
    'share of the rate': (steady * 100) / (ratePerSecond * seconds),
    'most in any second, of the rate': (mostWithin(starts, 1_000) * 100) / ratePerSecond,
    'calls a take': calls / starts.length,
    'takes that failed': failed,
    'most of a machine, of the least': Math.max(...taken) / Math.min(...taken),
  };
}
