import { longName, type StoredWorkerInfo } from '../protocol/read-request.ts';
import type { ResidualColor } from '../statistics/run-statistics.ts';
import type { Sprt } from '../statistics/sprt.ts';
import type { Spsa } from '../statistics/spsa.ts';
import type { Run, Task } from './run.ts';
import type { Stats } from './world.ts';

/** A task that was set aside; `id` is its place in the run's list of bad tasks. */
export interface PurgedTask {
  readonly run: Run;
  readonly id: number;
  readonly record: BadTaskRecord;
}

/** The changes of one decision, which must be stored before its reply is sent. */
export class Changes {
  readonly runs: Set<Run> = new Set();
  readonly tasks: Set<Task> = new Set();
  readonly purged: PurgedTask[] = [];
  readonly actions: Action[] = [];
  /** Blocked workers that asked again. */
  readonly blocked: Set<string> = new Set();
  /** Tasks that only sent a heartbeat: its loss harms nothing, so it may be stored later. */
  readonly beats: Set<Task> = new Set();
}

/** A reply, and the changes to store before it is sent. */
export interface Decision<Reply> {
  readonly reply: Reply;
  readonly changes: Changes;
}

/** Subject and conditions of a run, as workers get them. */
export interface RunArgs {
  readonly base_tag: string;
  readonly new_tag: string;
  readonly msg_base: string;
  readonly msg_new: string;
  info: string;
  readonly base_nets: readonly string[];
  readonly new_nets: readonly string[];
  num_games: number;
  readonly tc: string;
  readonly new_tc: string;
  readonly book: string;
  readonly book_depth: string;
  readonly threads: number;
  readonly resolved_base: string;
  readonly resolved_new: string;
  readonly base_options: string;
  readonly new_options: string;
  readonly base_signature: string;
  readonly new_signature: string;
  readonly username: string;
  readonly tests_repo: string;
  readonly master_repo?: string;
  auto_purge: boolean;
  throughput: number;
  itp: number;
  priority: number;
  readonly adjudication: boolean;
  readonly arch_filter?: string;
  readonly compiler?: string;
  readonly sprt?: Sprt;
  readonly spsa?: Spsa;
}

/** A run as it is stored, without its tasks; times are UNIX milliseconds. */
export interface RunRecord {
  readonly _id: string;
  readonly version: number;
  readonly start_time: number;
  last_updated: number;
  readonly tc_base: number;
  readonly rescheduled_from?: string;
  approved: boolean;
  approver: string;
  finished: boolean;
  deleted: boolean;
  failed: boolean;
  failures: number;
  is_green: boolean;
  is_yellow: boolean;
  workers: number;
  cores: number;
  committed_games: number;
  total_games: number;
  results: Stats;
  nps: number;
  games_per_minute: number;
  readonly args: RunArgs;
}

/** A task as it is stored; its place in the run's list is its id. */
export interface TaskRecord {
  readonly num_games: number;
  active: boolean;
  last_updated: number;
  readonly start: number;
  /** Replaced, never changed in place: replies may still hold the last one. */
  stats: Stats;
  worker_info: StoredWorkerInfo;
  bad?: true;
  spsa_params?: { readonly iter: number; readonly packed_flips: readonly number[] };
}

/** A task that was purged, with the results it had. */
export interface BadTaskRecord extends Readonly<Omit<TaskRecord, 'bad'>> {
  readonly task_id: number;
  readonly bad: true;
  readonly residual: number;
  readonly residual_color: ResidualColor;
}

/** Kinds of entries of the event log, with their words for people. */
export const actionWords = {
  new_run: 'New run',
  approve_run: 'Approval',
  modify_run: 'Change of a run',
  stop_run: 'Stop of a run',
  delete_run: 'Deletion of a run',
  purge_run: 'Purge',
  finished_run: 'End of a run',
  failed_task: 'Failed task',
  crash_or_time: 'Crash or time loss',
  dead_task: 'Lost task',
  worker_log: 'Message of a worker',
  block_worker: 'Block of a worker',
  new_user: 'New user',
  accept_user: 'Decision on a user',
  block_user: 'Block of a user',
  modify_user: 'Change of a user',
  upload_nn: 'New net',
  new_book: 'New book',
  log_message: 'Message of the server',
  system_event: 'Start or stop of the server',
} as const;
export type ActionName = keyof typeof actionWords;

/** An entry of the event log. */
export interface Action {
  /** UNIX seconds, with fractions. */
  readonly time: number;
  readonly action: ActionName;
  readonly username: string;
  readonly run_id?: string;
  readonly run?: string;
  readonly task_id?: number;
  readonly worker?: string;
  readonly message?: string;
  readonly user?: string;
  readonly nn?: string;
}

/** User that stands in the log for the server's own actions. */
export const systemUser = 'fishtest.system';

const messageCharsMax = 5120;

/** Log entry for an act of a task's worker, or an event of the task. */
export function taskAction(action: ActionName, task: Task, now: number, message?: string): Action {
  const info = task.record.worker_info;
  const about = runAction(action, task.run, info.username, now, message);
  return { ...about, worker: longName(info), task_id: task.id };
}

/** Log entry for an act of a user on a run, or an event of the run. */
export function runAction(
  action: ActionName,
  run: Run,
  username: string,
  now: number,
  message?: string,
): Action {
  const about = { time: now / 1000, action, username, run_id: run.id, run: run.name };
  return message === undefined ? about : { ...about, message: cut(message) };
}

/** Log entry for a fault of the server itself. */
export function logMessage(now: number, message: string): Action {
  const username = systemUser;
  return { time: now / 1000, action: 'log_message', username, message: cut(message) };
}

/** Log entry with a worker's message to people. */
export function workerLog(
  info: Parameters<typeof longName>[0],
  now: number,
  message: string,
  task?: Task,
): Action {
  const { username } = info;
  const about = { time: now / 1000, username, worker: longName(info), message: cut(message) };
  const place = task && { run_id: task.run.id, run: task.run.name, task_id: task.id };
  return { action: 'worker_log', ...about, ...place };
}

/** Log entry for a worker, by its short name, that was blocked or unblocked. */
export function blockAction(
  worker: string,
  username: string,
  now: number,
  message: 'blocked' | 'unblocked',
): Action {
  return { time: now / 1000, action: 'block_worker', username, worker, message };
}

function cut(message: string): string {
  return message.length > messageCharsMax ? message.slice(0, messageCharsMax) : message;
}
