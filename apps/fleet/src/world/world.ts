import type { Clock, Random } from 'spillway';
import { fleetError } from '../errors.ts';
import type { WorkerInfo } from '../protocol/read-request.ts';
import type { WorkerPairs } from '../statistics/run-statistics.ts';
import { EmptyTasks } from './empty-tasks.ts';
import type { Changes, Stats, TaskRecord } from './records.ts';
import type { Run, Task } from './run.ts';

/** Reference to a task in a request. */
export interface TaskRef {
  readonly run_id?: string;
  readonly task_id?: number;
  readonly worker_info: Pick<WorkerInfo, 'unique_key' | 'username'>;
}

const idleMsMax = 300_000;
/** Most finished runs in memory. */
const finishedMax = 1_000;
/** Tasks and workers of ended runs that are settled in one turn: about a millisecond of work. */
const settleMax = 256;

/** An ended run with the tasks and workers that are not settled yet. */
interface EndingRun {
  readonly run: Run;
  readonly tasks: Set<Task>;
  readonly names: Iterator<string>;
  /** Time at which it ended. */
  readonly at: number;
}

/** A worker that gets no tasks. */
export interface BlockedWorker {
  readonly message: string;
  last_updated: number;
}

/**
 * All runs and workers in memory, with indexes for everything that a request names, so that no
 * look-up takes longer with more tasks. A decision is a function of the world and an input: it
 * changes the world and lists the changed records, which are stored before the reply is sent.
 */
export class World {
  /** Its `now` is UNIX time in milliseconds. */
  readonly clock: Pick<Clock, 'now'>;
  readonly random: Random;
  readonly #runs = new Map<string, Run>();
  /** Finished runs in memory, the longest unused first. */
  readonly #finished = new Set<Run>();
  readonly unfinished: Set<Run> = new Set();
  /** Active tasks, the one with the oldest message first. */
  readonly active: Set<Task> = new Set();
  /** The latest task of each worker, by short name, while it is active. */
  readonly taskByName: Map<string, Task> = new Map();
  readonly #lastRun = new Map<string, { readonly run: Run; readonly life: number }>();
  readonly #leaving: EndingRun[] = [];
  readonly blocked: Map<string, BlockedWorker> = new Map();
  /** Tasks that ended one by one; those that end with their run are not their worker's fault. */
  readonly emptyTasks: EmptyTasks = new EmptyTasks();

  constructor({ clock, random }: Pick<World, 'clock' | 'random'>) {
    this.clock = clock;
    this.random = random;
  }

  get stats() {
    let activeTasks = 0;
    for (const run of this.unfinished) activeTasks += run.activeTasks.size;
    const { unfinished, blocked } = this;
    return { unfinishedRuns: unfinished.size, activeTasks, blockedWorkers: blocked.size };
  }

  /** The run of a worker's latest task, unless the run has ended since. */
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

  /** True while tasks of ended runs have to be closed. */
  get isUnsettled(): boolean {
    return this.#leaving.length > 0;
  }

  run(id: string): Run | undefined {
    const run = this.#runs.get(id.toLowerCase());
    if (run?.record.finished) this.#use(run);
    return run;
  }

  /**
   * The task that a request names; throws `REQUEST_REFUSED` if it is not the worker's. A finished
   * run may have to be recalled into memory first.
   */
  find(request: Required<TaskRef>): Task;
  find(request: TaskRef): Task | undefined;
  find({ run_id, task_id, worker_info }: TaskRef): Task | undefined {
    if (run_id === undefined) return undefined;
    const run = this.run(run_id);
    if (run === undefined) throw fleetError('REQUEST_REFUSED', `Invalid run_id: ${run_id}`);
    if (task_id === undefined) return undefined;
    const task = run.tasks[task_id];
    if (task === undefined) throw fleetError('REQUEST_REFUSED', `Invalid task_id: ${task_id}`);
    demandOwner({ run_id, task_id, worker_info }, task.record);
    return task;
  }

  /** Lists a run as unfinished or finished: when it is new, ends or goes on. */
  place(run: Run): void {
    this.#runs.set(run.id, run);
    if (run.record.finished) {
      this.unfinished.delete(run);
      this.#use(run);
      const [oldest] = this.#finished;
      if (this.#finished.size > finishedMax) this.#forget(oldest as Run);
    } else {
      this.#finished.delete(run);
      this.unfinished.add(run);
    }
  }

  /** Moves a task that sent a message to the end of the active ones. */
  touch(task: Task): void {
    this.active.delete(task);
    this.active.add(task);
  }

  /** Adds a stored, finished run; gives the run in memory if there is one. */
  recall(run: Run): Run {
    const known = this.run(run.id);
    if (known !== undefined) return known;
    this.place(run);
    return run;
  }

  /** Adds an active task to all indexes. */
  admit(task: Task): void {
    this.touch(task);
    this.taskByName.set(task.name, task);
    this.noteLastRun(task.name, task.run);
  }

  /** Ends a task, if it is active. */
  end(task: Task, changes: Changes): void {
    if (!task.active) return;
    const now = this.clock.now();
    if (task.games === 0) this.emptyTasks.add(task.record.worker_info, now);
    task.run.endTask(task, now);
    this.#unlist(task);
    changes.tasks.add(task);
    changes.runs.add(task.run);
  }

  /**
   * Ends all tasks of a run at once: from now on they count as inactive. Each of them is closed by
   * {@link settle}, which may take many turns.
   */
  endAll(run: Run, changes: Changes): void {
    const tasks = run.endAllTasks();
    this.#leaving.push({ run, tasks, names: run.seenBy.values(), at: this.clock.now() });
    changes.runs.add(run);
    this.settle(changes);
  }

  /** Closes some tasks of ended runs and forgets some of their workers; or all of one run. */
  settle(changes: Changes, only?: Run): void {
    let left = only === undefined ? settleMax : Infinity;
    for (const leaving of [...this.#leaving]) {
      if (only !== undefined && leaving.run !== only) continue;
      left = this.#settle(leaving, changes, left);
      if (left <= 0) return;
      this.#leaving.splice(this.#leaving.indexOf(leaving), 1);
    }
  }

  /** Gives the number that may still be settled in this turn. */
  #settle({ tasks, names, at }: EndingRun, changes: Changes, max: number): number {
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
    this.active.delete(task);
    if (this.taskByName.get(task.name) === task) this.taskByName.delete(task.name);
  }

  /** Drops finished runs that nobody asked for recently from memory. */
  forgetIdle(): void {
    const usedSince = this.clock.now() - idleMsMax;
    for (const run of this.#finished) {
      if (run.usedAt >= usedSince) break;
      this.#forget(run);
    }
  }

  #use(run: Run): void {
    run.usedAt = this.clock.now();
    this.#finished.delete(run);
    this.#finished.add(run);
  }

