import { type ErrorMaker, errorMaker } from 'spillway/internal';

const faults = {
  ACTION_REFUSED: { status: 409, retryable: false },
  BODY_CODING: { status: 501, retryable: false },
  BODY_INVALID: { status: 400, retryable: false },
  BODY_TOO_LARGE: { status: 413, retryable: false },
  BODY_TYPE: { status: 415, retryable: false },
  CHANNEL_FULL: { status: 503, retryable: true },
  CSRF_REFUSED: { status: 403, retryable: false },
  DISK_FULL: { status: 507, retryable: false },
  HEADERS_TOO_LARGE: { status: 431, retryable: false },
  IDEMPOTENCY_DONE: { status: 409, retryable: false },
  IDEMPOTENCY_INVALID: { status: 400, retryable: false },
  IDEMPOTENCY_LOST: { status: 409, retryable: false },
  IDEMPOTENCY_MISMATCH: { status: 422, retryable: false },
  IDEMPOTENCY_REPEATED: { status: 409, retryable: false },
  IDEMPOTENCY_RUNNING: { status: 409, retryable: true },
  INPUT_INVALID: { status: 422, retryable: false },
  LIVE_FULL: { status: 503, retryable: true },
  METHOD_REFUSED: { status: 405, retryable: false },
  NOT_FOUND: { status: 404, retryable: false },
  NOT_PRIMARY: { status: 503, retryable: true },
  OPERATOR_ONLY: { status: 403, retryable: false },
  PIPELINE_FULL: { status: 429, retryable: true },
  PRECONDITION_FAILED: { status: 412, retryable: false },
  RANGE_REFUSED: { status: 416, retryable: false },
  RATE_EXCEEDED: { status: 429, retryable: true },
  REQUEST_INVALID: { status: 400, retryable: false },
  REQUEST_SLOW: { status: 408, retryable: true },
  SERVER_BUSY: { status: 503, retryable: true },
  SERVER_STOPPING: { status: 503, retryable: true },
  SESSION_TOO_LARGE: { status: 500, retryable: false },
  SOCKETS_FULL: { status: 503, retryable: true },
  SOCKET_ORIGIN: { status: 403, retryable: false },
} as const;

/** Every code this package throws; `docs/errors.md` says what to do about each. */
export type HttpErrorCode = keyof typeof faults;

/** Every code that this package throws, as a list. */
export const httpErrorCodes: readonly HttpErrorCode[] = Object.keys(faults) as HttpErrorCode[];

/** A deliberate failure of this package, ready to be thrown. */
export const httpError: ErrorMaker<HttpErrorCode> = errorMaker(faults);
