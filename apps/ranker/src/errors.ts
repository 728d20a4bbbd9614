import { type ErrorMaker, errorMaker } from 'spillway/internal';

const faults = {
  DATABASE_TAKEN: { status: 503, retryable: true },
  INPUT_INVALID: { status: 422, retryable: false },
  KEY_NEEDED: { status: 401, retryable: false },
  NAME_INVALID: { status: 422, retryable: false },
  NAME_TAKEN: { status: 409, retryable: false },
  NOTHING_RATED: { status: 409, retryable: false },
  RECORD_UNKNOWN: { status: 404, retryable: false },
  RULES_FULL: { status: 409, retryable: false },
} as const;

/** Every code that the ranker's server itself throws. */
export type RankerErrorCode = keyof typeof faults;

/** A request that is refused with a status and changes nothing. */
export const rankerError: ErrorMaker<RankerErrorCode> = errorMaker(faults);
