import { misuse } from '../base/check.ts';
import { Ring } from '../wait/ring.ts';
import type { Snapshot, View } from './snapshot.ts';
import type { PoolTask } from './task.ts';
import type { Thread } from './thread-start.ts';
import { postError, SharedSlots, slotCount, slotOf, ticketOf } from './wire.ts';

/**
 * How much work, by what is known of it, may wait in a busy worker: enough that the next tasks are
 * there when one ends, which saves a wake-up of about 100 us for each, and that a worker does not
 * run dry while this thread waits for a core: with 2 ms, tasks of 1 ms were 4 % slower (2026-11).
 */
const prefetchMsMax = 5;

/** `starting` until it is warm; `retiring` finishes what it has begun; `gone` has ended. */
export type WorkerState = 'starting' | 'ready' | 'retiring' | 'gone';

export interface WorkerStats {
  /** The worker's place in the pool; its replacement gets the same. */
  readonly seat: number;
  readonly state: WorkerState;
  /** Milliseconds since it was started. */
  readonly ageMs: number;
  /** How many tasks it has done. */
  readonly tasks: number;
  /** Tasks it has now, begun or not. */
  readonly waiting: number;
  /** The share of its life that it was busy, from 0 to 1. */
  readonly utilisation: number;
  /** Bytes in use by its heap and buffers, as it last measured. */
  readonly heapBytes: number;
}

/** One worker of a pool, seen from the pool. */
export class PoolMember {
  readonly seat: number;
  readonly slots: SharedSlots = new SharedSlots();
  readonly dispatched: Ring<PoolTask> = new Ring<PoolTask>();
  readonly startedAt: number;
  state: WorkerState = 'starting';
  readyAt: number = Infinity;
  tasks = 0;
  /** Its replacement has taken its seat: when it ends, nothing is lost. */
  isReplaced = false;
  /** Goes off if its setup, and later its teardown, takes too long. */
  timer: Disposable | undefined = undefined;
  readonly #thread: Thread;
  readonly #concurrency: number;
  readonly #bySlot: (PoolTask | undefined)[] = new Array(slotCount).fill(undefined);
  readonly #freeSlots: number[] = Array.from({ length: slotCount }, (_, slot) => slot);
  readonly #views = new Map<number, View<unknown>>();
  #outbox: unknown[] = [];
  #transfers: ArrayBuffer[] = [];
  #stamp = 0;
  /** How long the tasks here will take together, by what is known of them. */
  #expectedMs = 0;

  constructor(options: {
    readonly seat: number;
    readonly concurrency: number;
    readonly now: number;
    readonly snapshot: Snapshot<unknown>;
    readonly spawn: (buffer: SharedArrayBuffer, member: PoolMember) => Thread;
  }) {
    this.seat = options.seat;
    this.startedAt = options.now;
    this.#concurrency = options.concurrency;
    this.#thread = options.spawn(this.slots.buffer, this);
    const view = options.snapshot.acquire();
    this.#views.set(view.version, view);
    this.#thread.post({ type: 'start', version: view.version, value: view.value }, []);
  }

  get utilisation(): number {
    return this.#thread.utilisation;
  }

