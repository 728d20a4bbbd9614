import { check, checkInteger, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { type Random, systemRandom } from '../base/random.ts';

export interface WriteBehindOptions<K, V> {
  /** Fetches a record that is not in memory; those who ask meanwhile share the answer. */
  readonly load: (key: K, signal: AbortSignal) => Promise<V> | V;
  /** Makes all of these durable, or none, or throws; it may be given the same values again. */
  readonly flush: (records: ReadonlyMap<K, V>, signal: AbortSignal) => Promise<void> | void;
  /** How many records are held at most; unchanged ones make room. An integer from 1. */
  readonly sizeMax: number;
  /** How many may be changed and not flushed; up to `sizeMax`, half of it by default. */
  readonly dirtyMax?: number | undefined;
  /** The longest time from a change to the start of its flush, in ms; 1,000 by default. */
  readonly flushMsMax?: number | undefined;
  /** When the signal of a load or a flush aborts, in milliseconds; 30,000 by default. */
  readonly attemptMsMax?: number | undefined;
  /** The longest wait after a failed flush, doubled for each further one. 100 by default. */
  readonly backoffMs?: number | undefined;
  /** No wait after a failed flush is longer; 10,000 by default. */
  readonly backoffMsMax?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

export interface WriteBehindStats {
  readonly size: number;
  /** Records changed and not durable yet, those being flushed included. */
  readonly dirty: number;
  /** How many records the flush that runs now has. */
  readonly flushing: number;
  /** Flushes that succeeded. */
  readonly flushes: number;
  /** Flushes that failed; each was tried again. */
  readonly failures: number;
  /** Why the last flush failed; undefined once one has succeeded again. */
  readonly lastFailure: string | undefined;
  /** For how long the oldest change has waited to be durable; 0 when none does. */
  readonly oldestDirtyMs: number;
}

/** All options, each with a value. */
export type WriteBehindSettings<K, V> = {
  readonly [Name in keyof WriteBehindOptions<K, V>]-?: NonNullable<WriteBehindOptions<K, V>[Name]>;
};

/** The options with nothing left out, once they are known to be right. */
export function writeBehindSettings<K, V>(
  options: WriteBehindOptions<K, V>,
): WriteBehindSettings<K, V> {
  const { load, flush, sizeMax, flushMsMax = 1_000, attemptMsMax = 30_000 } = options;
  const { dirtyMax = Math.max(1, sizeMax >> 1), backoffMs = 100 } = options;
  const { backoffMsMax = Math.max(10_000, backoffMs) } = options;
  const { clock = systemClock, random = systemRandom } = options;
  check(typeof load === 'function', 'load', 'a function', load);
  check(typeof flush === 'function', 'flush', 'a function', flush);
  checkInteger('sizeMax', sizeMax, 1);
  checkInteger('dirtyMax', dirtyMax, 1, sizeMax);
  checkNumber('flushMsMax', flushMsMax, 0, 86_400_000);
  checkNumber('attemptMsMax', attemptMsMax, 1);
  checkNumber('backoffMs', backoffMs, 0, 86_400_000);
  checkNumber('backoffMsMax', backoffMsMax, backoffMs, 86_400_000);
  const limits = { sizeMax, dirtyMax, flushMsMax, attemptMsMax, backoffMs, backoffMsMax };
  return { ...limits, load, flush, clock, random };
}
