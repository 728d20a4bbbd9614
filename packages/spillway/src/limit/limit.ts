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
