import { longName } from '../protocol/read-request.ts';
import {
  type DocumentOf,
  decimal,
  document,
  flag,
  list,
  moment,
  optional,
  orElse,
  pattern,
  type Rule,
  required,
  text,
  type ValueOf,
  whole,
} from '../protocol/rules.ts';
import type { ResidualColor } from '../statistics/run-statistics.ts';
import { sprtRule } from '../statistics/sprt.ts';
import { spsaRule } from '../statistics/spsa.ts';
import { timeControlPattern } from '../statistics/time-control.ts';
import type { Run, Task } from './run.ts';

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
  /** Tasks that only sent a heartbeat, which need not be stored. */
  readonly beats: Set<Task> = new Set();
}

/** A reply, and the changes to store before it is sent. */
export interface Decision<Reply> {
  readonly reply: Reply;
  readonly changes: Changes;
}

const count = whole(0);
export const objectId: Rule<string> = pattern(/^[0-9a-f]{24}$/, 'an object id');
export const timeControl: Rule<string> = pattern(timeControlPattern, 'a time control');
export const texts: Rule<readonly string[]> = list(text);

const anyList: Rule<readonly number[]> = { title: 'a list', type: 'array' };

/** Results of games: of a task, or of a run as the sum of its tasks. */
export type Stats = ValueOf<typeof statsRule>;
const statsRule = document({
  ...required(count, 'wins', 'losses', 'draws'),
  ...orElse(0, count, 'crashes', 'time_losses'),
  ...required(list(count, 5), 'pentanomial'),
});

/** The description of a worker by itself, and two fields of the server; old ones have fewer. */
export type StoredWorkerInfo = Readonly<ValueOf<typeof workerRule>>;
const workerRule = document({
  ...required(text, 'username', 'unique_key'),
  ...required(whole(1), 'concurrency'),
  ...orElse('?', text, 'uname', 'compiler', 'ARCH'),
  ...orElse('unknown', text, 'worker_arch'),
  ...orElse(['?', '?'], texts, 'architecture'),
  /** The memory in MiB. */
  ...orElse(0, count, 'max_memory', 'version'),
  ...orElse(1, whole(1), 'min_threads'),
  ...orElse([0, 0, 0], anyList, 'python_version', 'gcc_version'),
  ...orElse(false, flag, 'modified', 'near_github_api_limit'),
  ...orElse(0, decimal, 'nps'),
  ...orElse('?.?.?.?', text, 'remote_addr'),
  ...orElse('?', text, 'country_code'),
});

/** The arguments of a run, as workers get them. */
export type RunArgs = DocumentOf<typeof argsShape>;
export const argsShape = {
  ...required(text, 'base_tag', 'new_tag', 'resolved_base', 'resolved_new', 'username', 'book'),
  ...required(timeControl, 'tc', 'new_tc'),
  ...required(whole(1), 'num_games', 'threads'),
  ...orElse('', text, 'msg_base', 'msg_new', 'info', 'base_options', 'new_options'),
  ...orElse('', text, 'base_signature', 'new_signature', 'tests_repo'),
  ...orElse([], texts, 'base_nets', 'new_nets'),
  ...orElse('8', text, 'book_depth'),
  ...optional(text, 'master_repo', 'arch_filter', 'compiler'),
  ...orElse(false, flag, 'auto_purge'),
  ...orElse(true, flag, 'adjudication'),
  ...orElse(100, decimal, 'throughput', 'itp'),
  ...orElse(0, decimal, 'priority'),
  ...optional(sprtRule, 'sprt'),
  ...optional(spsaRule, 'spsa'),
};

/** The arguments of a run without the history of a tuning, which is long. */
export function withoutHistory(args: RunArgs, param_history?: []): object {
  return args.spsa === undefined ? args : { ...args, spsa: { ...args.spsa, param_history } };
}

/** A run as it is stored, without its tasks; times are UNIX milliseconds. */
export type RunRecord = DocumentOf<typeof runShape> & { readonly args: RunArgs };
export const runShape = {
  ...required(objectId, '_id'),
  ...required(moment, 'start_time', 'last_updated'),
  ...required(decimal, 'tc_base'),
  ...required(statsRule, 'results'),
  ...required(flag, 'finished'),
  ...orElse(0, count, 'failures', 'workers', 'cores', 'committed_games', 'total_games'),
  ...orElse(0, decimal, 'nps', 'games_per_minute'),
  ...orElse(24, count, 'version'),
  ...orElse(false, flag, 'approved', 'deleted', 'failed', 'is_green', 'is_yellow'),
  ...orElse('', text, 'approver'),
  ...optional(objectId, 'rescheduled_from'),
};

const flips = document({ ...required(count, 'iter'), ...required(anyList, 'packed_flips') });

/** A task as it is stored; its place in the run's list is its id. */
export type TaskRecord = DocumentOf<typeof taskShape>;
export const taskShape = {
  ...required(count, 'num_games'),
  /** Replaced, never changed in place: replies may still hold the last ones. */
  ...required(statsRule, 'stats'),
  ...required(workerRule, 'worker_info'),
  ...required(moment, 'last_updated'),
  ...orElse(false, flag, 'active'),
  ...orElse(0, count, 'start'),
  ...optional(flag, 'bad'),
  ...optional(flips, 'spsa_params'),
};

/** A task that was purged, with the results it had. */
export interface BadTaskRecord extends Readonly<TaskRecord> {
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

/** The user name of the server's own actions in the log. */
export const systemUser = 'fishtest.system';

const messageCharsMax = 5120;

/** Log entry about a task. */
export function taskAction(action: ActionName, task: Task, now: number, message?: string): Action {
  const info = task.record.worker_info;
  const about = runAction(action, task.run, info.username, now, message);
  return { ...about, worker: longName(info), task_id: task.id };
}

/** Log entry about a run. */
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
