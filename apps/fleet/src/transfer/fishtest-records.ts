import type { StoredWorkerInfo } from '../protocol/read-request.ts';
import type { Sprt } from '../statistics/sprt.ts';
import type { Spsa } from '../statistics/spsa.ts';
import { timeControlPattern } from '../statistics/time-control.ts';
import type { BadTaskRecord, RunArgs, RunRecord, TaskRecord } from '../world/records.ts';
import type { Stats } from '../world/world.ts';

/** A document cannot be taken; the message is the same for all with the same fault. */
export class DocumentFault extends Error {}

/** A kind of values, and how it is called in complaints. */
export interface Kind {
  readonly name: string;
  readonly holds: (value: unknown) => boolean;
}

/** A field of a document: its kind, and its value where it is missing. */
export interface ShapeField {
  readonly kind: Kind;
  readonly isRequired: boolean;
  /** Undefined if a missing field stays away. */
  readonly absent?: unknown;
}

export type Shape = Readonly<Record<string, ShapeField>>;

export const text: Kind = { name: 'a text', holds: (value) => typeof value === 'string' };
export const truth: Kind = { name: 'true or false', holds: (value) => typeof value === 'boolean' };
export const decimal: Kind = { name: 'a number', holds: (value) => Number.isFinite(value) };
export const list: Kind = { name: 'a list', holds: Array.isArray };
export const texts: Kind = {
  name: 'a list of texts',
  holds: (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
};
export const document: Kind = {
  name: 'a document',
  holds: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
};

export function whole(from: number): Kind {
  const holds = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= from;
  return { name: `an integer from ${from}`, holds };
}

export function matching(pattern: RegExp, name: string): Kind {
  return { name, holds: (value) => typeof value === 'string' && pattern.test(value) };
}

export function oneOf(...words: readonly string[]): Kind {
  return { name: `one of ${words.join(', ')}`, holds: (value) => words.includes(value as string) };
}

/** Fields that documents cannot do without. */
export function required<Name extends string>(
  kind: Kind,
  ...names: Name[]
): Record<Name, ShapeField> {
  return fields(names, { kind, isRequired: true });
}

/** Fields that get a value where they are missing, or stay away. */
export function optional<Name extends string>(
  kind: Kind,
  absent: unknown,
  ...names: Name[]
): Record<Name, ShapeField> {
  return fields(names, { kind, isRequired: false, absent });
}

function fields<Name extends string>(names: readonly Name[], field: ShapeField) {
  return Object.fromEntries(names.map((name) => [name, field])) as Record<Name, ShapeField>;
}

/** Reads a document field by field; throws {@link DocumentFault}, and tells what it leaves out. */
export function readShape<Result>(
  shape: Shape,
  value: unknown,
  path: string,
  onLeftOut: (path: string) => void,
): Result {
  if (!document.holds(value)) throw new DocumentFault(`${path || 'it'} is not a document`);
  const given = value as Readonly<Record<string, unknown>>;
  const result: Record<string, unknown> = {};
  for (const [name, { kind, isRequired, absent }] of Object.entries(shape)) {
    const found = Object.hasOwn(given, name) ? (given[name] ?? undefined) : undefined;
    if (found === undefined) {
      if (isRequired) throw new DocumentFault(`${path}${name} is missing`);
      if (absent !== undefined) result[name] = absent;
    } else if (kind.holds(found)) result[name] = found;
    else throw new DocumentFault(`${path}${name} is not ${kind.name}`);
  }
  for (const name in given) if (!Object.hasOwn(shape, name)) onLeftOut(`${path}${name}`);
  return result as Result;
}

/** A run of fishtest with its tasks, in the form in which they are stored here. */
export interface FishtestRun {
  readonly record: RunRecord;
  readonly tasks: readonly TaskRecord[];
  readonly badTasks: readonly BadTaskRecord[];
}

export const objectId: Kind = matching(/^[0-9a-f]{24}$/, 'an object id');
const timeControl = matching(timeControlPattern, 'a time control');
const count = whole(0);
const anything = { name: 'anything', holds: () => true };

const runShape: Shape = {
  ...required(objectId, '_id'),
  ...required(decimal, 'start_time', 'last_updated'),
  ...required(document, 'args', 'results'),
  ...required(truth, 'finished'),
  ...optional(list, [], 'tasks', 'bad_tasks'),
  ...optional(count, 0, 'failures', 'workers', 'cores', 'committed_games', 'total_games'),
  ...optional(decimal, 0, 'nps', 'games_per_minute'),
  ...optional(count, 24, 'version'),
  ...optional(decimal, undefined, 'tc_base'),
  ...optional(truth, false, 'approved', 'deleted', 'failed', 'is_green', 'is_yellow'),
  ...optional(text, '', 'approver'),
  ...optional(objectId, undefined, 'rescheduled_from'),
};

const argsShape: Shape = {
  ...required(text, 'base_tag', 'new_tag', 'resolved_base', 'resolved_new', 'username', 'book'),
  ...required(timeControl, 'tc'),
  ...required(whole(1), 'num_games', 'threads'),
  ...optional(text, '', 'msg_base', 'msg_new', 'info', 'base_options', 'new_options'),
  ...optional(text, '', 'base_signature', 'new_signature', 'tests_repo'),
  ...optional(texts, [], 'base_nets', 'new_nets'),
  ...optional(timeControl, undefined, 'new_tc'),
  ...optional(text, '8', 'book_depth'),
  ...optional(text, undefined, 'master_repo', 'arch_filter', 'compiler'),
  ...optional(truth, false, 'auto_purge'),
  ...optional(truth, true, 'adjudication'),
  ...optional(decimal, 100, 'throughput', 'itp'),
  ...optional(decimal, 0, 'priority'),
  ...optional(document, undefined, 'sprt', 'spsa'),
};

const sprtShape: Shape = {
  ...required(decimal, 'elo0', 'elo1', 'llr'),
  ...optional(decimal, 0.05, 'alpha', 'beta'),
  ...optional(oneOf('BayesElo', 'logistic', 'normalized'), undefined, 'elo_model'),
  ...optional(oneOf('', 'accepted', 'rejected'), '', 'state'),
  ...optional(whole(1), 1, 'batch_size'),
  ...optional(decimal, -Math.log(19), 'lower_bound'),
  ...optional(decimal, Math.log(19), 'upper_bound'),
  ...optional(document, undefined, 'overshoot'),
  ...optional(decimal, undefined, 'lost_samples', 'illegal_update'),
};

const overshootShape: Shape = required(
  decimal,
  ...['last_update', 'skipped_updates', 'ref0', 'm0', 'sq0', 'ref1', 'm1', 'sq1'],
);

const spsaShape: Shape = {
  ...required(decimal, 'A', 'alpha', 'gamma', 'iter', 'num_iter'),
  ...required(list, 'params'),
  ...optional(text, '', 'raw_params'),
  ...optional(oneOf('classic'), undefined, 'algorithm'),
  ...optional(list, undefined, 'param_history'),
};

const paramShape: Shape = {
  ...required(text, 'name'),
  ...required(decimal, 'start', 'min', 'max', 'c_end', 'r_end', 'c', 'a_end', 'a', 'theta'),
};

const sampleShape: Shape = required(decimal, 'theta', 'R', 'c');

const statsShape: Shape = {
  ...required(count, 'wins', 'losses', 'draws'),
  ...optional(count, 0, 'crashes', 'time_losses'),
  ...required(
    {
      name: 'a list of five counts',
      holds: (value) => Array.isArray(value) && value.length === 5 && value.every(count.holds),
    },
    'pentanomial',
  ),
};

const taskShape: Shape = {
  ...required(count, 'num_games'),
  ...required(document, 'stats', 'worker_info'),
  ...required(decimal, 'last_updated'),
  ...optional(truth, false, 'active'),
  ...optional(count, 0, 'start'),
  ...optional(truth, undefined, 'bad'),
  ...optional(document, undefined, 'spsa_params'),
};

const badTaskShape: Shape = {
  ...taskShape,
  ...required(count, 'task_id'),
  ...optional(anything, undefined, 'residual'),
  ...optional(oneOf('green', 'yellow', 'red'), 'red', 'residual_color'),
};

const flipsShape: Shape = { ...required(count, 'iter'), ...required(list, 'packed_flips') };

/** Descriptions of old workers lack what was not asked then. */
const workerShape: Shape = {
  ...required(text, 'username', 'unique_key'),
  ...required(whole(1), 'concurrency'),
  ...optional(text, '?', 'uname', 'compiler', 'ARCH'),
  ...optional(text, 'unknown', 'worker_arch'),
  ...optional(texts, ['?', '?'], 'architecture'),
  ...optional(count, 0, 'max_memory', 'version'),
  ...optional(whole(1), 1, 'min_threads'),
  ...optional(list, [0, 0, 0], 'python_version', 'gcc_version'),
  ...optional(truth, false, 'modified', 'near_github_api_limit'),
  ...optional(decimal, 0, 'nps'),
  ...optional(text, '?.?.?.?', 'remote_addr'),
  ...optional(text, '?', 'country_code'),
};

/** Reads a run; throws {@link DocumentFault}, and tells which fields have no place here. */
export function readRun(value: unknown, onLeftOut: (path: string) => void): FishtestRun {
  const read = <Result>(shape: Shape, part: unknown, path: string) =>
    readShape<Result>(shape, part, path, onLeftOut);
  const task = (shape: Shape, part: unknown, path: string) => readTask(shape, part, path, read);
  const { tasks, bad_tasks, ...run } = read<RawRun>(runShape, value, '');
  const args = readArgs(run.args, read);
  const results = read<Stats>(statsShape, run.results, 'results.');
  const tc_base = run.tc_base ?? Number.parseFloat(args.tc.replace(/^\d+\//, ''));
  const badTasks = bad_tasks.map((one) => {
    const bad = task(badTaskShape, one, 'bad_tasks.') as BadTaskRecord;
    return { ...bad, bad: true as const, residual: Number(bad.residual ?? Infinity) };
  });
  return {
    record: { ...run, tc_base, args, results },
    tasks: tasks.map((one) => task(taskShape, one, 'tasks.')),
    badTasks,
  };
}

interface RawRun extends Omit<RunRecord, 'tc_base'> {
  readonly tc_base?: number;
  readonly tasks: readonly unknown[];
  readonly bad_tasks: readonly unknown[];
}

type Reader = <Result>(shape: Shape, part: unknown, path: string) => Result;

function readArgs(value: unknown, read: Reader): RunArgs {
  const args = read<RunArgs>(argsShape, value, 'args.');
  const sprt = args.sprt && readSprt(args.sprt, read);
  const spsa = args.spsa && readSpsa(args.spsa, read);
  if (sprt !== undefined && spsa !== undefined) throw new DocumentFault('args has sprt and spsa');
  return {
    ...args,
    new_tc: args.new_tc ?? args.tc,
    ...(sprt !== undefined && { sprt }),
    ...(spsa !== undefined && { spsa }),
  };
}

function readSprt(value: unknown, read: Reader): Sprt {
  const sprt = read<Sprt>(sprtShape, value, 'args.sprt.');
  if (sprt.overshoot === undefined) return sprt;
  return { ...sprt, overshoot: read(overshootShape, sprt.overshoot, 'args.sprt.overshoot.') };
}

function readSpsa(value: unknown, read: Reader): Spsa {
  const { param_history, ...spsa } = read<Spsa>(spsaShape, value, 'args.spsa.');
  const params = spsa.params.map((one) => {
    return read<Spsa['params'][number]>(paramShape, one, 'args.spsa.params.');
  });
  if (param_history === undefined) return { ...spsa, params };
  const path = 'args.spsa.param_history.';
  const history = param_history.map((samples) => {
    if (!Array.isArray(samples)) throw new DocumentFault(`${path} is not a list of lists`);
    return samples.map((one) => read<(typeof samples)[number]>(sampleShape, one, path));
  });
  return { ...spsa, params, param_history: history };
}

function readTask(shape: Shape, value: unknown, path: string, read: Reader): TaskRecord {
  const task = read<TaskRecord>(shape, value, path);
  const stats = read<Stats>(statsShape, task.stats, `${path}stats.`);
  const worker_info = read<StoredWorkerInfo>(workerShape, task.worker_info, `${path}worker_info.`);
  const { spsa_params, bad, ...rest } = task;
  return {
    ...rest,
    stats,
    worker_info,
    ...(bad && { bad }),
    ...(spsa_params && {
      spsa_params: read(flipsShape, spsa_params, `${path}spsa_params.`),
    }),
  };
}
