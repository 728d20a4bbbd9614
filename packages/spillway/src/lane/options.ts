import { check } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import { type ErrorCode, SpillwayError } from '../base/errors.ts';
import {
  callback,
  clockRule,
  instance,
  integer,
  laneRule,
  maybe,
  nested,
  or,
  positive,
  type Rules,
  settle,
  word,
} from '../base/options.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { Limit } from '../limit/limit.ts';
import type { MeterStats, Refusal } from '../meter/meter.ts';
import type { Lane } from './lane.ts';
import type { CodelOptions } from './queue.ts';

export interface LaneOptions {
  /** Name of the lane in errors and numbers. */
  readonly name: string;
  /**
   * Most permits that the lane gives at once, an integer from 1. Up to that the lane measures how
   * many the work behind it can bear. `{ fixed: 12 }` always gives that many, and begins work even
   * if it may end late; a {@link Limit} finds the number by a rule of its own.
   */
  readonly limit: number | { readonly fixed: number } | Limit;
  /**
   * Most callers that wait, an integer from 0; one more is refused. While the size that the lane
   * found is below `limit`, as many more may wait as it is below.
   */
  readonly queueMax: number;
  /** Milliseconds from arrival to the end of the work, above 0; `Infinity` for none. */
  readonly deadlineMs: number;
  /** The lane whose permits this one shares; a permit here is also a permit there. */
  readonly parent?: Lane | undefined;
  /** Permits of the parent that are kept for this lane alone. An integer from 0. @default 0 */
  readonly guaranteed?: number | undefined;
  /** Milliseconds that a caller may wait for a permit, above 0. @default Infinity */
  readonly waitMsMax?: number | undefined;
  /** Refuses callers that have waited too long while the queue never empties. @default off */
  readonly codel?: CodelOptions | undefined;
  /** Called with the error of each caller that the lane refuses; keep it short. @default none */
  readonly onRefuse?: ((error: SpillwayError) => void) | undefined;
  /** Source of time. @default the parent's, or the system's */
  readonly clock?: Clock | undefined;
  /** Decides which keys share a sub-queue. @default the system's */
  readonly random?: Random | undefined;
}

/**
 * Numbers of a lane. Counts and times are those of its own callers, without those of the lanes
 * inside; add these up for the whole tree.
 */
export interface LaneStats extends MeterStats {
  readonly kind: 'lane';
  readonly name: string;
  /** Name of the lane that this one is inside of. */
  readonly parent: string | undefined;
  /** Permits that may be in use at once: the size found so far, or 0 while paused. */
  readonly limit: number;
  /** Permits in use now, here and in the lanes inside this one. */
  readonly inside: number;
  /** Callers that wait for this lane now. */
  readonly waiting: number;
  /** The lanes inside this one. */
  readonly lanes: readonly LaneStats[];
}

/** Lane options with their defaults filled in. */
export interface SettledLane extends LaneOptions {
  readonly guaranteed: number;
  readonly waitMsMax: number;
  readonly random: Random;
}

const rules = {
  name: word,
  limit: instance(isLimit, 'an integer from 1, { fixed: such a number }, or a Limit'),
  queueMax: integer(0),
  deadlineMs: positive(),
  parent: maybe(laneRule),
  guaranteed: or(integer(0), 0),
  waitMsMax: or(positive(), Infinity),
  codel: maybe(nested),
  onRefuse: maybe(callback),
  clock: maybe(clockRule),
  random: or(callback, systemRandom),
} satisfies Rules<LaneOptions>;

/** Checks the options and fills in the defaults. */
export function settleLane(options: LaneOptions, isOurs: (lane: object) => boolean): SettledLane {
  const settled = settle<LaneOptions, typeof rules>('Lane', options, rules);
  const { parent } = settled;
  const mayBeParent = parent === undefined || isOurs(parent);
  check(mayBeParent, 'Lane: parent', 'a Lane of the same copy of spillway', parent);
  return settled;
}

function isLimit(value: unknown): boolean {
  const isCount = (count: unknown) => Number.isSafeInteger(count) && Number(count) >= 1;
  const { fixed, size, sizeMax, observe }: Record<keyof Limit | 'fixed', unknown> = Object(value);
  if (typeof value === 'number' || fixed !== undefined) return isCount(fixed ?? value);
  return isCount(size) && isCount(sizeMax) && typeof observe === 'function';
}

/** Reason for which a lane refuses a caller that did not leave by itself. */
export type LaneRefusal = Exclude<Refusal, 'aborted'>;

const codes: Readonly<Record<LaneRefusal, ErrorCode>> = {
  cleared: 'CLEARED',
  closed: 'LANE_CLOSED',
  deadline: 'DEADLINE',
  full: 'LANE_FULL',
  late: 'LANE_LATE',
  stale: 'LANE_STALE',
};

/** The error for a caller that a lane refuses. */
export function laneRefusal(
  reason: LaneRefusal,
  lane: {
    readonly name: string;
    readonly inside: number;
    readonly waiting: number;
    /** Infinity when it is unknown. */
    readonly retryAfterMs: number;
  },
): SpillwayError {
  const { name, inside, waiting } = lane;
  const retryAfterMs = lane.retryAfterMs === Infinity ? undefined : lane.retryAfterMs;
  const message = `lane "${name}": ${reason} with ${inside} inside, ${waiting} waiting`;
  return new SpillwayError(codes[reason], message, { retryAfterMs });
}

/** Largest number of permits that a lane with this limit may ever give at once. */
export function limitMaxOf(limit: LaneOptions['limit']): number {
  if (typeof limit === 'number') return limit;
  return 'fixed' in limit ? limit.fixed : limit.sizeMax;
}
