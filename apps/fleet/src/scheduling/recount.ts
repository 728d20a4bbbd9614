import type { Run } from './run.ts';
import type { RunRecord } from './run-record.ts';
import { addDifference, zeroStats } from './stats.ts';

/** What a run's record says about its tasks. */
export type Sums = Pick<
  RunRecord,
  'results' | 'workers' | 'cores' | 'committed_games' | 'total_games'
>;

/** The sums as the tasks give them: looks at all tasks of the run. */
export function recount(run: Run): Sums {
  const nothing = zeroStats();
  const sums: Sums = {
    results: zeroStats(),
    workers: 0,
    cores: 0,
    committed_games: 0,
    total_games: 0,
  };
  for (const task of run.tasks) {
    const { num_games, stats, worker_info } = task.record;
    addDifference(sums.results, stats, nothing);
    sums.total_games += num_games;
    sums.committed_games += task.active ? num_games : task.games;
    if (!task.active) continue;
    sums.workers += 1;
    sums.cores += worker_info.concurrency;
  }
  return sums;
}

/** Which sums of the record are not what the tasks give; empty in a run that is in order. */
export function wrongSums(run: Run): string[] {
  return Object.entries(recount(run)).flatMap(([key, sum]) => {
    const kept = run.record[key as keyof Sums];
    const text = JSON.stringify(kept);
    return text === JSON.stringify(sum) ? [] : [`${key}: ${text}, not ${JSON.stringify(sum)}`];
  });
}
