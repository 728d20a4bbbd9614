import type { WorkerInfo } from '../protocol/worker-info.ts';
import { memoryNeed } from './memory-need.ts';
import type { Run } from './run.ts';

/** Cores above which more workers would make a tuning worse, for one parameter. */
const tuningCores = 200_000;

/** The worker that asks, and what is remembered of it. */
export interface Candidate {
  readonly name: string;
  readonly info: WorkerInfo;
  readonly lastRun: Run | undefined;
}

/**
 * The run that needs this worker most, of those it can serve. Runs are few; each is looked at once,
 * and whether the worker fits is asked only of a run that would be the best so far.
 */
export function chooseRun(runs: Iterable<Run>, candidate: Candidate): Run | undefined {
  let best: Run | undefined;
  let least: Need | undefined;
  for (const run of runs) {
    const its = need(run, candidate);
    if (least !== undefined && !comesBefore(its, least)) continue;
    if (!fits(run, candidate)) continue;
    best = run;
    least = its;
  }
  return best;
}

interface Need {
  readonly priority: number;
  readonly served: boolean;
  /** Cores per share of throughput, as if half this worker had joined. */
  readonly load: number;
}

/** A worker's own last run counts its cores again, so that workers move between runs. */
function need(run: Run, { info, lastRun }: Candidate): Need {
  const { priority, itp } = run.args;
  const cores = run.record.cores + (run === lastRun ? info.concurrency : 0);
  return { priority, served: cores > 0, load: (cores + info.concurrency / 2) / itp };
}

function comesBefore(a: Need, b: Need): boolean {
  if (a.priority !== b.priority) return a.priority > b.priority;
  if (a.served !== b.served) return b.served;
  return a.load < b.load;
}

/** Whether a worker may and can play games of this run now. */
export function fits(run: Run, { name, info }: Pick<Candidate, 'name' | 'info'>): boolean {
  const { args, record } = run;
  const { concurrency } = info;
  return (
    !record.finished &&
    record.approved &&
    args.threads <= concurrency &&
    args.threads >= info.min_threads &&
    run.openGames > 0 &&
    memoryNeed({ hashMiB: run.hashMiB, concurrency, threads: args.threads }) <= info.max_memory &&
    (!info.near_github_api_limit || run.seenBy.has(name)) &&
    (args.spsa === undefined || record.cores <= tuningCores / Math.sqrt(args.spsa.params.length)) &&
    (run.archFilter.accepted?.has(info.worker_arch) ?? true) &&
    (args.compiler === undefined || args.compiler === info.compiler)
  );
}