  /** How many of its tasks have begun, or are about to. */
  get inside(): number {
    return Math.min(this.dispatched.size, this.#concurrency);
  }

  /** How many of its tasks wait behind those. */
  get prefetched(): number {
    return this.dispatched.size - this.inside;
  }

  /** Whether it could begin another task at once. */
  get isIdle(): boolean {
    return this.dispatched.size < this.#concurrency;
  }

  /** Whether it has tasks that no other worker may run. */
  get hasBound(): boolean {
    for (const task of this.dispatched) if (task.seat !== undefined) return true;
    return false;
  }

  /** Sends a snapshot that all tasks sent from now on will see. */
  publish(value: unknown, version: number): void {
    this.#thread.post({ type: 'snapshot', version, value }, []);
  }

  hold(view: View<unknown>): void {
    this.#views.set(view.version, view);
  }

  released(version: number): void {
    this.#views.get(version)?.[Symbol.dispose]();
    this.#views.delete(version);
  }

  /** Whether it is idle, or busy with so little that the task would hardly wait. */
  hasRoom(task: PoolTask): boolean {
    const { size } = this.dispatched;
    if (this.state !== 'ready' || size >= slotCount) return false;
    if (size < this.#concurrency) return true;
    if (!task.isPortable) return false;
    // One task may always wait here, since it is taken back as soon as another worker is idle.
    if (task.seat === undefined && size === this.#concurrency) return true;
    const { expectedMs = Infinity } = task.handler;
    return this.#expectedMs + expectedMs <= prefetchMsMax;
  }

  /** Takes the task; it goes out with the next {@link flush}. */
  assign(task: PoolTask): void {
    const slot = this.#freeSlots.pop() as number;
    this.#stamp += 1;
    task.ticket = ticketOf(this.#stamp, slot);
    task.member = this;
    task.expectedMs = task.handler.expectedMs ?? 0;
    this.#expectedMs += task.expectedMs;
    this.#bySlot[slot] = task;
    this.dispatched.push(task);
    this.slots.offer(task.ticket);
    this.#outbox.push(task.ticket, task.number, task.input);
    if (task.transfer === undefined) return;
    this.#transfers.push(...task.transfer);
    if (this.dispatched.size > this.#concurrency) task.keepSpare();
  }

  /**
   * Sends all that was assigned in one message; what cannot be sent is refused by itself. True when
   * the worker then has more than it can begin with.
   */
  flush(refused: (task: PoolTask, error: unknown) => void): boolean {
    if (this.#outbox.length === 0) return false;
    const batch = this.#outbox;
    const transfers = this.#transfers;
    this.#outbox = [];
    this.#transfers = [];
    try {
      this.#thread.post(batch, transfers);
    } catch {
      for (let at = 0; at < batch.length; at += 3) {
        const task = this.taskAt(slotOf(batch[at] as number));
        if (task === undefined || task.ticket !== batch[at]) continue;
        try {
          this.#thread.post(batch.slice(at, at + 3), task.transfer ?? []);
        } catch (cause) {
          this.remove(task);
          refused(task, misuse('input', 'a value that can be copied', task.input, cause));
        }
      }
    }
    return this.prefetched > 0;
  }

  taskAt(slot: number): PoolTask | undefined {
    return this.#bySlot[slot];
  }

  /** The task is no longer here: it has ended, or was taken back. */
  remove(task: PoolTask): void {
    const slot = slotOf(task.ticket);
    this.dispatched.remove(task);
    this.#bySlot[slot] = undefined;
    this.#freeSlots.push(slot);
    this.#expectedMs = this.dispatched.size === 0 ? 0 : this.#expectedMs - task.expectedMs;
    task.member = undefined;
  }

  /** Takes back a task that has not begun; false when it has. */
  takeBack(task: PoolTask): boolean {
    if (!this.slots.revoke(task.ticket)) return false;
    this.remove(task);
    return true;
  }

  /** Takes back, newest first, up to so many of those that may and that have not begun. */
  revoke(count: number, may: (task: PoolTask) => boolean): PoolTask[] {
    const taken: PoolTask[] = [];
    for (const task of [...this.dispatched].reverse()) {
      if (taken.length === count) break;
      if (may(task) && this.takeBack(task)) taken.push(task);
    }
    return taken;
  }

  abort(task: PoolTask, reason: unknown): void {
    this.slots.abort(task.ticket);
    const { ticket } = task;
    postError(reason, (error) => this.#thread.post({ type: 'abort', ticket, reason: error }, []));
  }

  credit(task: PoolTask, chunks: number): void {
    this.#thread.post({ type: 'credit', ticket: task.ticket, chunks }, []);
  }

  close(): void {
    this.#thread.post({ type: 'close' }, []);
  }

  terminate(): void {
    this.#thread.terminate();
  }

  /** Lets go of what it held, once the thread has ended. */
  end(): void {
    this.state = 'gone';
    this.timer?.[Symbol.dispose]();
    for (const view of this.#views.values()) view[Symbol.dispose]();
    this.#views.clear();
  }
}
