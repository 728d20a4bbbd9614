import { FairQueue, hashOf } from '../wait/fair-queue.ts';
import { Ring } from '../wait/ring.ts';
import type { PoolTask } from './task.ts';

/** The tasks that no worker has yet: those for any worker, and those bound to one by affinity. */
export class TaskQueue {
  readonly #seed: number;
  readonly #free: FairQueue<PoolTask>;
  readonly #bound: readonly Ring<PoolTask>[];

  constructor(workers: number, seed: number) {
    this.#seed = seed;
    this.#free = new FairQueue<PoolTask>(seed);
    this.#bound = Array.from({ length: workers }, () => new Ring<PoolTask>());
  }

  /** The index of the worker that runs all tasks of this affinity. */
  indexOf(affinity: string): number {
    return hashOf(affinity, this.#seed) % this.#bound.length;
  }

  push(task: PoolTask): void {
    if (task.index === undefined) this.#free.push(task);
    else this.#bound[task.index]?.push(task);
  }

  /** Puts a task that was taken back before all others of its kind. */
  putBack(task: PoolTask): void {
    if (task.index === undefined) this.#free.push(task, true);
    else this.#bound[task.index]?.unshift(task);
  }

  remove(task: PoolTask): boolean {
    const list = task.index === undefined ? this.#free : this.#bound[task.index];
    return list?.remove(task) ?? false;
  }

  /** The task that has to go when the newcomer is one too many. */
  surplus(newcomer: PoolTask): PoolTask {
    return newcomer.index === undefined ? (this.#free.surplus(newcomer) ?? newcomer) : newcomer;
  }

  /** The next task for any worker; `take` takes it out. */
  next(): PoolTask | undefined {
    return this.#free.next();
  }

  take(task: PoolTask): void {
    this.#free.take(task);
  }

  /** The next task bound to this worker; `remove` takes it out. */
  nextBoundTo(index: number): PoolTask | undefined {
    return this.#bound[index]?.first;
  }

  *[Symbol.iterator](): Generator<PoolTask> {
    yield* this.#free;
    for (const list of this.#bound) yield* list;
  }
}
