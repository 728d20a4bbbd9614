import type { PoolTask } from './task.ts';
import { streamWindow } from './thread/task.ts';

/** The chunks of one streaming task: the worker is only so far ahead of the reader. */
export class PoolStream<T> implements AsyncIterableIterator<T> {
  readonly #chunks: T[] = [];
  readonly #start: (chunk: (value: unknown) => void) => PoolTask;
  readonly #stop: (task: PoolTask) => void;
  #task: PoolTask | undefined;
  /** Readers that wait for a chunk or the end; each looks again when woken. */
  #wakes: (() => void)[] = [];
  #isOver = false;
  #error: { readonly reason: unknown } | undefined;
  #taken = 0;

  constructor(
    start: (chunk: (value: unknown) => void) => PoolTask,
    stop: (task: PoolTask) => void,
  ) {
    this.#start = start;
    this.#stop = stop;
  }

  /** Starts the task. A stream that is never read waits with one window of chunks, no more. */
  open(): this {
    this.#task = this.#start((value) => {
      this.#chunks.push(value as T);
      this.#wake();
    });
    const task = this.#task;
    task.promise.then(
      () => this.#end(undefined),
      (reason) => this.#end({ reason }),
    );
    return this;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    // Who aborts or is late is told at once; what came before an error is still read.
    if (this.#task?.isOver) this.#chunks.length = 0;
    while (this.#chunks.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#wakes.push(resolve);
      });
    }
    if (this.#chunks.length > 0) {
      this.#giveCredit();
      return { done: false, value: this.#chunks.shift() as T };
    }
    const error = this.#error;
    this.#error = undefined;
    if (error !== undefined) throw error.reason;
    return { done: true, value: undefined };
  }

  /** Stops the task: what `break` in a `for await` does. */
  async return(): Promise<IteratorResult<T, undefined>> {
    this.#chunks.length = 0;
    if (this.#task !== undefined && !this.#isOver) {
      this.#stop(this.#task);
      this.#task.abandon();
    }
    this.#isOver = true;
    this.#error = undefined;
    this.#wake();
    return { done: true, value: undefined };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  #end(error: { readonly reason: unknown } | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#error = error;
    this.#wake();
  }

  #wake(): void {
    const wakes = this.#wakes;
    this.#wakes = [];
    for (const wake of wakes) wake();
  }

  #giveCredit(): void {
    this.#taken += 1;
    if (this.#taken < streamWindow / 2 || this.#isOver) return;
    if (this.#task !== undefined) this.#task.member?.credit(this.#task, this.#taken);
    this.#taken = 0;
  }
}
