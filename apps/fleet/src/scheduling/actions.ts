import { longName } from '../protocol/read-request.ts';
import type { Run, Task } from './run.ts';

export type TaskActionName = 'failed_task' | 'crash_or_time' | 'dead_task' | 'stop_run';

export type RunActionName =
  | 'new_run'
  | 'modify_run'
  | 'finished_run'
  | 'purge_run'
  | 'delete_run'
  | 'stop_run'
  | 'approve_run';

export type WorkerActionName = 'block_worker' | 'worker_log';

/** An entry of the event log. */
export interface Action {
  /** UNIX seconds, with fractions. */
  readonly time: number;
  readonly action: TaskActionName | RunActionName | WorkerActionName | 'log_message';
  readonly username: string;
  readonly run_id?: string;
  readonly run?: string;
  readonly task_id?: number;
  readonly worker?: string;
  readonly message?: string;
}

/** Who acts when nobody asked for it. */
export const systemUser = 'fishtest.system';

const messageMax = 5120;

/** Something that a task's worker did, or that happened to it. */
export function taskAction(
  action: TaskActionName,
  task: Task,
  now: number,
  message?: string,
): Action {
  const info = task.record.worker_info;
  const worker = longName(info);
  const about = aboutRun(action, task.run, info.username, now, message);
  return { ...about, worker, task_id: task.id };
}

/** Something that a person did to a run, or that happened to it. */
export function runAction(
  action: RunActionName,
  run: Run,
  username: string,
  now: number,
  message?: string,
): Action {
  return aboutRun(action, run, username, now, message);
}

/** What went wrong in the server itself. */
export function logMessage(now: number, message: string): Action {
  const username = systemUser;
  return { time: now / 1000, action: 'log_message', username, message: cut(message) };
}

/** What a worker wants people to read. */
export function workerLog(
  info: Parameters<typeof longName>[0],
  now: number,
  message: string,
  task?: Task,
): Action {
  const said = { worker: longName(info), message: cut(message) };
  const action = {
    time: now / 1000,
    action: 'worker_log',
    username: info.username,
    ...said,
  } as const;
  if (task === undefined) return action;
  return { ...action, run_id: task.run.id, run: task.run.name, task_id: task.id };
}

/** A worker, by its short name, gets tasks no longer, or again. */
export function blockAction(
  worker: string,
  username: string,
  now: number,
  message: 'blocked' | 'unblocked',
): Action {
  return { time: now / 1000, action: 'block_worker', username, worker, message };
}

function aboutRun(
  action: TaskActionName | RunActionName,
  run: Run,
  username: string,
  now: number,
  message?: string,
): Action {
  const about = { time: now / 1000, action, username, run_id: run.id, run: run.name };
  return message === undefined ? about : { ...about, message: cut(message) };
}

function cut(message: string): string {
  return message.length > messageMax ? message.slice(0, messageMax) : message;
}
