import { checkInteger } from '../base/check.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import { tracing } from '../base/trace.ts';
import { rejectSoon } from '../wait/wait-queue.ts';
import { Dispatcher } from './dispatcher.ts';
import type { ChunkOf, InputOf, OutputOf, RunName, StateOf, StreamName } from './module.ts';
import {
  type PoolOptions,
  type PoolSettings,
  type PoolStats,
  poolSettings,
  workersMax,
} from './options.ts';
import { PoolStream } from './stream.ts';
import type { PoolRunOptions } from './task.ts';
import { Workers } from './workers.ts';

/**
 * Worker threads behind a bounded queue with a deadline. Each worker has private resources, all
 * read the same snapshot: `await using pool = await Pool.open<typeof import('../w.ts')>({ … });`
 */
export class Pool<Module> implements Part, AsyncDisposable {
  readonly name: string;
  readonly #settings: PoolSettings;
  readonly #workers: Workers;
  readonly #dispatcher: Dispatcher;
  readonly #closing: Closing;

  /** Starts all workers and waits until each is warm; rejects with `POOL_START` if one fails. */
  static async open<Module>(options: PoolOptions): Promise<Pool<Module>> {
    const pool = new Pool<Module>(poolSettings(options));
    await pool.#workers.start(pool.#dispatcher);
    return pool;
  }

  private constructor(settings: PoolSettings) {
    this.name = settings.name;
    this.#settings = settings;
    this.#workers = new Workers(this, settings);
    this.#dispatcher = new Dispatcher(this, settings, this.#workers);
    this.#closing = new Closing(settings.clock, async (limit) => {
      await this.#dispatcher.drain(limit);
      await this.#workers.close(limit);
    });
  }

  get stats(): PoolStats {
    const { all, recycled, lost, lastError, version } = this.#workers;
    return {
      kind: 'pool',
      name: this.name,
      ...this.#dispatcher.stats,
      workers: [...all].map((worker) => worker.stats),
      recycled,
      lost,
      lastError,
      version,
    };
  }

  /** True while at least one worker takes tasks. */
  get ready(): boolean {
    return this.#dispatcher.ready;
  }

  /**
   * Runs a handler of the module in one of the workers. The input is copied when it is sent, at the
   * end of this turn of the event loop or later. Rejects with what the handler threw, `POOL_FULL`,
   * `DEADLINE`, `WORKER_LOST`, or the signal's reason.
   */
  run<Name extends RunName<Module>>(
    name: Name,
    input: InputOf<Module[Name]>,
    options: PoolRunOptions = {},
  ): Promise<OutputOf<Module[Name]>> {
    try {
      const { promise } = this.#dispatcher.submit(name, input, options);
      const result = promise as Promise<OutputOf<Module[Name]>>;
      if (tracing.tracer === undefined) return result;
      const attributes = { 'spillway.pool.name': this.name, 'spillway.pool.handler': name };
      return tracing.tracer.span({ name: 'pool.task', attributes }, () => result);
    } catch (error) {
      return rejectSoon(error);
    }
  }

  /**
   * Runs a handler that gives many results. The worker is never more than a few chunks ahead of the
   * reader, and stops when the reader does, or reads nothing for `streamIdleMsMax`.
   */
  stream<Name extends StreamName<Module>>(
    name: Name,
    input: InputOf<Module[Name]>,
    options: PoolRunOptions = {},
  ): AsyncIterableIterator<ChunkOf<Module[Name]>> & AsyncDisposable {
    const dispatcher = this.#dispatcher;
    return new PoolStream(dispatcher, this.#settings, (chunk) =>
      dispatcher.submit(name, input, options, chunk),
    );
  }

  /**
   * Gives all workers a new snapshot, and its version. Tasks sent from now on see it; a task that
   * runs keeps the one it began with. Shared memory inside is shared, all else is copied.
   */
  publish(value: StateOf<Module>): number {
    return this.#workers.publish(value);
  }

  /** Begins no tasks until `resume` or `close`. Running tasks go on; deadlines still count. */
  pause(): void {
    this.#dispatcher.pause();
  }

  /** Undoes `pause`. */
  resume(): void {
    this.#dispatcher.resume();
  }

  /** Refuses every task that has not begun, with `CLEARED`. */
  clear(): void {
    this.#dispatcher.clear();
  }

  /**
   * Changes the number of workers, from 1 to 1,024. New ones start at once, and take tasks as soon
   * as they are warm; surplus ones finish what they have begun, and end. Tasks of one affinity stay
   * in order, but may go to another worker from now on.
   */
  resize(workers: number): void {
    checkInteger('Pool.resize: workers', workers, 1, workersMax);
    this.#dispatcher.resize(workers);
  }

  /**
   * Replaces the worker of this index, or all in turn: a new one is warm before the old one, which
   * finishes what it has begun, leaves.
   */
  recycle(index?: number | undefined): void {
    this.#workers.recycle(index);
  }

  /** Takes no more tasks, finishes those it has, then lets the workers tear down and end. */
  close(options: CloseOptions = {}): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
