import { checkNumber } from '../base/check.ts';
import { PoolCore } from './core.ts';
import type { ChunkOf, InputOf, OutputOf, RunName, StateOf, StreamName } from './module.ts';
import { type PoolOptions, type PoolStats, poolSettings } from './options.ts';
import { PoolStream } from './stream.ts';
import { checkPoolRunOptions, type PoolRunOptions, type PoolTask } from './task.ts';

export interface PoolCloseOptions {
  /** How long tasks may still take, in milliseconds; what is left then is ended. @default 10000 */
  readonly withinMs?: number | undefined;
}

const plainOptions: PoolRunOptions = {};

/**
 * Worker threads behind a bounded queue with a deadline. Each worker has private resources, all
 * read the same snapshot: `await using pool = await Pool.open<typeof import('../w.ts')>({ … });`
 */
export class Pool<Module> implements AsyncDisposable {
  readonly #core: PoolCore;

  /** Starts all workers and waits until each is warm; rejects with `POOL_START` if one fails. */
  static async open<Module>(options: PoolOptions): Promise<Pool<Module>> {
    const core = new PoolCore(poolSettings(options));
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
    options: PoolRunOptions = plainOptions,
  ): Promise<OutputOf<Module[Name]>> {
    if (options !== plainOptions) checkPoolRunOptions(options);
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
    options: PoolRunOptions = plainOptions,
  ): AsyncIterableIterator<ChunkOf<Module[Name]>> & AsyncDisposable {
    const core = this.#core;
    checkPoolRunOptions(options);
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
