import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { ResourceLimits } from 'node:worker_threads';
import { assertionError } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import {
  anything,
  callback,
  clockRule,
  type Filled,
  flag,
  instance,
  integer,
  maybe,
  number,
  or,
  positive,
  settle,
  word,
} from '../base/options.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { MeterStats } from '../meter/meter.ts';
import { slotCount } from './slots.ts';
import { type ThreadOptions, type Threads, workerThreads } from './threads.ts';
import { uncopyable } from './wire-error.ts';
import type { WorkerStats } from './worker.ts';

/** The most threads of a pool, so that a typing error does not use up the machine's memory. */
export const workersMax = 1_024;

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
  /** The number of threads. An integer from 1 to 1,024. @default one for each core */
  readonly workers?: number | undefined;
  /** Tasks that a worker runs at once, from 1 to 1,024: more than 1 if they await. @default 1 */
  readonly concurrency?: number | undefined;
  /** Tasks that may wait for a worker; one more is refused. An integer from 0. */
  readonly queueMax: number;
  /** Milliseconds from the call to the result, above 0; `Infinity` for none. */
  readonly deadlineMs: number;
  /**
   * Milliseconds, from 0, that an aborted task may go on before its thread is ended; `Infinity` for
   * no limit. @default 10_000
   */
  readonly killAfterMs?: number | undefined;
  /**
   * Milliseconds, above 0, that the chunks of a stream may wait for a reader. Then the stream is
   * ended, since it holds a worker. @default 60_000
   */
  readonly streamIdleMsMax?: number | undefined;
  /** Decides when workers are replaced, one at a time, each by one that is warm. @default never */
  readonly recycle?: RecycleOptions | undefined;
  /** Copied to each worker when it starts: `setup` is given it. @default undefined */
  readonly workerData?: unknown;
  /** The environment variables of the workers. @default those of the process */
  readonly env?: NodeJS.ProcessEnv | undefined;
  /**
   * Limits on a worker's memory, in megabytes, as of `node:worker_threads`; a worker that exceeds
   * one is lost. The heap has at least 4 MB, the stack 0.5 MB. @default those of Node
   */
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
  /** Tasks in progress. */
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
export type PoolSettings = Filled<Omit<PoolOptions, 'recycle' | keyof ThreadOptions>> &
  ThreadOptions & { readonly recycle: Filled<RecycleOptions>; readonly workerData: unknown };

const isUrl = (value: unknown): boolean => value instanceof URL && value.protocol === 'file:';
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null;

/** Checks the options and fills in the defaults. */
export function poolSettings(options: PoolOptions): PoolSettings {
  const settings = settle('Pool', options, {
    name: or(word, 'pool'),
    module: instance(isUrl, 'the URL of a file'),
    workers: or(integer(1, workersMax), availableParallelism()),
    concurrency: or(integer(1, slotCount), 1),
    queueMax: integer(0),
    deadlineMs: positive(),
    killAfterMs: or(number(0), 10_000),
    streamIdleMsMax: or(positive(), 60_000),
    recycle: or(instance(isObject, 'an object'), {}),
    workerData: maybe(anything),
    env: maybe(instance(isObject, 'an object')),
    resourceLimits: maybe(instance(isObject, 'an object')),
    startMsMax: or(number(1), 60_000),
    ref: or(flag, true),
    clock: or(clockRule, systemClock),
    random: or(callback, systemRandom),
    threads: or(callback, workerThreads),
  });
  const recycle = settle('Pool: recycle', settings.recycle, {
    ageMsMax: or(number(1), Infinity),
    tasksMax: or(number(1), Infinity),
    heapMbMax: or(number(1), Infinity),
    intervalMs: or(number(0), 1_000),
  });
  const resourceLimits = settle('Pool: resourceLimits', settings.resourceLimits ?? {}, {
    // With less than these V8 ends the whole process, and not only the thread (Node 24.21).
    maxOldGenerationSizeMb: maybe(number(4)),
    stackSizeMb: maybe(number(0.5)),
    maxYoungGenerationSizeMb: maybe(number(0)),
    codeRangeSizeMb: maybe(number(0)),
  });
  const { module } = settings;
  const path = fileURLToPath(module);
  // A compiler turns the worker into `.js`, but not the name in its URL.
  const compiled = new URL(module.href.replace(/\.([cm]?)ts$/, '.$1js'));
  const found = [module, compiled].find((url) => existsSync(url));
  if (found === undefined) throw assertionError(`Pool: module: no file at ${path}`);
  const { env, workerData } = settings;
  const copy = { env: env && { ...env }, workerData: copyOf(workerData) };
  return { ...settings, ...copy, module: found, recycle, resourceLimits };
}

/** Copies the data, so that workers that start later get the same whatever the caller changes. */
function copyOf(workerData: unknown): unknown {
  try {
    return structuredClone(workerData);
  } catch (cause) {
    throw uncopyable('Pool: workerData', workerData, cause);
  }
}
