import { SpillwayError } from '../base/errors.ts';
import { WaitQueue } from '../wait/wait-queue.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { PoolSettings } from './options.ts';
import type { PoolTask } from './task.ts';
import { streamWindow } from './thread/running-task.ts';

/** The chunks of one streaming task: the worker is at most a window ahead of the reader. */
export class PoolStream<T> implements AsyncIterableIterator<T> {
  readonly #dispatcher: Dispatcher;
  readonly #settings: PoolSettings;
  readonly #chunks: T[] = [];
  #task: PoolTask | undefined;
  /** Readers that wait for a chunk or the end; each looks again when woken. */
  readonly #readers = new WaitQueue();
  #isOver = false;
  #error: { readonly reason: unknown } | undefined;
  #taken = 0;
  /** The time since which there are chunks that nobody reads. */
  #idleSince = 0;
  #idleTimer: Disposable | undefined;

  constructor(
    dispatcher: Dispatcher,
    settings: PoolSettings,
    submit: (chunk: (value: unknown) => void) => PoolTask,
  ) {
    this.#dispatcher = dispatcher;
    this.#settings = settings;
    try {
      this.#task = submit(this.#take);
      this.#task.promise.then(
        () => this.#end(undefined),
        (reason) => this.#end({ reason }),
      );
    } catch (reason) {
      this.#end({ reason });
    }
  }

  readonly #take = (value: unknown): void => {
    if (this.#chunks.push(value as T) === 1) this.#idleSince = this.#settings.clock.now();
    this.#wake();
    if (this.#idleTimer === undefined) this.#watchReader();
  };

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    // A reader that aborts or is late is told at once; one whose task failed reads the rest first.
    if (this.#task?.isOver) this.#chunks.length = 0;
    while (this.#chunks.length === 0 && !this.#isOver) await this.#readers.wait();
    if (this.#chunks.length > 0) {
      this.#idleSince = this.#settings.clock.now();
      this.#giveCredit();
      return { done: false, value: this.#chunks.shift() as T };
    }
    const error = this.#error;
    this.#error = undefined;
    if (error !== undefined) throw error.reason;
    return { done: true, value: undefined };
  }

  /** Stops the task, as `break` in a `for await` does. */
  async return(): Promise<IteratorResult<T, undefined>> {
    this.#chunks.length = 0;
    const task = this.#isOver ? undefined : this.#task;
    this.#end(undefined);
    this.#error = undefined;
    if (task !== undefined) this.#dispatcher.end(task, new Error('the reader stopped'));
    return { done: true, value: undefined };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  #end(error: { readonly reason: unknown } | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#error = error;
    this.#idleTimer?.[Symbol.dispose]();
    this.#wake();
  }

  #wake(): void {
    while (this.#readers.size > 0) this.#readers.wake();
  }

  /** Ends a stream that its reader has forgotten: it would hold its worker for ever. */
  #watchReader(): void {
    const { clock, streamIdleMsMax } = this.#settings;
    const isIdle = this.#chunks.length > 0;
    const idleMs = isIdle ? clock.now() - this.#idleSince : 0;
    if (idleMs < streamIdleMsMax) {
      this.#idleTimer = clock.after(streamIdleMsMax - idleMs, () => this.#watchReader());
    } else if (this.#task !== undefined) {
      const message = `the stream was not read for ${streamIdleMsMax} ms`;
      this.#dispatcher.end(this.#task, new SpillwayError('DEADLINE', message), 'deadline');
    }
  }

  #giveCredit(): void {
    this.#taken += 1;
    if (this.#taken < streamWindow / 2 || this.#isOver) return;
    if (this.#task !== undefined) this.#task.worker?.credit(this.#task, this.#taken);
    this.#taken = 0;
  }
}