  #forget(run: Run): void {
    this.#finished.delete(run);
    this.#runs.delete(run.id);
  }
}

/** Throws `REQUEST_REFUSED` for the task of another worker. */
export function demandOwner(
  { run_id, task_id, worker_info }: TaskRef,
  { worker_info: owner }: Pick<TaskRecord, 'worker_info'>,
): void {
  for (const key of ['unique_key', 'username'] as const) {
    if (worker_info[key] === owner[key]) continue;
    throw fleetError('REQUEST_REFUSED', `Invalid ${key} for task ${run_id}/${task_id}`);
  }
}

interface Row extends WorkerPairs {
  readonly pentanomial: number[];
  readonly tasks: Task[];
}

/** Running totals of a run by worker, so that nothing has to look at all tasks. */
export class WorkerTotals {
  readonly #rows = new Map<string, Row>();
  readonly #troubled = new Set<Task>();

  /** Tasks with too many crashes or time losses for their games to count. */
  get troubled(): ReadonlySet<Task> {
    return this.#troubled;
  }

  /** Pairs by the key of each worker. */
  get rows(): Iterable<WorkerPairs> {
    return this.#rows.values();
  }

  /** All tasks of a worker that were not set aside. */
  tasksOf(key: string): Task[] {
    return this.#rows.get(key)?.tasks.filter(({ record }) => record.bad !== true) ?? [];
  }

  append(task: Task): void {
    const { stats, worker_info } = task.record;
    const { unique_key: key } = worker_info;
    const row = this.#rows.get(key) ?? { key, pentanomial: [0, 0, 0, 0, 0], tasks: [] };
    this.#rows.set(key, row);
    row.tasks.push(task);
    this.#add(row, stats, 1);
    this.#judge(task, stats);
  }

  /** Replaces the results of a task. */
  replace(task: Task, stats: Stats): void {
    const row = this.#rows.get(task.record.worker_info.unique_key) as Row;
    this.#add(row, task.record.stats, -1);
    this.#add(row, stats, 1);
    this.#judge(task, stats);
  }

  #judge(task: Task, stats: Stats): void {
    if (crashOrTime(stats)) this.#troubled.add(task);
    else this.#troubled.delete(task);
  }

  #add({ pentanomial }: Row, stats: Stats, sign: 1 | -1): void {
    for (let at = 0; at < pentanomial.length; at += 1) {
      const sum = (pentanomial[at] as number) + sign * (stats.pentanomial[at] as number);
      pentanomial[at] = sum;
    }
  }
}

export function zeroStats(): Stats {
  const pentanomial = [0, 0, 0, 0, 0];
  return { wins: 0, losses: 0, draws: 0, crashes: 0, time_losses: 0, pentanomial };
}

export function gamesOf({ wins, losses, draws }: Pick<Stats, 'wins' | 'losses' | 'draws'>): number {
  return wins + losses + draws;
}

/** Adds the difference of two results to a sum. */
export function addDifference(sum: Stats, after: Readonly<Stats>, before: Readonly<Stats>): void {
  sum.wins += after.wins - before.wins;
  sum.losses += after.losses - before.losses;
  sum.draws += after.draws - before.draws;
  sum.crashes += after.crashes - before.crashes;
  sum.time_losses += after.time_losses - before.time_losses;
  for (let at = 0; at < sum.pentanomial.length; at += 1) {
    const more = (after.pentanomial[at] as number) - (before.pentanomial[at] as number);
    sum.pentanomial[at] = (sum.pentanomial[at] as number) + more;
  }
}

/** True if a task has too many crashes or time losses for its games to count. */
export function crashOrTime(stats: Stats): boolean {
  const games = gamesOf(stats);
  return stats.crashes > 3 || (games > 20 && stats.time_losses / games > 0.1);
}

/** `Time losses:3(13.6%) Crashes:0(0.0%)` */
export function crashOrTimeText(stats: Stats): string {
  const games = Math.max(1, gamesOf(stats));
  const counted = (count: number) => `${count}(${((100 * count) / games).toFixed(1)}%)`;
  return `Time losses:${counted(stats.time_losses)} Crashes:${counted(stats.crashes)}`;
}
