import { SharedBucket, type Store } from 'spillway';
import type { Take } from '../shared-bucket.ts';

export function openTake(store: Store): Take {
  const rule = { name: 'bench', ratePerSecond: 100_000, burst: 20_000, queueMax: 1_000 };
  const bucket = new SharedBucket({ store, ...rule, deadlineMs: 10_000 });
  return () => bucket.take();
}
