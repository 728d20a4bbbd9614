import type { BadTaskRecord, RunRecord, TaskRecord } from '../scheduling/run-record.ts';
import { sprtElo } from '../statistics/sprt-elo.ts';
import { dateText } from './date-text.ts';

/** A run as lists show it: without its tasks, and a tuning without its history. */
export function listedRun(record: RunRecord): object {
  const { args } = record;
  const spsa = args.spsa && { ...args.spsa, param_history: undefined };
  return shown(record, spsa === undefined ? args : { ...args, spsa });
}

/** A run as it is shown alone: what lists leave out is there, and empty. */
export function shownRun(record: RunRecord): object {
  const { args } = record;
  const spsa = args.spsa && { ...args.spsa, param_history: [] };
  const run = shown(record, spsa === undefined ? args : { ...args, spsa });
  return { ...run, tasks: [], bad_tasks: [] };
}

/** A sequential test with what it says about strength; nothing of any other run. */
export function shownElo(record: RunRecord): object {
  const { sprt } = record.args;
  if (sprt === undefined) return {};
  const { elo0, elo1, alpha, beta, elo_model = 'BayesElo' } = sprt;
  const elo = sprtElo(record.results, { elo0, elo1, alpha, beta, model: elo_model });
  const args = { ...record.args, sprt: { ...sprt, elo_model } };
  return { ...shownRun({ ...record, args }), elo };
}

/** A task without what would tell who its worker is. */
export function shownTask(record: TaskRecord | BadTaskRecord): object {
  const { unique_key } = record.worker_info;
  const worker_info = {
    ...record.worker_info,
    unique_key: `${unique_key.slice(0, 8)}...`,
    remote_addr: '?.?.?.?',
  };
  const task = { ...record, worker_info, last_updated: dateText(record.last_updated) };
  return 'residual' in record && record.residual === Infinity ? { ...task, residual: 'inf' } : task;
}

function shown(record: RunRecord, args: object): object {
  const { start_time, last_updated } = record;
  const dates = { start_time: dateText(start_time), last_updated: dateText(last_updated) };
  return { ...record, ...dates, args };
}
