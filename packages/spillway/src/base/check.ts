import { AssertionError } from 'node:assert/strict';
import { inspect } from 'node:util';

/** Throws for wrong use, which is a bug of the caller: names the option and its rule. */
export function check(
  holds: boolean,
  option: string,
  rule: string,
  actual: unknown,
): asserts holds {
  if (!holds) throw misuse(option, rule, actual);
}

/** The error for wrong use; `cause` is the error that revealed it, if there was one. */
export function misuse(option: string, rule: string, actual: unknown, cause?: unknown): Error {
  const got = inspect(actual, { depth: 0, maxStringLength: 80 });
  const why = cause instanceof Error ? ` (${cause.message})` : '';
  const message = `${option}: must be ${rule}, got ${got}${why}`;
  return Object.assign(
    new AssertionError({ message, actual }),
    cause === undefined ? {} : { cause },
  );
}

/** Checks an integer between the bounds, both included. */
export function checkInteger(
  option: string,
  actual: number,
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
): void {
  const rule = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`;
  check(
    Number.isInteger(actual) && actual >= min && actual <= max,
    option,
    `an integer ${rule}`,
    actual,
  );
}

/** Checks a number between the bounds, both included; Infinity unless there is an upper bound. */
export function checkNumber(
  option: string,
  actual: number,
  min: number,
  max: number = Infinity,
): void {
  const holds = typeof actual === 'number' && actual >= min && actual <= max;
  check(
    holds,
    option,
    max === Infinity ? `a number from ${min}` : `a number from ${min} to ${max}`,
    actual,
  );
}
