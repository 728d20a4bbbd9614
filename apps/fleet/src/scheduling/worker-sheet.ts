import type { WorkerPairs } from '../statistics/residuals.ts';
import { crashOrTime, type Stats } from './stats.ts';
import type { Task } from './task.ts';

interface Row extends WorkerPairs {
  readonly pentanomial: number[];
  readonly tasks: Task[];
}

/** A run's results by worker, kept as they come in, so that nobody has to look at all tasks. */
export class WorkerSheet {
  readonly #rows = new Map<string, Row>();
  readonly #troubled = new Set<Task>();

  /** Tasks with so many crashes or time losses that their games should not count. */
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

  /** A task's results are replaced by these. */
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
