/** How a piece of work ended, for the limit: an aborted call must not teach it anything. */
export type Outcome = 'ok' | 'ignored' | 'dropped';

/** One finished piece of work. Times are milliseconds of the lane's clock. */
export interface Sample {
  readonly outcome: Outcome;
  readonly startedAt: number;
  readonly endedAt: number;
  /** Permits in use when it ended, its own included. */
  readonly inside: number;
}

/** Says how many may be inside at once; it enforces nothing itself. */
export interface Limit {
  /** An integer from 1 to `sizeMax`. */
  readonly size: number;
  readonly sizeMax: number;
  /** Learns from one finished piece of work. */
  observe(sample: Sample): void;
}
