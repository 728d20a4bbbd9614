import { Ring } from '../wait/ring.ts';
import { batchStep, type TaskMessage } from './messages.ts';
import type { PoolSettings } from './options.ts';
import { ResultReader } from './results.ts';
import { slotCount, slotOf, TaskSlots, ticketOf } from './slots.ts';
import type { PoolTask } from './task.ts';
import type { Thread } from './threads.ts';
import { postError, uncopyable, unpackError } from './wire-error.ts';

/**
 * Milliseconds of expected work that may wait in a busy worker. The next task is then there when
 * one ends, which saves a wake-up of about 100 us, and the worker does not run dry while this
 * thread waits for a core: with 2 ms, tasks of 1 ms were 4 % slower (2026-11).
 */
const prefetchMsMax = 5;

/** `starting` until it is warm; `retiring` finishes what it has begun; `gone` has ended. */
export type WorkerState = 'starting' | 'ready' | 'retiring' | 'gone';

export interface WorkerStats {
  /** The worker's place in the pool, from 0; its replacement gets the same. */
  readonly index: number;
  readonly state: WorkerState;
  /** Milliseconds since it was started. */
  readonly ageMs: number;
  /** Tasks it has done. */
  readonly tasks: number;
  /** Tasks it has now, begun or not. */
  readonly waiting: number;
  /** The share of its life that it was busy, from 0 to 1. */
  readonly utilisation: number;
  /** Bytes in use by its heap and buffers, as it last measured. */
  readonly heapBytes: number;
  /** The oldest snapshot version that it still reads; older than the pool's while tasks do. */
  readonly version: number;
}

/** The receiver of a worker's news. */
export interface WorkerEvents {
  /** A task has a result, an error or a chunk; `undefined` when results are in shared memory. */
  message(worker: Worker, message: TaskMessage): void;
  /** The worker's state has changed. */
  changed(worker: Worker): void;
}

/** One thread of a pool, and the tasks that were sent to it. */
export class Worker {
  readonly index: number;
  readonly slots: TaskSlots = new TaskSlots();
  /** The tasks sent to it, oldest first. */
  readonly tasks: Ring<PoolTask> = new Ring<PoolTask>();
  state: WorkerState = 'starting';
  readyAt: number = Infinity;
  done = 0;
  /** The reason why its thread ended, if it was not asked to. */
  error: unknown = undefined;
  handlers: readonly string[] = [];
  /** True once it is no longer needed: another has its index, or the pool has become smaller. */
  isDismissed = false;
  /** True once its replacement was requested. */
  isDue = false;
  readonly #settings: PoolSettings;
  readonly thread: Thread;
  readonly #startedAt: number;
  readonly #events: WorkerEvents;
  readonly results: ResultReader = new ResultReader();
  readonly #bySlot: (PoolTask | undefined)[] = new Array(slotCount).fill(undefined);
  readonly #freeSlots: number[] = Array.from({ length: slotCount }, (_, slot) => slot);
  #batch: unknown[] = [];
  #transfers: ArrayBuffer[] = [];
  #stamp = 0;
  /** The expected time of all its tasks together. */
  #expectedMs = 0;
  /** Ends a thread whose setup or teardown takes too long. */
  #timer: Disposable | undefined;
  #isClosing = false;

  constructor(
    settings: PoolSettings,
    start: { readonly index: number; readonly version: number; readonly value: unknown },
    events: WorkerEvents,
  ) {
    const { module, concurrency, workerData, clock } = settings;
    const { index, version, value } = start;
    const slots = this.slots.buffer;
    const results = this.results.buffer;
    this.index = index;
    this.#settings = settings;
    this.#startedAt = clock.now();
    this.#events = events;
    this.thread = settings.threads(
      { module: module.href, concurrency, slots, results, workerData, version, value },
      {
        message: (message) => {
          if (message === undefined || !('type' in message)) events.message(this, message);
          else if (message.type === 'ready') this.#begin(message.handlers);
          else if (message.type === 'failed') this.error = unpackError(message.error);
          else events.message(this, message);
        },
        exit: (error) => this.#end(error),
      },
      settings,
    );
    this.#limit('setup');
  }

  get stats(): WorkerStats {
    return {
      index: this.index,
      state: this.state,
      ageMs: this.#settings.clock.now() - this.#startedAt,
      tasks: this.done,
      waiting: this.tasks.size,
      utilisation: this.thread.utilisation,
      heapBytes: this.slots.heapBytes,
      version: this.slots.version,
    };
  }

