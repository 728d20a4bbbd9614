import { FairQueue, hashOf } from '../wait/fair-queue.ts';
import { Ring } from '../wait/ring.ts';
import type { PoolTask } from './task.ts';

/** The tasks that no worker has yet: those for any worker, and for each seat those bound to it. */
export class PoolQueue {
  readonly #seed: number;
  readonly #free: FairQueue<PoolTask>;
  readonly #bound: readonly Ring<PoolTask>[];

  constructor(seats: number, seed: number) {
    this.#seed = seed;
    this.#free = new FairQueue<PoolTask>(seed);
    this.#bound = Array.from({ length: seats }, () => new Ring<PoolTask>());
  }

  /** The seat whose worker runs all tasks of this affinity. */
  seatOf(affinity: string): number {
    return hashOf(affinity, this.#seed) % this.#bound.length;
  }

  push(task: PoolTask, comesBack = false): void {
    const list = task.seat === undefined ? undefined : this.#bound[task.seat];
    if (list === undefined) this.#free.push(task, comesBack);
    else if (comesBack) list.unshift(task);
    else list.push(task);
  }

  remove(task: PoolTask): boolean {
    const list = task.seat === undefined ? this.#free : this.#bound[task.seat];
    return list?.remove(task) ?? false;
  }

  /** Who has to go when the newcomer is one too many. */
  surplus(newcomer: PoolTask): PoolTask {
    return newcomer.seat === undefined ? (this.#free.surplus(newcomer) ?? newcomer) : newcomer;
  }

  /** The next for any worker; it is taken out by `take`. */
  next(): PoolTask | undefined {
    return this.#free.next();
  }

  take(task: PoolTask): void {
    this.#free.take(task);
  }

  /** Those bound to the seat, in order. */
  boundTo(seat: number): Ring<PoolTask> | undefined {
    return this.#bound[seat];
  }

  *[Symbol.iterator](): Generator<PoolTask> {
    yield* this.#free;
    for (const list of this.#bound) yield* list;
  }
}
