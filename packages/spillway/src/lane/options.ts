import { check, checkInteger, checkNumber } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import type { Random } from '../base/random.ts';
import type { Limit } from '../limit/limit.ts';
import type { Lane } from './lane.ts';
import type { CodelOptions } from './queue.ts';

export interface LaneOptions {
  /** What the lane is called in errors and numbers. */
  readonly name: string;
  /** How many permits it has: an integer from 1, or a {@link Limit} that finds the number. */
  readonly limit: number | Limit;
  /** How many may wait; one more is refused. An integer from 0. */
  readonly queueMax: number;
  /** Milliseconds from arrival to the end of the work, above 0; `Infinity` for none. */
  readonly deadlineMs: number;
  /** The lane whose permits this one shares; a permit here is also a permit there. */
  readonly parent?: Lane | undefined;
  /** How many of the parent's permits are kept for this lane alone; from 0. @default 0 */
  readonly guaranteed?: number | undefined;
  /** Grants in a row while siblings wait for the same permits. An integer from 1. @default 1 */
  readonly share?: number | undefined;
  /** Turns away what has waited too long while the queue never empties. @default off */
  readonly codel?: CodelOptions | undefined;
  /** Where time comes from. @default the parent's, or the system's */
  readonly clock?: Clock | undefined;
  /** Decides which keys share a sub-queue. @default the system's */
  readonly random?: Random | undefined;
}

/** Fails on the first option that breaks its rule. */
export function checkLaneOptions(options: LaneOptions): void {
  const { name, limit, queueMax, deadlineMs, parent, codel } = options;
  check(typeof name === 'string' && name !== '', 'name', 'a word', name);
  checkInteger('limit', typeof limit === 'number' ? limit : limit.size, 1);
  checkInteger('queueMax', queueMax, 0);
  check(deadlineMs > 0, 'deadlineMs', 'a number above 0', deadlineMs);
  check(parent === undefined || 'enter' in parent, 'parent', 'a Lane', parent);
  checkInteger('guaranteed', options.guaranteed ?? 0, 0);
  checkInteger('share', options.share ?? 1, 1);
  checkNumber('codel.targetMs', codel?.targetMs ?? 5, 0);
  checkNumber('codel.intervalMs', codel?.intervalMs ?? 100, 0);
}
