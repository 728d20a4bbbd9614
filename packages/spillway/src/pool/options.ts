import { AssertionError } from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { ResourceLimits } from 'node:worker_threads';
import { check, checkInteger, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { MeterStats } from '../meter/meter.ts';
import { type Threads, workerThreads } from './threads.ts';
import { uncopyable } from './wire-error.ts';
import type { WorkerStats } from './worker.ts';

export interface RecycleOptions {
  /** Replaces a worker that has been ready for so many milliseconds, from 1. @default Infinity */
  readonly ageMsMax?: number | undefined;
  /** Replaces a worker that has done so many tasks, from 1. @default Infinity */
  readonly tasksMax?: number | undefined;
  /** Replaces a worker whose heap and buffers take more megabytes, from 1. @default Infinity */
  readonly heapMbMax?: number | undefined;
  /** Milliseconds from one replacement to the next, at least, from 0. @default 1_000 */
  readonly intervalMs?: number | undefined;
}

export interface PoolOptions {
  /** The name of the pool in a service, in stats and in errors. @default 'pool' */
  readonly name?: string | undefined;
  /** The worker module: `new URL('./my-worker.ts', import.meta.url)`. */
  readonly module: URL;
  /** The number of threads. An integer from 1. @default one for each core */
  readonly workers?: number | undefined;
  /** Tasks that a worker runs at once, from 1 to 1,024: above 1 for handlers that await. @default 1 */
  readonly concurrency?: number | undefined;
  /** Tasks that may wait for a worker; one more is refused. An integer from 0. */
  readonly queueMax: number;
  /** Milliseconds from the call to the result, above 0; `Infinity` for none. */
  readonly deadlineMs: number;
  /**
   * Milliseconds, from 0, after which the thread of a task that was aborted and goes on is ended;
   * `Infinity` for never. @default 10_000
   */
  readonly killAfterMs?: number | undefined;
  /**
   * Milliseconds, above 0, for which a stream may have chunks that nobody reads: then it is ended,
   * since it holds a worker. @default 60_000
   */
  readonly streamIdleMsMax?: number | undefined;
  /** Decides when workers are replaced, one at a time, each by one that is warm. @default never */
  readonly recycle?: RecycleOptions | undefined;
  /** Copied to each worker when it starts: `setup` is given it. @default undefined */
  readonly workerData?: unknown;
  /** The environment variables of the workers. @default those of the process */
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** Limits on a worker's memory, as of `node:worker_threads`; one above is lost. @default none */
  readonly resourceLimits?: ResourceLimits | undefined;
  /** Milliseconds that a worker's `setup` or `teardown` may take, from 1. @default 60_000 */
  readonly startMsMax?: number | undefined;
  /** With `false` a pool that has no tasks lets the process end. @default true */
  readonly ref?: boolean | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
  /** The maker of threads. @default real ones */
  readonly threads?: Threads | undefined;
}

export interface PoolStats extends MeterStats {
  readonly kind: 'pool';
  readonly name: string;
  /** Tasks that can run at once. */
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
  /** The reason why the last worker was lost or could not start. */
  readonly lastError: unknown;
  /** The snapshot version that tasks sent now will see. */
  readonly version: number;
}

/** The options with nothing left out. */
export type PoolSettings = {
  readonly [Name in keyof PoolOptions]-?: Name extends 'env' | 'resourceLimits' | 'workerData'
    ? PoolOptions[Name]
    : Exclude<PoolOptions[Name], undefined>;
};

/** Fills in what is left out, once the options are known to be right. */
export function poolSettings(options: PoolOptions): PoolSettings {
  const settings = {
    name: options.name ?? 'pool',
    module: options.module,
    workers: options.workers ?? availableParallelism(),
    concurrency: options.concurrency ?? 1,
    queueMax: options.queueMax,
    deadlineMs: options.deadlineMs,
    killAfterMs: options.killAfterMs ?? 10_000,
    streamIdleMsMax: options.streamIdleMsMax ?? 60_000,
    recycle: options.recycle ?? {},
    workerData: copyOf(options.workerData),
    env: options.env && { ...options.env },
    resourceLimits: options.resourceLimits,
    startMsMax: options.startMsMax ?? 60_000,
    ref: options.ref ?? true,
    clock: options.clock ?? systemClock,
    random: options.random ?? systemRandom,
    threads: options.threads ?? workerThreads,
  };
  const { module, recycle, resourceLimits = {}, deadlineMs, streamIdleMsMax, ref } = settings;
  checkModule(module);
  checkInteger('workers', settings.workers, 1);
  checkInteger('concurrency', settings.concurrency, 1, 1024);
  checkInteger('queueMax', settings.queueMax, 0);
  const isTime = (ms: unknown) => typeof ms === 'number' && ms > 0;
  check(isTime(deadlineMs), 'deadlineMs', 'a number above 0', deadlineMs);
  check(isTime(streamIdleMsMax), 'streamIdleMsMax', 'a number above 0', streamIdleMsMax);
  checkNumber('killAfterMs', settings.killAfterMs, 0);
  checkNumber('startMsMax', settings.startMsMax, 1);
  check(typeof ref === 'boolean', 'ref', 'true or false', ref);
  const heapMb = resourceLimits.maxOldGenerationSizeMb ?? 16;
  checkNumber('resourceLimits.maxOldGenerationSizeMb', heapMb, 16);
  checkNumber('recycle.ageMsMax', recycle.ageMsMax ?? 1, 1);
  checkNumber('recycle.tasksMax', recycle.tasksMax ?? 1, 1);
  checkNumber('recycle.heapMbMax', recycle.heapMbMax ?? 1, 1);
  checkNumber('recycle.intervalMs', recycle.intervalMs ?? 0, 0);
  return settings;
}

function checkModule(module: URL): void {
  const isFile = module instanceof URL && module.protocol === 'file:';
  check(isFile, 'module', 'the URL of a file', String(module));
  const path = fileURLToPath(module);
  if (!existsSync(path)) throw new AssertionError({ message: `module: no file at ${path}` });
}

/** A copy that later changes by the caller cannot reach: workers that start later get the same. */
function copyOf(workerData: unknown): unknown {
  try {
    return structuredClone(workerData);
  } catch (cause) {
    throw uncopyable('workerData', workerData, cause);
  }
}
