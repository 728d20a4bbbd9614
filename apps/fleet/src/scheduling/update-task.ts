import type { SpsaResults } from '../protocol/read-request.ts';
import type { WorkerInfo } from '../protocol/worker-info.ts';
import { updateSprt } from '../statistics/sprt.ts';
import { updateSpsa } from '../statistics/spsa.ts';
import { flipsSignature } from '../statistics/spsa-flips.ts';
import { runAction, taskAction } from './actions.ts';
import { Changes, type Decision } from './changes.ts';
import { finishedText } from './finished-text.ts';
import type { Run } from './run.ts';
import { crashOrTime, crashOrTimeText, gamesOf, type Stats } from './stats.ts';
import { stopRun } from './stop-run.ts';
import type { Task } from './task.ts';
import type { World } from './world.ts';

export interface TaskUpdate {
  readonly info: WorkerInfo;
  /** All that the task has played so far. */
  readonly stats: Stats;
  /** The batch just played, in a tuning. */
  readonly spsa?: SpsaResults | undefined;
}

/** Whether the worker shall go on; `error` makes it give the task up. */
export interface Alive {
  readonly task_alive: boolean;
  readonly info?: string;
  readonly error?: string;
}

/** Takes in a worker's results, and decides whether they end the task or the run. */
export function updateTask(world: World, task: Task, update: TaskUpdate): Decision<Alive> {
  const changes = new Changes();
  if (!task.active) return { reply: notActive(task), changes };
  const { run } = task;
  const played = gamesOf(update.stats) - task.games;
  const error = updateFault(run, update, played);
  if (error !== undefined) {
    world.end(task, changes);
    return { reply: { task_alive: false, error }, changes };
  }
  take(world, task, update);
  changes.tasks.add(task);
  changes.runs.add(run);
  if (run.args.spsa !== undefined && played === update.spsa?.num_games) tune(task, update.spsa);
  if (task.games >= task.record.num_games) complete(world, task, changes);
  run.record.last_updated = world.clock.now();
  if (run.args.sprt !== undefined) updateSprt(run.args.sprt, run.record.results);
  if (run.decided) finish(world, run, changes);
  return { reply: { task_alive: task.active }, changes };
}

/** What is told about a task that has ended, whoever ended it. */
export function notActive(task: Task): Alive {
  const info = `Task ${task.run.id}/${task.id} is not active`;
  return { task_alive: false, info };
}

/** What makes new totals impossible to follow from the old ones. */
function updateFault(run: Run, { stats, spsa }: TaskUpdate, played: number): string | undefined {
  const batch = run.batchGames;
  if (played < 0) return `${-played} games fewer than before`;
  if ((spsa?.num_games ?? 0) > 0 && played <= 0) return 'SPSA games, but no more games than before';
  if (played % 2 !== 0) return `an odd number of new games: ${played}`;
  if (run.args.sprt !== undefined && gamesOf(stats) % batch !== 0) {
    return `the number of games, ${gamesOf(stats)}, is not a multiple of ${batch}`;
  }
  return undefined;
}

function take(world: World, task: Task, { info, stats }: TaskUpdate): void {
  const { remote_addr, country_code } = task.record.worker_info;
  task.run.setStats(task, stats, { ...info, remote_addr, country_code });
  task.record.last_updated = world.clock.now();
  world.active.touch(task);
}

/** Flips are used once, and only by games that were played with them. */
function tune(task: Task, results: SpsaResults): void {
  const { spsa } = task.run.args;
  const { spsa_params: asked } = task.record;
  if (spsa === undefined || asked === undefined) return;
  delete task.record.spsa_params;
  const packedFlips = Uint8Array.from(asked.packed_flips);
  if (flipsSignature(packedFlips) !== results.sig) return;
  const { wins, losses, num_games } = results;
  updateSpsa(spsa, { iter: asked.iter, packedFlips, wins, losses, num_games });
}

function complete(world: World, task: Task, changes: Changes): void {
  world.end(task, changes);
  const { stats } = task.record;
  if (!crashOrTime(stats)) return;
  const text = crashOrTimeText(stats);
  changes.actions.push(taskAction('crash_or_time', task, world.clock.now(), text));
}

function finish(world: World, run: Run, changes: Changes): void {
  stopRun(world, run, changes);
  // An automatic purge may have given the run games to play again.
  if (!run.record.finished) return;
  const { username } = run.args;
  const text = finishedText(run);
  changes.actions.push(runAction('finished_run', run, username, world.clock.now(), text));
}
