import type { Ring, RingMember } from '../wait/ring.ts';
import { Waiter } from '../wait/wait-queue.ts';

/** One record of a write-behind cache. */
export class CachedRecord<K, V> implements RingMember {
  ring: Ring<RingMember> | undefined = undefined;
  slot = 0;
  readonly key: K;
  value: V | undefined = undefined;
  /** Until the value has come. */
  loading: Promise<void> | undefined = undefined;
  /** How many callers wait for it or look at it. */
  users = 0;
  /** The number of its latest change, and since when it has been dirty. */
  changedAt = 0;
  dirtySince = 0;

  constructor(key: K) {
    this.key = key;
  }
}

/** Someone who waits until the change of this number is durable. */
export class Awaiting extends Waiter<void> {
  readonly change: number;

  constructor(change: number, signal: AbortSignal | undefined) {
    super(signal);
    this.change = change;
  }
}
