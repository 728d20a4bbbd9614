import { SpillwayError } from './errors.ts';

/** The error for a write that may have been done all the same: look before it is repeated. */
export function inDoubt(error: unknown): unknown {
  if (!(error instanceof SpillwayError) || !error.retryable) return error;
  const message = `${error.message}; whether the write was committed is not known`;
  const fault = { code: error.code, status: error.status, retryable: false };
  return new SpillwayError(fault, message, { cause: error });
}
