import type { SpillwayError } from 'spillway';
import { fleetError } from '../errors.ts';
import type { SpsaResults, WorkerInfo } from '../protocol/read-request.ts';
import {
  type BadWorkerLimits,
  crashResidual,
  residualColor,
  residuals,
  worstWorker,
} from '../statistics/run-statistics.ts';
import { updateSprt } from '../statistics/sprt.ts';
import { type Flip, flipsSignature, packFlips, spsaTrial, updateSpsa } from '../statistics/spsa.ts';
import { Changes, type Decision, runAction, type Stats, taskAction } from './records.ts';
import { type BadTaskMark, finishedText, type Run, type Task } from './run.ts';
import { crashOrTime, crashOrTimeText, gamesOf, type World } from './world.ts';

export interface TaskUpdate {
  readonly info: WorkerInfo;
  /** All that the task has played so far. */
  readonly stats: Stats;
  /** The batch just played, in a tuning. */
  readonly spsa?: SpsaResults | undefined;
}

/** Tells a worker whether to go on; `error` makes it give the task up. */
export interface Alive {
  readonly task_alive: boolean;
  readonly info?: string;
  readonly error?: string;
}

/** Adds a worker's results, and decides whether they end the task or the run. */
export function updateTask(world: World, task: Task, update: TaskUpdate): Decision<Alive> {
  const changes = new Changes();
  if (!task.active) return { reply: notActive(task), changes };
  const { run } = task;
  const played = gamesOf(update.stats) - task.games;
  const error = updateFault(task, update, played);
  if (error !== undefined) {
    world.end(task, changes);
    return { reply: { task_alive: false, error }, changes };
  }
  take(world, task, update);
  changes.tasks.add(task);
  changes.runs.add(run);
  if (run.args.spsa !== undefined && played === update.spsa?.num_games) tune(task, update.spsa);
  if (task.games >= task.record.num_games) {
    world.end(task, changes);
    noteTrouble(world, task, changes);
  }
  run.record.last_updated = world.clock.now();
  if (run.args.sprt !== undefined) updateSprt(run.args.sprt, run.record.results);
  if (run.decided) finish(world, run, changes);
  return { reply: { task_alive: task.active }, changes };
}

/** The reply about a task that has ended. */
export function notActive(task: Task): Alive {
  const info = `Task ${task.run.id}/${task.id} is not active`;
  return { task_alive: false, info };
}

/** Explains why new totals are impossible after the old ones; undefined if they are possible. */
function updateFault(task: Task, { stats, spsa }: TaskUpdate, played: number): string | undefined {
  const { run, record } = task;
  const batch = run.batchGames;
  const games = gamesOf(stats);
  if (played < 0) return `${-played} games fewer than before`;
  if ((spsa?.num_games ?? 0) > 0 && played <= 0) return 'SPSA games, but no more games than before';
  if (games > Math.ceil(record.num_games / batch) * batch) {
    return `${games} games, and the task has ${record.num_games}`;
  }
  if (played % 2 !== 0) return `an odd number of new games: ${played}`;
  if (run.args.sprt !== undefined && games % batch !== 0) {
    return `the number of games, ${games}, is not a multiple of ${batch}`;
  }
  return undefined;
}

function take(world: World, task: Task, { info, stats }: TaskUpdate): void {
  const { remote_addr, country_code } = task.record.worker_info;
  task.run.setStats(task, stats, { ...info, remote_addr, country_code });
  task.record.last_updated = world.clock.now();
  world.touch(task);
}

/** Each trial counts once, and only with results of games that were played with its flips. */
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

/** Parameters to play the next batch with, in random directions that the task remembers. */
export function requestSpsa(
  world: World,
  task: Task,
): Decision<Alive | (ReturnType<typeof spsaTrial> & { sig: number; task_alive: true })> {
  const changes = new Changes();
  const { spsa } = task.run.args;
  if (spsa === undefined) throw fleetError('REQUEST_REFUSED', `Not a tuning: ${task.run.id}`);
  if (!task.active) return { reply: notActive(task), changes };
  const flips = spsa.params.map((): Flip => (world.random() < 0.5 ? 1 : -1));
  const packed = packFlips(flips);
  task.record.spsa_params = { iter: spsa.iter, packed_flips: [...packed] };
  changes.tasks.add(task);
  const reply = {
    ...spsaTrial(spsa, flips),
    sig: flipsSignature(packed),
    task_alive: true,
  } as const;
  return { reply, changes };
}

