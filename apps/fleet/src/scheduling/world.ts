import type { Clock, Random } from 'spillway';
import { fleetError } from '../errors.ts';
import type { WorkerInfo } from '../protocol/worker-info.ts';
import type { Changes } from './changes.ts';
import { Recency } from './recency.ts';
import type { Run } from './run.ts';
import type { Task } from './task.ts';

export interface WorldOptions {
  /** Its `now` is UNIX time in milliseconds. */
  readonly clock: Pick<Clock, 'now'>;
  readonly random: Random;
  /** How many finished runs stay in memory: an integer from 1; 1000 if absent. */
  readonly finishedMax?: number | undefined;
}

/** How a request names a task. */
export interface Named {
  readonly run_id?: string;
  readonly task_id?: number;
  readonly worker_info: Pick<WorkerInfo, 'unique_key' | 'username'>;
}

const idleMsMax = 300_000;

/** A worker that may not play, by its short name. */
export interface BlockedWorker {
  readonly message: string;
  last_updated: number;
}

/** Runs and tasks, found by whatever a request names; no look-up costs more with more tasks. */
export class World {
  readonly clock: Pick<Clock, 'now'>;
  readonly random: Random;
  readonly #finishedMax: number;
  readonly #runs = new Map<string, Run>();
  readonly #finished = new Recency<Run>();
  readonly unfinished: Set<Run> = new Set();
  /** Active tasks, the longest silent first. */
  readonly active: Recency<Task> = new Recency();
  /** The latest task of each worker, by short name, while it is active. */
  readonly taskByName: Map<string, Task> = new Map();
  /** Active tasks by address. */
  readonly connections: Map<string, number> = new Map();
  /** The run that a worker had its latest task of, while that is unfinished. */
  readonly lastRun: Map<string, Run> = new Map();
  readonly blocked: Map<string, BlockedWorker> = new Map();

  constructor({ clock, random, finishedMax = 1000 }: WorldOptions) {
    this.clock = clock;
    this.random = random;
    this.#finishedMax = finishedMax;
  }

  run(id: string): Run | undefined {
    const run = this.#runs.get(id.toLowerCase());
    if (run?.record.finished) this.#use(run);
    return run;
  }

  /** The task that a request names, if it belongs to who asks; throws `REQUEST_INVALID`. */
  find({ run_id, task_id, worker_info }: Named): Task | undefined {
    if (run_id === undefined) return undefined;
    const run = this.run(run_id);
    if (run === undefined) throw fleetError('REQUEST_INVALID', `Invalid run_id: ${run_id}`);
    if (task_id === undefined) return undefined;
    const task = run.tasks[task_id];
    if (task === undefined) throw fleetError('REQUEST_INVALID', `Invalid task_id: ${task_id}`);
    for (const key of ['unique_key', 'username'] as const) {
      if (worker_info[key] === task.record.worker_info[key]) continue;
      throw fleetError('REQUEST_INVALID', `Invalid ${key} for task ${run_id}/${task_id}`);
    }
    return task;
  }

  /** Puts a run in its place, when it is new and whenever it finished or began again. */
  place(run: Run): void {
    this.#runs.set(run.id, run);
    if (run.record.finished) {
      this.unfinished.delete(run);
      this.#forgetWorkers(run);
      this.#use(run);
      if (this.#finished.size > this.#finishedMax) this.#forget(this.#finished.oldest as Run);
    } else {
      this.#finished.remove(run);
      this.unfinished.add(run);
      for (const task of run.tasks) run.seenBy.add(task.name);
    }
  }

  /** Lists an active task under all that it is looked for by. */
  admit(task: Task): void {
    const address = task.record.worker_info.remote_addr;
    this.active.touch(task);
    this.taskByName.set(task.name, task);
    this.connections.set(address, (this.connections.get(address) ?? 0) + 1);
    task.run.seenBy.add(task.name);
    this.lastRun.set(task.name, task.run);
  }

  /** Ends a task, if it is active. */
  end(task: Task, changes: Changes): void {
    if (!task.active) return;
    task.run.endTask(task, this.clock.now());
    this.active.remove(task);
    if (this.taskByName.get(task.name) === task) this.taskByName.delete(task.name);
    const address = task.record.worker_info.remote_addr;
    const left = (this.connections.get(address) ?? 1) - 1;
    if (left > 0) this.connections.set(address, left);
    else this.connections.delete(address);
    changes.tasks.add(task);
    changes.runs.add(task.run);
  }

  /** Lets go of finished runs that nobody asked for in a while. */
  forgetIdle(): void {
    const usedSince = this.clock.now() - idleMsMax;
    for (let run = this.#finished.oldest; run !== undefined; run = this.#finished.oldest) {
      if (run.usedAt >= usedSince) break;
      this.#forget(run);
    }
  }

  #use(run: Run): void {
    run.usedAt = this.clock.now();
    this.#finished.touch(run);
  }

  #forget(run: Run): void {
    this.#finished.remove(run);
    this.#runs.delete(run.id);
  }

  #forgetWorkers(run: Run): void {
    for (const name of run.seenBy) if (this.lastRun.get(name) === run) this.lastRun.delete(name);
    run.seenBy.clear();
  }
}
