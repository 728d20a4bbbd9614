import { checkInteger, checkNumber } from '../base/check.ts';

/**
 * End of a piece of work.
 * - `ok`: it ended in time, with a result or with an error that is the caller's own (a 404).
 * - `failed`: it ended with an error that says nothing about load.
 * - `overloaded`: the other side said that it has too much to do (429, 503, 504).
 * - `late`: its deadline, or a time-out of its own, passed first.
 * - `aborted`: its caller gave up.
 */
export type Outcome = 'ok' | 'failed' | 'overloaded' | 'late' | 'aborted';

/** One finished piece of work. Times are milliseconds of the lane's clock. */
export interface Sample {
  readonly outcome: Outcome;
  /** False if it stopped before its end: then its time is a lower bound only. */
  readonly isWhole: boolean;
  readonly startedAt: number;
  readonly endedAt: number;
  /** Permits in use when it ended, its own included. */
  readonly inside: number;
}

/** A rule for how many may be inside at once; the lane enforces it. */
export interface Limit {
  /** An integer from 1 to `sizeMax`. */
  readonly size: number;
  readonly sizeMax: number;
  /** Learns from one finished piece of work. */
  observe(sample: Sample): void;
}

export interface LimitOptions {
  /** Size at the start. An integer from `sizeMin` to `sizeMax`. @default 20 or nearest */
  readonly size?: number | undefined;
  /** Smallest size. An integer from 1 to `sizeMax`. @default 1 */
  readonly sizeMin?: number | undefined;
  /** Largest size. An integer from 1. */
  readonly sizeMax: number;
  /** Milliseconds above 0 that work has in all, waiting included. @default Infinity */
  readonly deadlineMs?: number | undefined;
}

/** The options with their defaults filled in, once they are found to be in order. */
export function checkLimitOptions(options: LimitOptions): {
  [Name in keyof LimitOptions]-?: NonNullable<LimitOptions[Name]>;
} {
  const { sizeMax, sizeMin = 1, deadlineMs = Infinity } = options;
  checkInteger('sizeMax', sizeMax, 1);
  checkInteger('sizeMin', sizeMin, 1, sizeMax);
  const { size = Math.min(sizeMax, Math.max(sizeMin, 20)) } = options;
  checkInteger('size', size, sizeMin, sizeMax);
  checkNumber('deadlineMs', deadlineMs, Number.MIN_VALUE);
  return { size, sizeMin, sizeMax, deadlineMs };
}
