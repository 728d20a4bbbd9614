import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { check, checkInteger, checkNumber } from './check.ts';
import { type Clock, systemClock } from './clock.ts';
import type { MeterStats } from './meter.ts';
import { PoolCore } from './pool-core.ts';
import type { RecycleOptions, WorkerStats } from './pool-crew.ts';
import type { ChunkOf, InputOf, OutputOf, RunName, StateOf, StreamName } from './pool-module.ts';
import { PoolStream } from './pool-stream.ts';
import type { PoolTask, RunOptions } from './pool-task.ts';
import { type Threads, workerThreads } from './pool-thread.ts';
import { type Random, systemRandom } from './random.ts';
import type { SnapshotStats } from './snapshot.ts';

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
  /** A worker whose heap grows beyond this is lost, and only its own tasks. @default Node's limit */
  readonly heapMbMax?: number | undefined;
  /** How long a worker's `setup` may take, in milliseconds. @default 60000 */
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

export interface PoolCloseOptions {
  /** How long tasks may still take, in milliseconds; what is left then is ended. @default 10000 */
  readonly withinMs?: number | undefined;
}

const plainOptions: RunOptions = {};

/**
 * Worker threads behind a bounded queue with a deadline. Each worker has private resources, all
 * read the same snapshot: `await using pool = await Pool.open<typeof import('./w.ts')>({ … });`
 */
export class Pool<Module> implements AsyncDisposable {
  readonly #core: PoolCore;

  /** Starts all workers and waits until each is warm; rejects with `POOL_START` if one fails. */
  static async open<Module>(options: PoolOptions): Promise<Pool<Module>> {
    const core = new PoolCore(settings(options));
    await core.start();
    return new Pool<Module>(core);
  }

  private constructor(core: PoolCore) {
    this.#core = core;
  }

  get stats(): PoolStats {
    return this.#core.stats;
  }

  /** Whether at least one worker can take tasks. */
  get ready(): boolean {
    return this.#core.ready;
  }

  /**
   * Runs a handler of the module in one of the workers. The input is copied when it is sent, at the
   * end of this turn or later. Rejects with what the handler threw, `POOL_FULL`, `DEADLINE`,
   * `WORKER_LOST`, or the signal's reason.
   */
  run<Name extends RunName<Module>>(
    name: Name,
    input: InputOf<Module[Name]>,
    options: RunOptions = plainOptions,
  ): Promise<OutputOf<Module[Name]>> {
    const task = this.#core.submit({ name, input, isStream: false }, options);
    return task.promise as Promise<OutputOf<Module[Name]>>;
  }

  /**
   * Runs a handler that gives many results. The worker is never more than a few chunks ahead of the
   * reader, and stops when the reader does.
   */
  stream<Name extends StreamName<Module>>(
    name: Name,
    input: InputOf<Module[Name]>,
    options: RunOptions = plainOptions,
  ): AsyncIterableIterator<ChunkOf<Module[Name]>> & AsyncDisposable {
    const core = this.#core;
    const start = (chunk: (value: unknown) => void) =>
      core.submit({ name, input, isStream: true, chunk }, options);
    const stop = (task: PoolTask) => core.stop(task, new Error('the reader stopped'));
    return new PoolStream<ChunkOf<Module[Name]>>(start, stop).open();
  }

  /**
   * Gives all workers a new snapshot, and its version. Tasks sent from now on see it; a task that
   * runs keeps the one it began with. Shared memory inside is shared, all else is copied.
   */
  publish(value: StateOf<Module>): number {
    return this.#core.publish(value);
  }

  /** Takes no more tasks, finishes those it has, then lets the workers tear down and end. */
  close(options: PoolCloseOptions = {}): Promise<void> {
    const { withinMs = 10_000 } = options;
    checkNumber('withinMs', withinMs, 0);
    return this.#core.close(withinMs);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** The options with nothing left out, once they are known to be right. */
function settings(options: PoolOptions): ConstructorParameters<typeof PoolCore>[0] {
  const { module, queueMax, deadlineMs, recycle = {}, heapMbMax } = options;
  const { workers = availableParallelism(), concurrency = 1, startMsMax = 60_000 } = options;
  const { killAfterMs = Infinity, clock = systemClock, random = systemRandom } = options;
  const isFile = module instanceof URL && module.protocol === 'file:';
  check(isFile && existsSync(fileURLToPath(module)), 'module', 'the URL of a file', module);
  checkInteger('workers', workers, 1);
  checkInteger('concurrency', concurrency, 1, 1024);
  checkInteger('queueMax', queueMax, 0);
  check(deadlineMs > 0, 'deadlineMs', 'a number above 0', deadlineMs);
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
