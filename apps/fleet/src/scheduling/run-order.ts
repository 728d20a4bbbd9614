import { remainingHours } from '../statistics/waiting-time.ts';
import type { Run } from './run.ts';

/** Runs with workers as people see them: those nearest to a decision first. */
export function byProgress(a: Run, b: Run): number {
  const keys = ({ args, games }: Run) => [
    Number(args.sprt !== undefined),
    args.sprt?.llr ?? 0,
    Number(args.spsa === undefined),
    games,
  ];
  return compare(keys(b), keys(a));
}

/** Runs that wait for an approval. */
export function byUrgency(a: Run, b: Run): number {
  const keys = ({ args }: Run) => [args.priority, args.itp];
  return compare(keys(a), keys(b));
}

/** Hours until all these runs are over, if no other comes; infinite without workers. */
export function hoursLeft(runs: Iterable<Run>): number {
  let hours = 0;
  let cores = 0;
  for (const { args, games, record } of runs) {
    const { tc: timeControl, threads, num_games: numGames, sprt } = args;
    hours += remainingHours({ timeControl, threads, numGames, games, sprt });
    cores += record.cores;
  }
  return hours === 0 ? 0 : hours / cores;
}

function compare(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((value, index) => value !== b[index]);
  return at < 0 ? 0 : (a[at] as number) - (b[at] as number);
}
