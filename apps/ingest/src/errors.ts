import { SpillwayError, type SpillwayErrorOptions } from 'spillway';

const faults = {
  ADDRESS_CHANGED: { status: 409, retryable: false },
  BUDGET_SPENT: { status: 429, retryable: false },
  CHECKPOINT_FUTURE: { status: 409, retryable: false },
  CHECKPOINT_UNREADABLE: { status: 500, retryable: false },
  EXCHANGE_CHANGED: { status: 502, retryable: false },
  EXCHANGE_FAILED: { status: 502, retryable: true },
  EXCHANGE_LIMITED: { status: 429, retryable: true },
  EXCHANGE_PAUSED: { status: 429, retryable: false },
  EXCHANGE_REFUSED: { status: 400, retryable: false },
  EXCHANGE_UNREACHABLE: { status: 502, retryable: false },
  FOLDER_FAILED: { status: 500, retryable: false },
  FOLDER_FULL: { status: 507, retryable: false },
  FOLDER_MISSING: { status: 404, retryable: false },
  FOLDER_READ_ONLY: { status: 500, retryable: false },
  FOLDER_UNREACHABLE: { status: 503, retryable: true },
  GENERATION_REPLACED: { status: 409, retryable: false },
  MEMORY_SHORT: { status: 507, retryable: false },
  PRODUCT_BEGUN_LATER: { status: 400, retryable: false },
  PRODUCT_UNKNOWN: { status: 404, retryable: false },
  QUERY_FAILED: { status: 400, retryable: false },
  QUERY_REFUSED: { status: 403, retryable: false },
  RAW_INVALID: { status: 500, retryable: false },
  REFRESH_BEHIND: { status: 409, retryable: false },
  REFRESH_SHORT: { status: 409, retryable: false },
  SEED_UNREADABLE: { status: 400, retryable: false },
  SOURCE_INVALID: { status: 400, retryable: false },
  STORE_COPIED: { status: 409, retryable: false },
  STORE_UNUSABLE: { status: 500, retryable: false },
  TABLE_CORRUPT: { status: 500, retryable: false },
  TABLE_FAILED: { status: 500, retryable: false },
  TABLE_FOREIGN: { status: 409, retryable: false },
  TABLE_FUTURE: { status: 409, retryable: false },
  TABLE_LOCKED: { status: 409, retryable: true },
  TABLE_STALE: { status: 409, retryable: false },
} as const;

/** Every code that ingest itself throws. */
export type IngestErrorCode = keyof typeof faults;

export interface IngestErrorOptions extends SpillwayErrorOptions {
  /** The HTTP status of the exchange's answer. @default the status of the code */
  readonly status?: number | undefined;
}

/** Makes a deliberate failure of ingest; the message names the file, product or request. */
export function ingestError(
  code: IngestErrorCode,
  message: string,
  options: IngestErrorOptions = {},
): SpillwayError {
  const { status = faults[code].status, ...rest } = options;
  return new SpillwayError({ code, ...faults[code], status }, message, rest);
}
