import { fleetError } from '../errors.ts';
import type { WorkerInfo } from '../protocol/read-request.ts';
import { updateSprt } from '../statistics/sprt.ts';
import {
  blockAction,
  Changes,
  type Decision,
  logMessage,
  type RunArgs,
  type RunRecord,
  runAction,
  taskAction,
  workerLog,
} from './records.ts';
import { internalThroughput } from './request-task.ts';
import type { Run, Task } from './run.ts';
import {
  ageMsMax,
  endRun,
  manualPurgeLimits,
  noteTrouble,
  purgeRun,
  revive,
  stopRun,
} from './update-task.ts';
import { addDifference, type BlockedWorker, type World, zeroStats } from './world.ts';

/** Adds a submitted run. */
export function addRun(world: World, run: Run, message: string): Changes {
  const changes = new Changes();
  const now = world.clock.now();
  const { username } = run.args;
  const others = [...world.unfinished].filter((one) => one.args.username === username);
  const activeRuns = others.filter((one) => one.record.workers > 0).length;
  run.args.itp = internalThroughput(run.args, { games: run.games, activeRuns });
  world.place(run);
  changes.runs.add(run);
  changes.actions.push(runAction('new_run', run, username, now, message));
  const { problem } = run.archFilter;
  if (problem !== undefined) changes.actions.push(logMessage(now, problem));
  return changes;
}

/** Lets workers play the run, or gives them no more tasks of it until it is approved again. */
export function approveRun(world: World, run: Run, username: string, approved = true): Changes {
  const changes = new Changes();
  if (run.record.approved === approved) return changes;
  run.record.approved = approved;
  run.record.approver = approved ? username : '';
  changes.runs.add(run);
  const text = approved ? 'approved' : 'unapproved';
  changes.actions.push(runAction('approve_run', run, username, world.clock.now(), text));
  return changes;
}

/** A person stops a run. */
export function stopByUser(world: World, run: Run, username: string, message: string): Changes {
  const changes = new Changes();
  if (run.record.finished) return changes;
  stopRun(world, run, changes);
  changes.actions.push(runAction('stop_run', run, username, world.clock.now(), message));
  return changes;
}

/** Stops a run and removes it from all lists. */
export function deleteRun(world: World, run: Run, username: string): Changes {
  const changes = new Changes();
  if (run.record.deleted) return changes;
  if (!run.record.finished) endRun(world, run, changes);
  run.record.deleted = true;
  changes.runs.add(run);
  changes.actions.push(runAction('delete_run', run, username, world.clock.now()));
  return changes;
}

/** Purges a run for a person; throws `REQUEST_REFUSED` if there is nothing to purge. */
export function purgeByUser(world: World, run: Run, username: string): Changes {
  const changes = new Changes();
  const reason = purgeRun(world, run, manualPurgeLimits, changes);
  if (reason !== undefined) throw fleetError('REQUEST_REFUSED', `Not purged: ${reason}`);
  changes.actions.push(runAction('purge_run', run, username, world.clock.now(), 'Manual purge'));
  return changes;
}

export type RunModification = Readonly<
  Pick<RunArgs, 'num_games' | 'priority' | 'throughput' | 'auto_purge' | 'info'>
>;

/** The most games that a run can have. */
export const gamesMax = 3_200_000;

/**
 * Changes the run; a higher priority or throughput needs a new approval. A run that ended before it
 * was decided goes on, even if no value changes.
 */
