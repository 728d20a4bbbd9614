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
/** Tasks and workers of ended runs that are dealt with in one turn: a millisecond's worth. */
const settleMax = 256;

/** What an ended run leaves behind. */
interface Leaving {
  readonly run: Run;
  readonly tasks: Set<Task>;
  readonly names: Iterator<string>;
  /** When it ended. */
  readonly at: number;
}

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
  readonly #lastRun = new Map<string, { readonly run: Run; readonly life: number }>();
  readonly #leaving: Leaving[] = [];
  readonly blocked: Map<string, BlockedWorker> = new Map();

  constructor({ clock, random, finishedMax = 1000 }: WorldOptions) {
    this.clock = clock;
    this.random = random;
    this.#finishedMax = finishedMax;
  }

  /** The run that a worker had its latest task of, if that has not ended since. */
  lastRun(name: string): Run | undefined {
    const last = this.#lastRun.get(name);
    return last?.life === last?.run.life ? last?.run : undefined;
  }

  noteLastRun(name: string, run: Run): void {
    this.#lastRun.set(name, { run, life: run.life });
  }

  /** The active task of the worker with this short name. */
  activeTask(name: string): Task | undefined {
    const task = this.taskByName.get(name);
    return task?.active ? task : undefined;
  }

  /** Active tasks at an address. */
  connections(address: string): number {
    let sum = 0;
    for (const run of this.unfinished) sum += run.connections(address);
    return sum;
  }

  /** Whether tasks of ended runs are still to be closed. */
  get isUnsettled(): boolean {
    return this.#leaving.length > 0;
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
      this.#use(run);
      if (this.#finished.size > this.#finishedMax) this.#forget(this.#finished.oldest as Run);
    } else {
      this.#finished.remove(run);
      this.unfinished.add(run);
    }
  }

  /** Lists an active task under all that it is looked for by. */
  admit(task: Task): void {
    this.active.touch(task);
    this.taskByName.set(task.name, task);
    this.noteLastRun(task.name, task.run);
  }

  /** Ends a task, if it is active. */
  end(task: Task, changes: Changes): void {
    if (!task.active) return;
    task.run.endTask(task, this.clock.now());
    this.#unlist(task);
    changes.tasks.add(task);
    changes.runs.add(task.run);
  }

  /**
   * Ends all tasks of a run at once. Nobody sees them active any more; what remains to be done for
   * each, and may be much, is done by {@link settle}.
   */
  endAll(run: Run, changes: Changes): void {
    const tasks = run.endAllTasks();
    this.#leaving.push({ run, tasks, names: run.seenBy.values(), at: this.clock.now() });
    changes.runs.add(run);
    this.settle(changes);
  }

  /** Closes some tasks of ended runs, and forgets some of their workers; or all of one run's. */
  settle(changes: Changes, only?: Run): void {
    let left = only === undefined ? settleMax : Infinity;
    for (const leaving of [...this.#leaving]) {
      if (only !== undefined && leaving.run !== only) continue;
      left = this.#settle(leaving, changes, left);
      if (left <= 0) return;
      this.#leaving.splice(this.#leaving.indexOf(leaving), 1);
    }
  }

  /** Gives how many more may be settled in this turn. */
  #settle({ tasks, names, at }: Leaving, changes: Changes, max: number): number {
    let left = max;
    for (const task of tasks) {
      if (left <= 0) return 0;
      left -= 1;
      tasks.delete(task);
      task.close(at);
      this.#unlist(task);
      changes.tasks.add(task);
    }
    for (let name = names.next(); !name.done; name = names.next()) {
      if (this.lastRun(name.value) === undefined) this.#lastRun.delete(name.value);
      left -= 1;
      if (left <= 0) return 0;
    }
    return left;
  }

  #unlist(task: Task): void {
    this.active.remove(task);
    if (this.taskByName.get(task.name) === task) this.taskByName.delete(task.name);
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
}
