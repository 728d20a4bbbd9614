import { AssertionError } from 'node:assert/strict';
import { inspect } from 'node:util';

/** Wrong use is a bug of the caller: it fails at once, naming the option and its rule. */
export function check(
  holds: boolean,
  option: string,
  rule: string,
  actual: unknown,
): asserts holds {
  if (holds) return;
  const got = inspect(actual, { depth: 0, maxStringLength: 80 });
  throw new AssertionError({ message: `${option}: must be ${rule}, got ${got}`, actual });
}

/** An integer between the bounds, both included. */
export function checkInteger(
  option: string,
  actual: number,
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
): void {
  const rule = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`;
  const holds = Number.isInteger(actual) && actual >= min && actual <= max;
  check(holds, option, `an integer ${rule}`, actual);
}
