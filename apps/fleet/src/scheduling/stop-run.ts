import { runAction, systemUser } from './actions.ts';
import type { Changes } from './changes.ts';
import { autoPurgeLimits, purgeRun } from './purge-run.ts';
import type { Run } from './run.ts';
import type { World } from './world.ts';

/** Ends a run and all its tasks; a bad worker's games may make it begin again at once. */
export function stopRun(world: World, run: Run, changes: Changes): void {
  endRun(world, run, changes);
  if (!run.args.auto_purge || run.args.spsa !== undefined) return;
  const reason = purgeRun(world, run, autoPurgeLimits, changes);
  const text = reason === undefined ? 'Auto purge' : `Auto purge (not performed): ${reason}`;
  changes.actions.push(runAction('purge_run', run, systemUser, world.clock.now(), text));
}

/** Ends a run and all its tasks for good. */
export function endRun(world: World, run: Run, changes: Changes): void {
  world.endAll(run, changes);
  const { record } = run;
  record.finished = true;
  record.nps = 0;
  record.games_per_minute = 0;
  run.paint();
  world.place(run);
}
