import { checkInteger, checkNumber } from '../base/check.ts';

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

/** What every limit that learns is told. */
export interface LimitOptions {
  /** Where it begins; from `sizeMin` to `sizeMax`, 20 or the nearest to it by default. */
  readonly size?: number | undefined;
  /** It never goes below; from 1 to `sizeMax`, 1 by default. */
  readonly sizeMin?: number | undefined;
  /** It never goes above; from 1. */
  readonly sizeMax: number;
  /**
   * Milliseconds; work that took as long or longer counts as dropped. Set it to the time-out of
   * the calls when those come in as `ok`; `Infinity` by default.
   */
  readonly latencyMsMax?: number | undefined;
}

/** The options with their defaults filled in, once they are found to be in order. */
export function checkLimitOptions(options: LimitOptions): {
  [Name in keyof LimitOptions]-?: NonNullable<LimitOptions[Name]>;
} {
  const { sizeMax, sizeMin = 1, latencyMsMax = Infinity } = options;
  checkInteger('sizeMax', sizeMax, 1);
  checkInteger('sizeMin', sizeMin, 1, sizeMax);
  const { size = Math.min(sizeMax, Math.max(sizeMin, 20)) } = options;
  checkInteger('size', size, sizeMin, sizeMax);
  checkNumber('latencyMsMax', latencyMsMax, Number.MIN_VALUE);
  return { size, sizeMin, sizeMax, latencyMsMax };
}

/** A limit that learns nothing: for work whose right concurrency is known. */
export class FixedLimit implements Limit {
  readonly size: number;
  readonly sizeMax: number;

  constructor(size: number) {
    checkInteger('size', size, 1);
    this.size = size;
    this.sizeMax = size;
  }

  get stats(): { readonly size: number; readonly sizeMax: number } {
    return { size: this.size, sizeMax: this.sizeMax };
  }

  observe(): void {}
}
