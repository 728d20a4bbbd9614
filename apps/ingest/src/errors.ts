import { SpillwayError, type SpillwayErrorOptions } from 'spillway';

const faults = {
  EXCHANGE_CHANGED: { status: 502, retryable: false },
  EXCHANGE_FAILED: { status: 502, retryable: true },
  EXCHANGE_LIMITED: { status: 429, retryable: true },
  EXCHANGE_REFUSED: { status: 400, retryable: false },
  PRODUCT_UNKNOWN: { status: 404, retryable: false },
} as const;

/** Every code that ingest itself throws. */
export type IngestErrorCode = keyof typeof faults;

export interface IngestErrorOptions extends SpillwayErrorOptions {
  /** The status that was answered, where it is another than that of the code. */
  readonly status?: number | undefined;
}

/** A deliberate failure of ingest. */
export function ingestError(
  code: IngestErrorCode,
  message: string,
  options: IngestErrorOptions = {},
): SpillwayError {
  const { status = faults[code].status, ...rest } = options;
  return new SpillwayError({ code, ...faults[code], status }, message, rest);
}
