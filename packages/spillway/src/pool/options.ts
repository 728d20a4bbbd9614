import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { check, checkInteger, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { MeterStats } from '../meter/meter.ts';
import type { RecycleOptions } from './recycle.ts';
import type { SnapshotStats } from './snapshot.ts';
import { type Threads, workerThreads } from './thread-start.ts';
import type { WorkerStats } from './worker.ts';

export interface PoolOptions {
  /** The worker module: `new URL('./my-worker.ts', import.meta.url)`. */
  readonly module: URL;
  /** How many threads. An integer from 1. @default one for each core */
  readonly workers?: number | undefined;
  /** How many tasks a worker runs at once: above 1 only for handlers that await. @default 1 */
  readonly concurrency?: number | undefined;
  /** How many tasks may wait for a worker; one more is refused. An integer from 0. */
  readonly queueMax: number;
  /** Milliseconds from the call to the result, above 0; `Infinity` for none. */
  readonly deadlineMs: number;
  /** Ends the thread of an aborted task that goes on for longer than this. @default never */
  readonly killAfterMs?: number | undefined;
  /** When workers are replaced, one at a time, each by one that is already warm. @default never */
  readonly recycle?: RecycleOptions | undefined;
  /** A worker whose heap grows beyond so many megabytes is lost. @default Node's own limit */
  readonly heapMbMax?: number | undefined;
  /** How long a worker's `setup` or `teardown` may take, in milliseconds. @default 60000 */
  readonly startMsMax?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
  /** Where threads come from. @default real ones */
  readonly threads?: Threads | undefined;
}

export interface PoolStats extends MeterStats {
  /** How many tasks can run at once. */
  readonly limit: number;
  /** Tasks that workers are busy with. */
  readonly inside: number;
  /** Tasks that wait, here or in a busy worker. */
  readonly waiting: number;
  readonly workers: readonly WorkerStats[];
  /** Workers replaced because of age, tasks or memory. */
  readonly recycled: number;
  /** Workers that ended by themselves or were ended. */
  readonly lost: number;
  /** Why the last worker was lost or could not start. */
  readonly lastError: unknown;
  /** Snapshots still in use; views are workers. */
  readonly snapshot: SnapshotStats;
}

/** The options with nothing left out. */
export type PoolSettings = {
  readonly [Name in keyof PoolOptions]-?: Name extends 'heapMbMax'
    ? number | undefined
    : Exclude<PoolOptions[Name], undefined>;
};

/** Fills in what is left out, once the options are known to be right. */
export function poolSettings(options: PoolOptions): PoolSettings {
  const { module, queueMax, deadlineMs, recycle = {}, heapMbMax } = options;
  const { workers = availableParallelism(), concurrency = 1, startMsMax = 60_000 } = options;
  const { killAfterMs = Infinity, clock = systemClock, random = systemRandom } = options;
  const isFile = module instanceof URL && module.protocol === 'file:';
  check(isFile && existsSync(fileURLToPath(module)), 'module', 'the URL of a file', module);
  checkInteger('workers', workers, 1);
  checkInteger('concurrency', concurrency, 1, 1024);
  checkInteger('queueMax', queueMax, 0);
  const isTime = typeof deadlineMs === 'number' && deadlineMs > 0;
  check(isTime, 'deadlineMs', 'a number above 0', deadlineMs);
  checkNumber('killAfterMs', killAfterMs, 0);
  checkNumber('startMsMax', startMsMax, 1);
  checkNumber('heapMbMax', heapMbMax ?? 16, 16);
  checkNumber('recycle.ageMsMax', recycle.ageMsMax ?? 1, 1);
  checkNumber('recycle.tasksMax', recycle.tasksMax ?? 1, 1);
  checkNumber('recycle.heapMbMax', recycle.heapMbMax ?? 1, 1);
  checkNumber('recycle.intervalMs', recycle.intervalMs ?? 0, 0);
  const { threads = workerThreads } = options;
  const times = { deadlineMs, killAfterMs, startMsMax, clock, random };
  return { module, workers, concurrency, queueMax, recycle, heapMbMax, threads, ...times };
}
