import { type ErrorMaker, errorMaker } from 'spillway/internal';

const faults = {
  FOLDER_FAILED: { status: 500, retryable: false },
  FOLDER_FULL: { status: 507, retryable: false },
  FOLDER_MISSING: { status: 404, retryable: false },
  FOLDER_READ_ONLY: { status: 500, retryable: false },
  FOLDER_UNREACHABLE: { status: 503, retryable: true },
  QUERY_FAILED: { status: 400, retryable: false },
  QUERY_REFUSED: { status: 403, retryable: false },
  RAW_INVALID: { status: 500, retryable: false },
  TABLE_CORRUPT: { status: 500, retryable: false },
  TABLE_FAILED: { status: 500, retryable: false },
  TABLE_FOREIGN: { status: 409, retryable: false },
  TABLE_FUTURE: { status: 409, retryable: false },
  TABLE_STALE: { status: 409, retryable: false },
} as const;

/** Every code that the storage itself throws. */
export type StorageErrorCode = keyof typeof faults;

/** A failure of the folder or of the table in it; the message names the file. */
export const storageError: ErrorMaker<StorageErrorCode> = errorMaker(faults);
