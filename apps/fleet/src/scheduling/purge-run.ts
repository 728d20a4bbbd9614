import {
  type BadWorkerLimits,
  crashResidual,
  residualColor,
  residuals,
  worstWorker,
} from '../statistics/residuals.ts';
import { updateSprt } from '../statistics/sprt.ts';
import type { Changes } from './changes.ts';
import type { BadTaskMark, Run } from './run.ts';
import { crashOrTime } from './stats.ts';
import type { Task } from './task.ts';
import type { World } from './world.ts';

/** When a run ends by itself, only what is surely bad goes. */
export const autoPurgeLimits: BadWorkerLimits = { p: 0.001, residual: 7 };

/** When a person asks for it. */
export const manualPurgeLimits: BadWorkerLimits = { p: 0.01, residual: 4.5 };

const ageMsMax = 30 * 24 * 60 * 60 * 1000;

/** Sets aside the results of one bad worker, or of all tasks that went wrong; or says why not. */
export function purgeRun(
  world: World,
  run: Run,
  limits: BadWorkerLimits,
  changes: Changes,
): string | undefined {
  const { record } = run;
  if (!record.finished) return 'the run is not finished';
  if (world.clock.now() - record.start_time > ageMsMax) return 'the run is too old';
  if (record.failed) return 'the run has failed';
  const bad = badTasks(run, limits);
  if (bad.size === 0) return 'no bad workers';
  world.settle(changes, run);
  for (const [task, mark] of bad) {
    changes.purged.push(run.purgeTask(task, mark));
    changes.tasks.add(task);
  }
  changes.runs.add(run);
  if (run.args.sprt !== undefined) updateSprt(run.args.sprt, record.results);
  if (run.decided) run.paint();
  else revive(world, run, changes);
  return undefined;
}

/** Lets a finished run go on. */
export function revive(world: World, run: Run, changes: Changes): void {
  // What is stored of a run that goes on must not look as if its old tasks did.
  world.settle(changes, run);
  const { record } = run;
  record.finished = false;
  record.deleted = false;
  record.failed = false;
  run.paint();
  world.place(run);
}

function badTasks(run: Run, limits: BadWorkerLimits): Map<Task, BadTaskMark> {
  const bad = new Map<Task, BadTaskMark>();
  const good = run.tasks.filter((task) => task.record.bad !== true);
  for (const task of good) {
    if (!crashOrTime(task.record.stats)) continue;
    bad.set(task, { residual: crashResidual, residual_color: 'red' });
  }
  if (bad.size > 0) return bad;
  const key = (task: Task) => task.record.worker_info.unique_key;
  const pairs = (task: Task) => task.record.stats.pentanomial;
  const found = residuals(good.map((task) => ({ key: key(task), pentanomial: pairs(task) })));
  const worst = worstWorker(found, limits);
  if (worst === undefined) return bad;
  const residual = found.byKey.get(worst) as number;
  const mark = { residual, residual_color: residualColor(residual, found) };
  for (const task of good) if (key(task) === worst) bad.set(task, mark);
  return bad;
}
