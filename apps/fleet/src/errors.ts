import { errorMaker } from 'spillway/internal';

const faults = {
  ACCESS_REFUSED: { status: 401, retryable: false },
  ACTION_FORBIDDEN: { status: 403, retryable: false },
  OUTSIDE_FAILED: { status: 502, retryable: true },
  OUTSIDE_LIMITED: { status: 503, retryable: true },
  OUTSIDE_REFUSED: { status: 502, retryable: false },
  RECORD_UNKNOWN: { status: 404, retryable: false },
  REQUEST_REFUSED: { status: 400, retryable: false },
  REQUEST_TOO_LARGE: { status: 413, retryable: false },
  STOP_REFUSED: { status: 401, retryable: false },
  USER_EXISTS: { status: 409, retryable: false },
} as const;

/** A request that is refused with a status and changes nothing. */
export const fleetError = errorMaker(faults);

/** Throws `REQUEST_REFUSED` with the complaint unless it holds. */
export function demand(holds: boolean, complaint: string): asserts holds {
  if (!holds) throw fleetError('REQUEST_REFUSED', complaint);
}
