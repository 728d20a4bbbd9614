import { check, checkInteger, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import type { Json } from '../base/json.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { Runner, RunOptions } from '../base/task.ts';
import type { Store } from '../store/store.ts';
import type { HarvestSink } from './sink.ts';

/** The rate of a harvest: a `Bucket`, a `SharedBucket`, or what wraps one. */
export interface HarvestBucket {
  take(n: number, options?: RunOptions): Promise<void>;
  slow(told?: { readonly retryAfterMs?: number | undefined }): void;
  readonly stats: { readonly ratePerSecond: number };
}

export interface HarvestOptions<Row, Position extends Json = number> {
  readonly sink: HarvestSink<Row, Position>;
  /** Where the leases of the sources are kept. */
  readonly store: Store;
  /** The rate that all sources share, a `Bucket` or a `SharedBucket`. @default no rate */
  readonly bucket?: HarvestBucket | undefined;
  /** A `Breaker` or a `SharedBreaker`. @default a breaker of its own */
  readonly breaker?: Runner | undefined;
  /**
   * `prefix` commits what is complete from the start and notes in the gap ledger what had to be
   * given up; `strict` commits whole batches, and a page that is given up ends its source.
   * @default 'prefix'
   */
  readonly mode?: 'prefix' | 'strict' | undefined;
  /** Asks for the gaps in the ledger again, before anything else. @default false */
  readonly fillsGaps?: boolean | undefined;
  /** How many sources are harvested at once; an integer from 1. @default 64 */
  readonly sourcesMax?: number | undefined;
  /** How many fetches of one source are in flight; an integer from 1. @default `inFlightMax` */
  readonly pagesMax?: number | undefined;
  /** How many fetches are in flight in all; an integer from 1. @default 1,000 */
  readonly inFlightMax?: number | undefined;
  /** Pages asked for and not committed, of all sources together; from 1. @default 1,000 */
  readonly windowMax?: number | undefined;
  /** How many pages are committed together; from 1 to `windowMax`. @default 100 or `windowMax` */
  readonly batchPages?: number | undefined;
  /** In `prefix` mode, how long a page waits for a fuller batch, in ms; from 0. @default 1,000 */
  readonly batchMsMax?: number | undefined;
  /** How often a page, or a commit, is tried in all; an integer from 1. @default 10 */
  readonly attemptsMax?: number | undefined;
  /** The longest wait after the first attempt, in ms; doubles each time. From 0. @default 500 */
  readonly backoffMs?: number | undefined;
  /** Where doubling ends, in milliseconds; from `backoffMs`. @default 30,000 or `backoffMs` */
  readonly backoffMsMax?: number | undefined;
  /** When a fetch, or a commit, is given up, in milliseconds; from 1. @default 30,000 */
  readonly attemptMsMax?: number | undefined;
  /** How many gaps the ledger of a source holds; one more ends it. From 0. @default 1,000 */
  readonly gapsMax?: number | undefined;
  /** For how long a lease lasts without being renewed, in ms; from 30. @default 60,000 */
  readonly leaseMs?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/** All options but those that may really be missing, each with a value. */
export type HarvestSettings<Row, Position extends Json> = {
  readonly [Name in Exclude<
    keyof HarvestOptions<Row, Position>,
    'bucket' | 'breaker'
  >]-?: NonNullable<HarvestOptions<Row, Position>[Name]>;
};

/** The options with nothing left out, once they are known to be right. */
export function harvestSettings<Row, Position extends Json>(
  options: HarvestOptions<Row, Position>,
): HarvestSettings<Row, Position> {
  const { sink, store, mode = 'prefix', fillsGaps = false } = options;
  const { sourcesMax = 64, inFlightMax = 1_000, pagesMax = inFlightMax } = options;
  const { windowMax = 1_000, batchPages = Math.min(100, windowMax), batchMsMax = 1_000 } = options;
  const { attemptsMax = 10, backoffMs = 500, attemptMsMax = 30_000 } = options;
  const { backoffMsMax = Math.max(30_000, backoffMs), gapsMax = 1_000 } = options;
  const { leaseMs = 60_000, clock = systemClock, random = systemRandom } = options;
  check(typeof sink?.commit === 'function', 'sink', 'a HarvestSink', sink);
  check(typeof store?.commit === 'function', 'store', 'a Store', store);
  check(mode === 'prefix' || mode === 'strict', 'mode', "'prefix' or 'strict'", mode);
  checkInteger('sourcesMax', sourcesMax, 1);
  checkInteger('inFlightMax', inFlightMax, 1);
  checkInteger('pagesMax', pagesMax, 1);
  checkInteger('windowMax', windowMax, 1);
  checkInteger('batchPages', batchPages, 1, windowMax);
  checkNumber('batchMsMax', batchMsMax, 0, Number.MAX_SAFE_INTEGER);
  checkInteger('attemptsMax', attemptsMax, 1);
  checkNumber('backoffMs', backoffMs, 0, Number.MAX_SAFE_INTEGER);
  checkNumber('backoffMsMax', backoffMsMax, backoffMs, Number.MAX_SAFE_INTEGER);
  checkNumber('attemptMsMax', attemptMsMax, 1, Number.MAX_SAFE_INTEGER);
  checkInteger('gapsMax', gapsMax, 0);
  checkNumber('leaseMs', leaseMs, 30, 2 ** 31);
  const bounds = { sourcesMax, inFlightMax, pagesMax, windowMax, batchPages, batchMsMax, gapsMax };
  const times = { attemptsMax, backoffMs, backoffMsMax, attemptMsMax, leaseMs };
  return { sink, store, mode, fillsGaps, ...bounds, ...times, clock, random };
}