  get inside(): number {
    return Math.min(this.tasks.size, this.#settings.concurrency);
  }

  /** Tasks that were sent ahead: it cannot begin them yet. */
  get prefetched(): number {
    return this.tasks.size - this.inside;
  }

  /** True when it could begin another task at once. */
  get isIdle(): boolean {
    return this.tasks.size < this.#settings.concurrency;
  }

  /** True when tasks that were given up, and do not stop, take all its places. */
  get isStuck(): boolean {
    return [...this.tasks].filter((task) => task.isOver).length >= this.#settings.concurrency;
  }

  /** True when it has tasks that no other worker may run. */
  get hasBound(): boolean {
    return [...this.tasks].some((task) => task.affinity !== undefined);
  }

  /** True when it is idle, or busy with so little that the task would hardly wait. */
  hasRoom(task: PoolTask): boolean {
    const { size } = this.tasks;
    const { concurrency } = this.#settings;
    if (this.state !== 'ready' || size >= slotCount) return false;
    if (size < concurrency) return true;
    // One task may always wait here, if it can be taken back as soon as another worker is idle.
    if (task.isMovable && size === concurrency) return true;
    const { expectedMs = Infinity } = task.handler;
    return this.#expectedMs + expectedMs <= prefetchMsMax;
  }

  /** Takes the task; it goes out with the next {@link flush}. */
  assign(task: PoolTask): void {
    const slot = this.#freeSlots.pop() as number;
    this.#stamp += 1;
    task.ticket = ticketOf(this.#stamp, slot);
    task.worker = this;
    task.expectedMs = task.handler.expectedMs ?? 0;
    this.#expectedMs += task.expectedMs;
    this.#bySlot[slot] = task;
    this.tasks.push(task);
    this.slots.offer(task.ticket);
    this.#batch.push(task.ticket, task.handler.number, task.chunk !== undefined, task.input);
    for (const buffer of task.transfer) this.#transfers.push(buffer);
  }

  /**
   * Sends all that was assigned in one message; a task that cannot be sent is refused alone. True
   * if a result may have to wait for the end of another task.
   */
  flush(refuse: (task: PoolTask, error: unknown) => void): boolean {
    if (this.#batch.length === 0) return false;
    const batch = this.#batch;
    const transfers = this.#transfers;
    this.#batch = [];
    this.#transfers = [];
    try {
      this.thread.post(batch, transfers);
    } catch {
      for (let at = 0; at < batch.length; at += batchStep) {
        const task = this.taskOf(batch[at] as number);
        if (task !== undefined) this.#sendAlone(task, batch.slice(at, at + batchStep), refuse);
      }
    }
    return this.tasks.size > 1;
  }

  #sendAlone(
    task: PoolTask,
    batch: readonly unknown[],
    refuse: (task: PoolTask, error: unknown) => void,
  ): void {
    try {
      this.thread.post(batch, task.transfer);
    } catch (cause) {
      // Copying runs getters of the input, and those may even have cancelled the task.
      if (task.worker === this && this.takeBack(task)) {
        refuse(task, uncopyable('input', task.input, cause));
      }
    }
  }

  /** Reads the results in shared memory. */
  readResults(ended: (task: PoolTask, result: unknown, durationMs: number) => void): void {
    this.results.read((slot, result, durationMs) => {
      const task = this.#bySlot[slot];
      if (task !== undefined) ended(task, result, durationMs);
    });
  }

  /** The task that a message is about; undefined when it is no longer here. */
  taskOf(ticket: number): PoolTask | undefined {
    const task = this.#bySlot[slotOf(ticket)];
    return task?.ticket === ticket ? task : undefined;
  }

  finish(task: PoolTask): void {
    this.done += 1;
    this.#remove(task);
  }

  #remove(task: PoolTask): void {
    const slot = slotOf(task.ticket);
    this.tasks.remove(task);
    this.#bySlot[slot] = undefined;
    this.#freeSlots.push(slot);
    this.#expectedMs = this.tasks.size === 0 ? 0 : this.#expectedMs - task.expectedMs;
    task.worker = undefined;
    if (this.state === 'retiring') this.#closeWhenDone();
  }

  /** Takes back a task that has not begun; false when it has. */
  takeBack(task: PoolTask): boolean {
    if (!this.slots.revoke(task.ticket)) return false;
    this.#remove(task);
    return true;
  }

  /** Takes back up to so many tasks that have not begun and that `may`, newest first. */
  takeBackMany(count: number, may: (task: PoolTask) => boolean): PoolTask[] {
    const taken: PoolTask[] = [];
    for (const task of [...this.tasks].reverse()) {
      if (taken.length === count) break;
      if (may(task) && this.takeBack(task)) taken.push(task);
    }
    return taken;
  }

  abort({ ticket }: PoolTask, reason: unknown): void {
    this.slots.abort(ticket);
    postError(reason, (error) => this.thread.post({ type: 'abort', ticket, reason: error }, []));
  }

  credit({ ticket }: PoolTask, chunks: number): void {
    this.thread.post({ type: 'credit', ticket, chunks }, []);
  }

  /** Lets a worker that is no longer needed retire. */
  dismiss(): void {
    this.isDismissed = true;
    this.retire();
  }

  /** Takes no more tasks, finishes those it has begun, and ends. */
  retire(): void {
    if (this.state !== 'ready') return;
    this.state = 'retiring';
    this.#events.changed(this);
    this.#closeWhenDone();
  }

  #begin(handlers: readonly string[]): void {
    this.handlers = handlers;
    this.#timer?.[Symbol.dispose]();
    this.readyAt = this.#settings.clock.now();
    this.state = 'ready';
    this.#events.changed(this);
  }

  #closeWhenDone(): void {
    if (this.tasks.size > 0 || this.#isClosing) return;
    this.#isClosing = true;
    this.thread.post({ type: 'close' }, []);
    this.#limit('teardown');
  }

  #end(error: unknown): void {
    if (this.state === 'gone') return;
    this.state = 'gone';
    this.error ??= error;
    this.#timer?.[Symbol.dispose]();
    this.#events.changed(this);
  }

  #limit(step: 'setup' | 'teardown'): void {
    const { startMsMax } = this.#settings;
    this.#timer = this.#settings.clock.after(startMsMax, () => {
      this.error ??= new Error(`its ${step} took more than ${startMsMax} ms`);
      this.thread.terminate();
    });
  }
}