/** Logs a task with so many crashes or time losses that its games should not count. */
export function noteTrouble(world: World, task: Task, changes: Changes): void {
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

/** CPU hours that a user's workers must have contributed before they can stop a run. */
const trustedHours = 1000;

/** A worker reports that the run is broken. A refusal is part of the reply, since it is logged. */
export function stopByWorker(
  world: World,
  task: Task,
  { message, cpuHours = -1 }: { readonly message: string; readonly cpuHours?: number | undefined },
): Decision<{ readonly refused?: SpillwayError }> {
  const changes = new Changes();
  const now = world.clock.now();
  const { run } = task;
  if (run.record.finished) {
    const refused = fleetError('STOP_REFUSED', `Run ${run.id} is already finished`);
    return { reply: { refused }, changes };
  }
  if (cpuHours < trustedHours) {
    const text = `${message} (not authorized)`;
    changes.actions.push(taskAction('stop_run', task, now, text));
    world.end(task, changes);
    const why = `User has too few games to stop a run: ${cpuHours} of ${trustedHours} CPU hours`;
    return { reply: { refused: fleetError('STOP_REFUSED', why) }, changes };
  }
  changes.actions.push(taskAction('stop_run', task, now, message));
  run.record.failed = true;
  run.record.failures += 1;
  stopRun(world, run, changes);
  return { reply: {}, changes };
}

/** Ends a run and all its tasks; an automatic purge may let it go on at once. */
export function stopRun(world: World, run: Run, changes: Changes): void {
  endRun(world, run, changes);
  if (!run.args.auto_purge || run.args.spsa !== undefined) return;
  const reason = purgeRun(world, run, autoPurgeLimits, changes);
  const text = reason === undefined ? 'Auto purge' : `Auto purge (not performed): ${reason}`;
  changes.actions.push(runAction('purge_run', run, run.args.username, world.clock.now(), text));
}

/** Ends a run and all its tasks without a purge. */
export function endRun(world: World, run: Run, changes: Changes): void {
  world.endAll(run, changes);
  const { record } = run;
  record.finished = true;
  record.nps = 0;
  record.games_per_minute = 0;
  run.setColours();
  world.place(run);
}

/** Limits of an automatic purge: only workers that are almost certainly bad. */
export const autoPurgeLimits: BadWorkerLimits = { p: 0.001, residual: 7 };

/** Limits for a purge that a person asks for. */
export const manualPurgeLimits: BadWorkerLimits = { p: 0.01, residual: 4.5 };

/** Age, in ms, up to which a run can be purged or modified. */
export const ageMsMax: number = 30 * 24 * 60 * 60 * 1000;

/** Sets aside the results of troubled tasks or of the worst worker; gives the reason if not. */
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
  if (run.decided) run.setColours();
  else revive(world, run, changes);
  return undefined;
}

/** Lets a finished run go on. */
export function revive(world: World, run: Run, changes: Changes): void {
  // Stored tasks of an unfinished run count as active if their records say so.
  world.settle(changes, run);
  const { record } = run;
  record.finished = false;
  record.deleted = false;
  record.failed = false;
  run.setColours();
  world.place(run);
}

function badTasks({ totals }: Run, limits: BadWorkerLimits): Map<Task, BadTaskMark> {
  const crashed: BadTaskMark = { residual: crashResidual, residual_color: 'red' };
  if (totals.troubled.size > 0) return marked(totals.troubled, crashed);
  const found = residuals(totals.rows);
  const worst = worstWorker(found, limits);
  if (worst === undefined) return new Map();
  const residual = found.byKey.get(worst) as number;
  const residual_color = residualColor(residual, found);
  return marked(totals.tasksOf(worst), { residual, residual_color });
}

function marked(tasks: Iterable<Task>, mark: BadTaskMark): Map<Task, BadTaskMark> {
  return new Map(Iterator.from(tasks).map((task) => [task, mark] as const));
}

/** Heartbeat of a worker. */
export function beat(world: World, task: Task): Decision<Alive> {
  const changes = new Changes();
  if (task.active) {
    task.record.last_updated = world.clock.now();
    world.touch(task);
    changes.beats.add(task);
  }
  return { reply: { task_alive: task.active }, changes };
}

/** A worker gives its task up. */
export function failTask(world: World, task: Task, message: string): Decision<Alive | object> {
  const changes = new Changes();
  if (!task.active) return { reply: notActive(task), changes };
  noteTrouble(world, task, changes);
  changes.actions.push(taskAction('failed_task', task, world.clock.now(), message));
  world.end(task, changes);
  return { reply: {}, changes };
}

/** Closes some tasks of ended runs; call it while the world is unsettled. */
export function settle(world: World): Changes {
  const changes = new Changes();
  world.settle(changes);
  return changes;
}
