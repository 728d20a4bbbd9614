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
    const record = run.purgeTask(task, mark);
    changes.purged.push({ run, id: run.badTasks.length - 1, record });
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

function badTasks({ sheet }: Run, limits: BadWorkerLimits): Map<Task, BadTaskMark> {
  const crashed: BadTaskMark = { residual: crashResidual, residual_color: 'red' };
  if (sheet.troubled.size > 0) return marked(sheet.troubled, crashed);
  const found = residuals(sheet.rows);
  const worst = worstWorker(found, limits);
  if (worst === undefined) return new Map();
  const residual = found.byKey.get(worst) as number;
  const residual_color = residualColor(residual, found);
  return marked(sheet.tasksOf(worst), { residual, residual_color });
}

function marked(tasks: Iterable<Task>, mark: BadTaskMark): Map<Task, BadTaskMark> {
  return new Map(Iterator.from(tasks).map((task) => [task, mark] as const));
}
