import type { PurgedTask } from '../scheduling/changes.ts';
import type { Run } from '../scheduling/run.ts';
import type { BadTaskRecord, RunArgs, RunRecord, TaskRecord } from '../scheduling/run-record.ts';
import type { Task } from '../scheduling/task.ts';
import type { Spsa } from '../statistics/spsa.ts';
import type { RunRow, TaskRow } from './fleet-schema.ts';

/** A run as a row, but for the history of a tuning. */
export function runRow({ record }: Run): Omit<RunRow, 'param_history'> {
  const { args } = record;
  const spsa = args.spsa === undefined ? undefined : { ...args.spsa, param_history: undefined };
  return {
    id: record._id,
    username: args.username,
    start_time: record.start_time,
    last_updated: record.last_updated,
    tc_base: record.tc_base,
    finished: Number(record.finished),
    deleted: Number(record.deleted),
    is_green: Number(record.is_green),
    is_yellow: Number(record.is_yellow),
    record: JSON.stringify(spsa === undefined ? record : { ...record, args: { ...args, spsa } }),
  };
}

/** The record of a run from its row. */
export function runRecord({ record, param_history }: RunRow): RunRecord {
  const run = JSON.parse(record) as RunRecord;
  if (param_history === null || run.args.spsa === undefined) return run;
  const history = JSON.parse(param_history) as NonNullable<Spsa['param_history']>;
  const args: RunArgs = { ...run.args, spsa: { ...run.args.spsa, param_history: history } };
  return { ...run, args };
}

/** A task, or one that was set aside, as a row. */
export function taskRow({
  run,
  id,
  record,
}: Pick<Task, 'run' | 'id' | 'record'> | PurgedTask): TaskRow {
  return { run_id: run.id, id, record: JSON.stringify(record) };
}

export function taskRecord({ record }: TaskRow): TaskRecord {
  return JSON.parse(record) as TaskRecord;
}

export function badTaskRecord({ record }: TaskRow): BadTaskRecord {
  const bad = JSON.parse(record) as BadTaskRecord;
  // JSON has no infinity.
  return { ...bad, residual: bad.residual ?? Infinity };
}
