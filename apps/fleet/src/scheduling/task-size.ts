import { gameDuration } from '../statistics/time-control.ts';

export interface TaskSizeOptions {
  readonly timeControl: string;
  readonly threads: number;
  readonly concurrency: number;
  /** Pairs between two updates of a sequential test, if it is one. */
  readonly batchSize?: number | undefined;
}

const taskSeconds = 1800;

/** Games that keep a worker busy for half an hour, in whole batches. */
export function taskSize(options: TaskSizeOptions): number {
  const { timeControl, threads, concurrency, batchSize } = options;
  const games = (taskSeconds / gameDuration(timeControl)) * Math.floor(concurrency / threads);
  const batch = 2 * (batchSize ?? 1);
  return Math.max(batch, batch * Math.floor(games / batch + 0.5));
}