export function modifyRun(
  world: World,
  run: Run,
  to: RunModification,
  by: { readonly username: string; readonly isApprover: boolean },
): Changes {
  const now = world.clock.now();
  const fault = modificationFault(run, to, now);
  if (fault !== undefined) throw fleetError('REQUEST_REFUSED', fault);
  const { args, record } = run;
  const isSame = Object.entries(to).every(([name, value]) => args[name as keyof RunArgs] === value);
  if (isSame && record.finished === run.decided) return new Changes();
  const bold =
    to.throughput > Math.max(args.throughput, 100) ||
    to.priority > Math.max(args.priority, 0) ||
    record.failed;
  const text = modificationText(run, to);
  Object.assign(args, to);
  const changes =
    bold && !by.isApprover ? approveRun(world, run, by.username, false) : new Changes();
  changes.runs.add(run);
  changes.actions.push(runAction('modify_run', run, by.username, now, text));
  if (record.finished && !run.decided) revive(world, run, changes);
  if (!record.finished && run.decided) stopRun(world, run, changes);
  return changes;
}

function modificationFault(run: Run, to: RunModification, now: number): string | undefined {
  const { args, record } = run;
  const { num_games: games, priority, throughput } = to;
  if (now - record.start_time > ageMsMax) return 'The run is too old to be modified';
  if (![games, priority, throughput].every(Number.isInteger)) return 'Not an integer';
  if (games === args.num_games) return undefined;
  if (args.spsa !== undefined) return 'The number of games of a tuning cannot be changed';
  if (args.sprt === undefined && games > args.num_games) {
    return 'A fixed number of games cannot be increased';
  }
  if (games < 1000 || games % 1000 !== 0) return 'Games: a multiple of 1000';
  return games > gamesMax ? `Games: at most ${gamesMax}` : undefined;
}

function modificationText({ args }: Run, to: RunModification): string {
  const moves = [
    ['num-games', args.num_games, to.num_games],
    ['priority', args.priority, to.priority],
    ['throughput', args.throughput, to.throughput],
    ['auto-purge', args.auto_purge, to.auto_purge],
  ].flatMap(([name, from, next]) =>
    from === next ? [] : `${name} changed from ${from} to ${next}`,
  );
  return ['modify', ...moves].join(': ');
}

export interface NewRunOptions {
  /** 24 hexadecimal digits, in lower case. */
  readonly id: string;
  readonly args: RunArgs;
  /** UNIX milliseconds. */
  readonly now: number;
  /** The run that this one repeats. */
  readonly rescheduledFrom?: string | undefined;
}

const schemaVersion = 24;

/** The record of a new run, not approved and without games. */
export function newRunRecord({ id, args, now, rescheduledFrom }: NewRunOptions): RunRecord {
  return {
    _id: id,
    version: schemaVersion,
    start_time: now,
    last_updated: now,
    tc_base: Number(/^\d+(\.\d+)?/.exec(args.tc)?.[0] ?? 0),
    ...(rescheduledFrom !== undefined && { rescheduled_from: rescheduledFrom }),
    approved: false,
    approver: '',
    finished: false,
    deleted: false,
    failed: false,
    failures: 0,
    is_green: false,
    is_yellow: false,
    workers: 0,
    cores: 0,
    committed_games: 0,
    total_games: 0,
    results: zeroStats(),
    nps: 0,
    games_per_minute: 0,
    args,
  };
}

/** Blocks a worker, named by its short name; the message tells its owner why. */
export function blockWorker(
  world: World,
  name: string,
  username: string,
  message: string,
): Changes {
  const changes = new Changes();
  const now = world.clock.now();
  world.blocked.set(name, { message, last_updated: now });
  changes.blocked.add(name);
  changes.actions.push(blockAction(name, username, now, 'blocked'));
  return changes;
}

export function unblockWorker(world: World, name: string, username: string): Changes {
  const changes = new Changes();
  if (!world.blocked.delete(name)) return changes;
  changes.blocked.add(name);
  changes.actions.push(blockAction(name, username, world.clock.now(), 'unblocked'));
  return changes;
}

/** Logs a message of a worker. */
export function logWorker(world: World, info: WorkerInfo, message: string, task?: Task): Changes {
  const changes = new Changes();
  changes.actions.push(workerLog(info, world.clock.now(), message, task));
  return changes;
}

const silentMsMax = 360_000;
const deadTasksMax = 1000;

