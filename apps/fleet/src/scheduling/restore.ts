import { updateSprt } from '../statistics/sprt.ts';
import { logMessage } from './actions.ts';
import { Changes } from './changes.ts';
import { recount, wrongSums } from './recount.ts';
import type { Run } from './run.ts';
import { stopRun } from './stop-run.ts';
import type { Task } from './task.ts';
import type { BlockedWorker, World } from './world.ts';

export interface StoredWorld {
  /** All unfinished runs, with all their tasks; finished ones may be left out. */
  readonly runs: Iterable<Run>;
  /** By short name; none if absent. */
  readonly blocked?: Iterable<readonly [string, BlockedWorker]> | undefined;
}

/**
 * Takes up stored runs after a start: corrects sums, lists active tasks, ends what was decided.
 * An active task counts as heard of now, because nobody listened while the server was down.
 */
export function restore(world: World, { runs, blocked = [] }: StoredWorld): Changes {
  const changes = new Changes();
  for (const [name, worker] of blocked) world.blocked.set(name, { ...worker });
  const now = world.clock.now();
  const tasks: Task[] = [];
  for (const run of runs) {
    world.place(run);
    if (run.record.finished) continue;
    correct(run, now, changes);
    for (const task of run.tasks) tasks.push(task);
  }
  tasks.sort((a, b) => a.record.last_updated - b.record.last_updated);
  for (const task of tasks) world.noteLastRun(task.name, task.run);
  for (const task of tasks) if (task.active) resume(world, task, now, changes);
  for (const run of [...world.unfinished]) if (run.decided) stopRun(world, run, changes);
  return changes;
}

function correct(run: Run, now: number, changes: Changes): void {
  const wrong = wrongSums(run);
  if (wrong.length === 0) return;
  Object.assign(run.record, recount(run));
  if (run.args.sprt !== undefined) updateSprt(run.args.sprt, run.record.results);
  changes.runs.add(run);
  changes.actions.push(logMessage(now, `Run ${run.id} corrected: ${wrong.join('; ')}`));
}

/** Of two active tasks under one name, which a crash can leave, the newer one stays. */
function resume(world: World, task: Task, now: number, changes: Changes): void {
  const older = world.activeTask(task.name);
  task.record.last_updated = now;
  world.admit(task);
  if (older !== undefined) world.end(older, changes);
}
