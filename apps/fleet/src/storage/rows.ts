import { randomBytes } from 'node:crypto';
import { CompiledQuery } from 'kysely';
import type { DatabaseKind } from 'spillway-sql';
import type { Spsa } from '../statistics/spsa.ts';
import {
  type Action,
  type BadTaskRecord,
  type PurgedTask,
  type RunArgs,
  type RunRecord,
  type TaskRecord,
  withoutHistory,
} from '../world/records.ts';
import type { Run, Task } from '../world/run.ts';
import type { ActionRow, FleetSchema, RunRow, TaskRow } from './fleet-schema.ts';

/** A run as a row, but for the history of a tuning. */
export function runRow({ record }: Pick<Run, 'record'>): Omit<RunRow, 'param_history'> {
  const { args } = record;
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
    record: JSON.stringify({ ...record, args: withoutHistory(args) }),
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

/** Columns of the primary key of each table whose rows are written whole. */
const keys = {
  runs: ['id'],
  tasks: ['run_id', 'id'],
  bad_tasks: ['run_id', 'id'],
  users: ['username'],
  actions: ['id'],
  blocked_workers: ['worker_name'],
  nns: ['name'],
  deltas: ['run_id'],
  contributors: ['username'],
  top_month: ['username'],
} as const;
export type UpsertTable = keyof typeof keys;

/** Rows a statement: few sizes, so that the database prepares each only once. */
const sizes = [64, 8, 1];
const texts = new Map<string, string>();

/** Statements that write rows, whether they are there or not; all have the columns of the first. */
export function upserts<Table extends UpsertTable>(
  kind: DatabaseKind,
  table: Table,
  rows: readonly Partial<FleetSchema[Table]>[],
): CompiledQuery[] {
  const columns = Object.keys(rows[0] ?? {}) as (keyof FleetSchema[Table] & string)[];
  const queries: CompiledQuery[] = [];
  for (let at = 0; at < rows.length; ) {
    const size = sizes.find((one) => one <= rows.length - at) as number;
    const some = rows.slice(at, at + size);
    const values = some.flatMap((row) => columns.map((column) => row[column] ?? null));
    queries.push(CompiledQuery.raw(upsertText(kind, table, columns, size), values));
    at += size;
  }
  return queries;
}

function upsertText(
  kind: DatabaseKind,
  table: UpsertTable,
  columns: readonly string[],
  size: number,
): string {
  const key = `${kind} ${table} ${size} ${columns}`;
  const known = texts.get(key);
  if (known !== undefined) return known;
  const place = (at: number) => (kind === 'postgres' ? `$${at + 1}` : '?');
  const row = (at: number) =>
    `(${columns.map((_, column) => place(at * columns.length + column)).join(', ')})`;
  const rows = Array.from({ length: size }, (_, at) => row(at)).join(', ');
  const own: readonly string[] = keys[table];
  const rest = columns.filter((column) => !own.includes(column));
  const changes = rest.map((column) => `"${column}" = excluded."${column}"`).join(', ');
  const text =
    `insert into ${table} (${columns.map((column) => `"${column}"`).join(', ')}) ` +
    `values ${rows} on conflict (${own.join(', ')}) do update set ${changes}`;
  texts.set(key, text);
  return text;
}

const process = randomBytes(5).toString('hex');
let count = randomBytes(3).readUIntBE(0, 3);

/** 24 hexadecimal digits that nobody else makes; later ones are greater, second by second. */
export function objectId(now: number): string {
  count = (count + 1) % 2 ** 24;
  const seconds = Math.floor(now / 1000);
  return `${hex(seconds, 8)}${process}${hex(count, 6)}`;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}

/** Columns that an entry may leave empty: all rows of a statement must have the same columns. */
const places = { run_id: null, run: null, task_id: null, worker: null };
export const noAction = { ...places, message: null, user: null, nn: null };

/** An entry with an id of its own, so that it is there once however often it is written. */
export function actionRow({ message, ...entry }: Action): ActionRow {
  const text = message === undefined ? {} : { message: withoutNul(message) };
  return { ...noAction, ...entry, id: objectId(entry.time * 1000), ...text };
}

/** Postgres has no such character in texts. */
export function withoutNul(text: string): string {
  return text.replaceAll('\0', '');
}
