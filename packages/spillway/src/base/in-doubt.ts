import { SpillwayError } from './errors.ts';

/** Marks the error of a write that may have been done: not retryable, and its message says so. */
export function inDoubt(error: unknown): unknown {
  if (!(error instanceof SpillwayError) || !error.retryable) return error;
  const message = `${error.message}; whether the write was committed is not known`;
  const fault = { code: error.code, status: error.status, retryable: false };
  return new SpillwayError(fault, message, { cause: error });
}
