import type { Clock } from '../base/clock.ts';
import { SpillwayError } from '../base/errors.ts';
import { Batch, type BatchGroup } from '../wait/batch.ts';

// The parts that all stores on a database server have in common.

interface StoreQueueOptions<Item, Result> {
  /** Sends the writes of a group in one call. */
  readonly send: (group: BatchGroup<Item, Result>) => Promise<void>;
  readonly queueMax: number;
  readonly deadlineMs: number;
  readonly clock: Clock;
}

/** Group commit of a store: writes that come while a call is under way share the next one. */
export function storeQueue<Item, Result>(
  options: StoreQueueOptions<Item, Result>,
): Batch<Item, Result> {
  const { send, ...limits } = options;
  const full = (waiting: number) =>
    new SpillwayError('LANE_FULL', `the store's queue is full: ${waiting} commits wait`);
  return new Batch<Item, Result>({ call: send, full, ...limits });
}

/**
 * The newest store time that this process has seen, and the server's clock at that moment. Sent
 * with each call, so that store time never goes back for this process, also after a failover.
 */
export class SeenTime {
  now: number | undefined = undefined;
  wall: number | undefined = undefined;

  /** Notes an answer. Answers may overtake each other: an older one tells nothing new. */
  note(now: number, wall: number): void {
    if (now < (this.now ?? 0)) return;
    this.now = now;
    this.wall = wall;
  }
}
