import { inspect } from 'node:util';

/** Throws for wrong use, which is a bug of the caller; names the option and its rule. */
export function check(
  holds: boolean,
  option: string,
  rule: string,
  actual: unknown,
): asserts holds {
  if (!holds) throw misuse(option, rule, actual);
}

/** The error for wrong use; `cause` is the error that revealed it, if any. */
export function misuse(option: string, rule: string, actual: unknown, cause?: unknown): Error {
  const why = cause instanceof Error ? ` (${cause.message})` : '';
  const message = `${option}: must be ${rule}, got ${shown(actual)}${why}`;
  const error = assertionError(message, actual);
  return cause === undefined ? error : Object.assign(error, { cause });
}

/** An AssertionError. Its module is loaded on first use, since that takes 3 ms (2026-11). */
export function assertionError(message: string, actual?: unknown): Error {
  const { AssertionError } = process.getBuiltinModule('node:assert');
  return new AssertionError({ message, actual });
}

/** A value in one line, for a message. Getters of the value may run, and may throw. */
export function shown(value: unknown): string {
  try {
    return inspect(value, { depth: 0, maxStringLength: 80 });
  } catch {
    return typeof value;
  }
}

/** Describes the numbers between the bounds, both included. */
export function range(noun: string, min: number, max: number): string {
  return max === Infinity ? `${noun} from ${min}` : `${noun} from ${min} to ${max}`;
}

/** Checks a caller's signal: any other value would never abort, or fail later on. */
export function checkSignal(signal: AbortSignal | undefined): void {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw misuse('signal', 'an AbortSignal', signal);
}

/** Checks an integer between the bounds, both included. */
export function checkInteger(
  option: string,
  actual: number,
  min: number,
  max: number = Infinity,
): void {
  const holds = Number.isSafeInteger(actual) && actual >= min && actual <= max;
  if (!holds) throw misuse(option, range('an integer', min, max), actual);
}

/** Checks a number between the bounds, both included; Infinity unless there is an upper bound. */
export function checkNumber(
  option: string,
  actual: number,
  min: number,
  max: number = Infinity,
): void {
  const holds = typeof actual === 'number' && actual >= min && actual <= max;
  if (!holds) throw misuse(option, range('a number', min, max), actual);
}
