import { internalThroughput } from './hand-out.ts';
import { Changes, logMessage, taskAction, wrongSums } from './records.ts';
import type { Run } from './run.ts';
import { noteTrouble } from './update-task.ts';
import type { World } from './world.ts';

const silentMsMax = 360_000;
const deadTasksMax = 1000;

/**
 * Ends tasks that were not heard of for six minutes, at most a thousand a call: a call that ended
 * as many should be followed by another, after others had their turn.
 */
export function endDeadTasks(world: World): { readonly changes: Changes; readonly more: boolean } {
  const changes = new Changes();
  const now = world.clock.now();
  let ended = 0;
  for (const task of world.active) {
    if (now - task.record.last_updated <= silentMsMax) break;
    if (ended === deadTasksMax) return { changes, more: true };
    ended += 1;
    if (!task.active) {
      // It ended with its run, and its turn to be closed comes.
      world.active.delete(task);
      continue;
    }
    noteTrouble(world, task, changes);
    changes.actions.push(taskAction('dead_task', task, now));
    world.end(task, changes);
  }
  return { changes, more: false };
}

/** Shares cores out anew among unfinished runs. */
export function shareThroughput(world: World): Changes {
  const changes = new Changes();
  const activeRuns = new Map<string, number>();
  for (const { record, args } of world.unfinished) {
    if (record.workers === 0) continue;
    activeRuns.set(args.username, (activeRuns.get(args.username) ?? 0) + 1);
  }
  for (const run of world.unfinished) {
    const itp = throughputOf(run, activeRuns.get(run.args.username) ?? 0);
    if (itp === run.args.itp) continue;
    run.args.itp = itp;
    changes.runs.add(run);
  }
  return changes;
}

/** A run's internal throughput while its submitter has so many runs with workers. */
export function throughputOf(run: Run, activeRuns: number): number {
  const { throughput, tc: timeControl, threads, sprt } = run.args;
  const options = { throughput, timeControl, threads, activeRuns, games: run.games, sprt };
  return internalThroughput(options);
}

/** Writes down how fast each unfinished run is played. */
export function measureSpeed(world: World): Changes {
  const changes = new Changes();
  for (const run of world.unfinished) {
    const { nps, gamesPerMinute, record } = run;
    if (record.nps === nps && record.games_per_minute === gamesPerMinute) continue;
    record.nps = nps;
    record.games_per_minute = gamesPerMinute;
    changes.runs.add(run);
  }
  return changes;
}

/** Counts one unfinished run's tasks, picked by chance, and tells if its sums are wrong. */
export function audit(world: World): Changes {
  const changes = new Changes();
  const at = Math.floor(world.random() * world.unfinished.size);
  const run = world.unfinished.values().drop(at).next().value;
  const wrong = run === undefined ? [] : wrongSums(run);
  if (run === undefined || wrong.length === 0) return changes;
  changes.actions.push(logMessage(world.clock.now(), `Run ${run.id}: ${wrong.join('; ')}`));
  return changes;
}
