import { FairQueue, hashOf } from '../wait/fair-queue.ts';
import { Ring } from '../wait/ring.ts';
import type { PoolTask } from './task.ts';

const ringsFor = (workers: number) => Array.from({ length: workers }, () => new Ring<PoolTask>());

/** The tasks that no worker has yet: those for any worker, and those bound to one by affinity. */
export class TaskQueue {
  readonly #seed: number;
  readonly #free: FairQueue<PoolTask>;
  #bound: readonly Ring<PoolTask>[];

  constructor(workers: number, seed: number) {
    this.#seed = seed;
    this.#free = new FairQueue<PoolTask>(seed);
    this.#bound = ringsFor(workers);
  }

  /** Changes the number of workers: bound tasks move to their new ones, oldest first. */
  resize(workers: number): void {
    const tasks = this.#bound.flatMap((list) => [...list]);
    for (const task of tasks) this.remove(task);
    this.#bound = ringsFor(workers);
    for (const task of tasks.sort((a, b) => a.arrivedAt - b.arrivedAt)) this.push(task);
  }

  push(task: PoolTask): void {
    if (task.affinity === undefined) this.#free.push(task);
    else this.#listOf(task.affinity)?.push(task);
  }

  /** Puts a task that was taken back before all others of its kind. */
  putBack(task: PoolTask): void {
    if (task.affinity === undefined) this.#free.push(task, true);
    else this.#listOf(task.affinity)?.unshift(task);
  }

  remove(task: PoolTask): boolean {
    if (task.affinity === undefined) return this.#free.remove(task);
    return this.#bound.some((list) => list.remove(task));
  }

  /** The tasks of the worker that runs all of this affinity. */
  #listOf(affinity: string): Ring<PoolTask> | undefined {
    return this.#bound[hashOf(affinity, this.#seed) % this.#bound.length];
  }

  /** The task that has to go when the newcomer is one too many. */
  surplus(newcomer: PoolTask): PoolTask {
    return newcomer.affinity === undefined ? (this.#free.surplus(newcomer) ?? newcomer) : newcomer;
  }

  /** The next task for any worker; `take` takes it out. */
  next(): PoolTask | undefined {
    return this.#free.next();
  }

  take(task: PoolTask): void {
    this.#free.take(task);
  }

  get hasBound(): boolean {
    return this.#bound.some(({ size }) => size > 0);
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