/**
 * Ends tasks whose workers have been silent for six minutes, at most a thousand a call; true if
 * there are more.
 */
export function endDeadTasks(world: World): Decision<boolean> {
  const changes = new Changes();
  const now = world.clock.now();
  let ended = 0;
  for (const task of world.active) {
    if (now - task.record.last_updated <= silentMsMax) break;
    if (ended === deadTasksMax) return { reply: true, changes };
    ended += 1;
    if (!task.active) {
      // It ended with its run, and will be settled.
      world.active.delete(task);
      continue;
    }
    noteTrouble(world, task, changes);
    changes.actions.push(taskAction('dead_task', task, now));
    world.end(task, changes);
  }
  return { reply: false, changes };
}

/** Updates the shares of the cores that unfinished runs get. */
export function shareThroughput(world: World): Changes {
  const changes = new Changes();
  const runsOf = new Map<string, number>();
  for (const { record, args } of world.unfinished) {
    if (record.workers === 0) continue;
    runsOf.set(args.username, (runsOf.get(args.username) ?? 0) + 1);
  }
  for (const run of world.unfinished) {
    const activeRuns = runsOf.get(run.args.username) ?? 0;
    const itp = internalThroughput(run.args, { games: run.games, activeRuns });
    if (itp === run.args.itp) continue;
    run.args.itp = itp;
    changes.runs.add(run);
  }
  return changes;
}

/** Updates the speed of each unfinished run. */
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

/** Checks the sums of one unfinished run, chosen at random; logs those that are wrong. */
export function audit(world: World): Changes {
  const changes = new Changes();
  const at = Math.floor(world.random() * world.unfinished.size);
  const run = world.unfinished.values().drop(at).next().value;
  const wrong = run === undefined ? [] : wrongSums(run);
  if (run === undefined || wrong.length === 0) return changes;
  changes.actions.push(logMessage(world.clock.now(), `Run ${run.id}: ${wrong.join('; ')}`));
  return changes;
}

export interface StoredWorld {
  /** All unfinished runs with their tasks. */
  readonly runs: Iterable<Run>;
  /** By short name; none if absent. */
  readonly blocked?: Iterable<readonly [string, BlockedWorker]> | undefined;
}

/**
 * Adds stored runs after a start: corrects sums, lists active tasks, ends decided runs. The silence
 * of active tasks is counted from now, because the server could not hear them while it was down.
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

/** Lists an active task; it ends an older one of the same name, which a crash can leave. */
function resume(world: World, task: Task, now: number, changes: Changes): void {
  const older = world.activeTask(task.name);
  task.record.last_updated = now;
  world.admit(task);
  if (older !== undefined) world.end(older, changes);
}

/** Sums over its tasks in a run's record. */
export type Sums = Pick<
  RunRecord,
  'results' | 'workers' | 'cores' | 'committed_games' | 'total_games'
>;

/** Computes the sums from all tasks of the run. */
export function recount(run: Run): Sums {
  const nothing = zeroStats();
  const sums: Sums = {
    results: zeroStats(),
    workers: 0,
    cores: 0,
    committed_games: 0,
    total_games: 0,
  };
  for (const task of run.tasks) {
    const { num_games, stats, worker_info } = task.record;
    addDifference(sums.results, stats, nothing);
    sums.total_games += num_games;
    sums.committed_games += task.active ? num_games : task.games;
    if (!task.active) continue;
    sums.workers += 1;
    sums.cores += worker_info.concurrency;
  }
  return sums;
}

/** Lists the sums of the record that differ from those of the tasks; empty if all are right. */
export function wrongSums(run: Run): string[] {
  return Object.entries(recount(run)).flatMap(([key, sum]) => {
    const kept = run.record[key as keyof Sums];
    const text = JSON.stringify(kept);
    return text === JSON.stringify(sum) ? [] : [`${key}: ${text}, not ${JSON.stringify(sum)}`];
  });
}
