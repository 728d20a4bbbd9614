import { type StoredWorkerInfo, shortName } from '../protocol/worker-info.ts';
import { taskAction } from './actions.ts';
import { Changes, type Decision } from './changes.ts';
import { chooseRun } from './choose-run.ts';
import { blockedText, duplicateText, machineLimitText } from './refusal-texts.ts';
import type { Run } from './run.ts';
import type { RunArgs } from './run-record.ts';
import type { Stats } from './stats.ts';
import type { Task } from './task.ts';
import { taskSize } from './task-size.ts';
import type { World } from './world.ts';

export interface TaskRequest {
  readonly info: StoredWorkerInfo;
  /** How many tasks the user may have at one address. */
  readonly machineLimit: number;
  /** Where people reach this server, without a slash at the end. */
  readonly baseUrl: string;
}

export interface AssignedTask {
  readonly run: {
    readonly _id: string;
    readonly args: RunArgs;
    readonly my_task: { readonly num_games: number; readonly start: number; readonly stats: Stats };
  };
  readonly task_id: number;
}

/** No task: `error` tells the worker's owner what to mend. */
export interface NoTask {
  readonly task_waiting: false;
  readonly error?: string;
}

/** A worker whose namesake was heard of this long ago is a second one, not the same again. */
const duplicateMs = 120_000;

/** Gives a worker its next task, or says why not. */
export function requestTask(world: World, request: TaskRequest): Decision<AssignedTask | NoTask> {
  const changes = new Changes();
  const { info } = request;
  const name = shortName(info);
  const error = refusal(world, name, request, changes);
  if (error !== undefined) return { reply: { task_waiting: false, error }, changes };
  const lastRun = world.lastRun(name);
  const run = chooseRun(world.unfinished, { name, info, lastRun });
  if (run === undefined) return { reply: { task_waiting: false }, changes };
  const task = assign(world, run, info, changes);
  const { num_games, start, stats } = task.record;
  const my_task = { num_games, start, stats };
  return { reply: { run: { _id: run.id, args: run.args, my_task }, task_id: task.id }, changes };
}

function refusal(
  world: World,
  name: string,
  { info, machineLimit, baseUrl }: TaskRequest,
  changes: Changes,
): string | undefined {
  const now = world.clock.now();
  const blocked = world.blocked.get(name);
  if (blocked !== undefined) {
    blocked.last_updated = now;
    changes.blocked.add(name);
    return blockedText(name, blocked.message, baseUrl);
  }
  const other = world.activeTask(name)?.record;
  if (other !== undefined && other.worker_info.unique_key !== info.unique_key) {
    const silentMs = now - other.last_updated;
    if (silentMs <= duplicateMs) return duplicateText(name, silentMs);
  }
  const connections = world.connections(info.remote_addr);
  return connections >= machineLimit ? machineLimitText(machineLimit) : undefined;
}

function assign(world: World, run: Run, info: StoredWorkerInfo, changes: Changes): Task {
  const now = world.clock.now();
  const stale = world.activeTask(shortName(info));
  const task = run.addTask(nextTaskSize(run, info.concurrency), info, now);
  world.admit(task);
  changes.tasks.add(task);
  changes.runs.add(run);
  if (stale !== undefined) {
    changes.actions.push(taskAction('failed_task', stale, now, 'Stale active task'));
    world.end(stale, changes);
  }
  return task;
}

/** Half an hour of games, or what is left; a sequential test needs whole batches to the end. */
function nextTaskSize(run: Run, concurrency: number): number {
  const { tc, threads, sprt } = run.args;
  const size = taskSize({ timeControl: tc, threads, concurrency, batchSize: sprt?.batch_size });
  const { batchGames, openGames } = run;
  const left = sprt === undefined ? openGames : batchGames * Math.ceil(openGames / batchGames);
  return Math.min(size, left);
}
