import type { PoolTask } from './task.ts';
import type { Worker } from './worker.ts';

type Serving = readonly (Worker | undefined)[];

/** The worker with room for the task that has the fewest tasks, so that all have equally many. */
export function leastBusy(workers: Serving, task: PoolTask): Worker | undefined {
  let best: Worker | undefined;
  for (const worker of workers) {
    if (worker === undefined || (best !== undefined && worker.tasks.size >= best.tasks.size))
      continue;
    if (worker.hasRoom(task)) best = worker;
  }
  return best;
}

/** Work stealing: idle workers take what waits in busy ones, so none waits behind a long task. */
export function steal(workers: Serving): void {
  for (const idle of workers) {
    if (idle?.state === 'ready' && idle.isIdle) stealFor(idle, workers);
  }
}

function stealFor(idle: Worker, workers: Serving): void {
  // A worker that has tasks takes only those that a busy worker cannot begin yet. A worker without
  // any also takes those that it could begin, all but one: its thread may be blocked by that one.
  const isEmpty = idle.tasks.size === 0;
  const left = isEmpty ? 1 : 0;
  const surplusOf = (worker: Worker) => (isEmpty ? worker.tasks.size : worker.prefetched) - left;
  const busy = workers.filter(
    (worker) => worker !== undefined && surplusOf(worker) > 0,
  ) as Worker[];
  for (const worker of busy.sort((a, b) => surplusOf(b) - surplusOf(a))) {
    const count = Math.ceil(surplusOf(worker) / 2);
    const taken = worker.takeBackMany(count, (task) => task.isMovable);
    for (const task of taken.reverse()) idle.assign(task);
    if (taken.length > 0) return;
  }
}
