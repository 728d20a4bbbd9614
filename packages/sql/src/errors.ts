import { type ErrorMaker, errorMaker } from 'spillway/internal';

const faults = {
  DATABASE_MIGRATION: { status: 500, retryable: false },
} as const;

/** Every code that this package adds; `docs/errors.md` says what to do about each. */
export type SqlErrorCode = keyof typeof faults;

/** Every code that this package throws, as a list. */
export const sqlErrorCodes: readonly SqlErrorCode[] = Object.keys(faults) as SqlErrorCode[];

/** A deliberate failure of this package, ready to be thrown. */
export const sqlError: ErrorMaker<SqlErrorCode> = errorMaker(faults);
