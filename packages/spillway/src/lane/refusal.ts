import { type ErrorCode, SpillwayError } from '../base/errors.ts';
import type { Refusal } from '../meter/meter.ts';

/** Why a lane sends somebody away who did not leave by himself. */
export type LaneRefusal = Exclude<Refusal, 'aborted'>;

const codes: Readonly<Record<LaneRefusal, ErrorCode>> = {
  closed: 'LANE_CLOSED',
  deadline: 'DEADLINE',
  full: 'LANE_FULL',
  stale: 'LANE_STALE',
};

/** What is told to whom a lane sends away. */
export function laneRefusal(
  reason: LaneRefusal,
  lane: {
    readonly name: string;
    readonly inside: number;
    readonly waiting: number;
    readonly retryAfterMs: number | undefined;
  },
): SpillwayError {
  const { name, inside, waiting, retryAfterMs } = lane;
  const message = `lane "${name}": ${reason} with ${inside} inside, ${waiting} waiting`;
  return new SpillwayError(codes[reason], message, { retryAfterMs });
}
