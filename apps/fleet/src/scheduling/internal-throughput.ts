import { timeControlRatio } from '../statistics/time-control.ts';

export interface InternalThroughputOptions {
  /** What the submitter asked for: 100 is usual. */
  readonly throughput: number;
  readonly timeControl: string;
  readonly threads: number;
  /** The submitter's unfinished runs that have workers. */
  readonly activeRuns: number;
  readonly games: number;
  readonly sprt?: { readonly llr: number; readonly elo0: number } | undefined;
}

/** A run's share of the cores, relative to others of its priority. */
export function internalThroughput(options: InternalThroughputOptions): number {
  const { throughput, timeControl, threads, activeRuns, games, sprt } = options;
  const ratio = timeControlRatio(timeControl, threads);
  const asked = Math.min(Math.max(throughput, 1), 500);
  const forLongGames = ratio > 1 ? ratio ** 0.774 : 1;
  const forManyRuns = 36 / (36 + activeRuns ** 2);
  const nearlyPassed = sprt !== undefined && sprt.llr > 2;
  const forSuccess = nearlyPassed ? (sprt.elo0 > 0 ? 0.2 : 0.1) : 0;
  const bonus = Math.min(games / 200_000, 1) + forSuccess;
  return asked * forLongGames * forManyRuns * (1 + bonus);
}
