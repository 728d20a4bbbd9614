import { Ajv, type ErrorObject } from 'ajv';
import { flag, oneOf, pattern, type Rule, text } from '../protocol/read-request.ts';
import { timeControlPattern } from '../statistics/time-control.ts';
import type { BadTaskRecord, RunArgs, RunRecord, TaskRecord } from '../world/records.ts';

/** A document cannot be taken; the message is the same for all with the same fault. */
export class DocumentFault extends Error {}

/** Fields by name; those without a default must be there. */
type Shape = Readonly<Record<string, Rule>>;

export const decimal: Rule = { title: 'a number', type: 'number' };
export const texts: Rule = listOf(text);
export const objectId: Rule = pattern(/^[0-9a-f]{24}$/, 'an object id');
const timeControl = pattern(timeControlPattern, 'a time control');
const count = whole(0);

export function whole(minimum: number): Rule {
  const bounds = { minimum, maximum: Number.MAX_SAFE_INTEGER };
  return { title: `an integer from ${minimum}`, type: 'integer', ...bounds };
}

function listOf(items?: Rule, more: object = {}): Rule {
  return { title: 'a list', type: 'array', ...(items && { items }), ...more };
}

export function document(properties: Shape): Rule {
  const needed = Object.entries(properties).filter(([, rule]) => rule.isOptional !== true);
  const names = needed.map(([name]) => name);
  return { title: 'a document', type: 'object', properties, required: names };
}

/** Fields that documents cannot do without. */
export function required(rule: Rule, ...names: readonly string[]): Shape {
  return Object.fromEntries(names.map((name) => [name, rule]));
}

/** Fields that get a value where they are missing, or stay away. */
export function optional(rule: Rule, absent: unknown, ...names: readonly string[]): Shape {
  const value = absent === undefined ? {} : { default: absent };
  return required({ ...rule, ...value, isOptional: true }, ...names);
}

type OnLeftOut = (path: string) => void;

const ajv = new Ajv({ strict: false, useDefaults: true, verbose: true });

/** Reads documents of a shape; throws {@link DocumentFault}, and tells what it leaves out. */
export function reader<Result>(
  shape: Shape,
  unneeded: readonly string[] = [],
): (value: unknown, onLeftOut: OnLeftOut) => Result {
  const rule = document(shape);
  const isRight = ajv.compile(rule);
  return (value, onLeftOut) => {
    prune(rule, value, '', (path) => {
      if (!unneeded.includes(path)) onLeftOut(path);
    });
    if (!isRight(value)) throw new DocumentFault(faultOf(isRight.errors?.[0] as ErrorObject));
    return value as Result;
  };
}

/** Removes fields that have no place, and those that are null. */
function prune(rule: Rule, value: unknown, path: string, out: OnLeftOut): void {
  const { properties, items } = rule as { properties?: Shape; items?: Rule };
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    for (const one of items === undefined ? [] : value) prune(items as Rule, one, path, out);
    return;
  }
  const fields = value as Record<string, unknown>;
  for (const name of properties === undefined ? [] : Object.keys(fields)) {
    const own = Object.hasOwn(properties ?? {}, name) ? properties?.[name] : undefined;
    if (own === undefined) out(`${path}${name}`);
    if (own === undefined || fields[name] === null) delete fields[name];
    else prune(own, fields[name], `${path}${name}.`, out);
  }
}

/** A complaint is the same for all elements of a list. */
function faultOf({ instancePath, keyword, params, parentSchema }: ErrorObject): string {
  const names = instancePath.split('/').filter((name) => !/^\d*$/.test(name));
  if (keyword === 'required') return `${[...names, params.missingProperty].join('.')} is missing`;
  return `${names.join('.') || 'it'} is not ${parentSchema?.title}`;
}

/** A run of fishtest with its tasks, in the form in which they are stored here. */
export interface FishtestRun {
  readonly record: RunRecord;
  readonly tasks: readonly TaskRecord[];
  readonly badTasks: readonly BadTaskRecord[];
}

const stats = document({
  ...required(count, 'wins', 'losses', 'draws'),
  ...optional(count, 0, 'crashes', 'time_losses'),
  ...required(listOf(count, { minItems: 5, maxItems: 5, title: 'five counts' }), 'pentanomial'),
});

/** Descriptions of old workers lack what was not asked then. */
const worker = document({
  ...required(text, 'username', 'unique_key'),
  ...required(whole(1), 'concurrency'),
  ...optional(text, '?', 'uname', 'compiler', 'ARCH'),
  ...optional(text, 'unknown', 'worker_arch'),
  ...optional(texts, ['?', '?'], 'architecture'),
  ...optional(count, 0, 'max_memory', 'version'),
  ...optional(whole(1), 1, 'min_threads'),
  ...optional(listOf(), [0, 0, 0], 'python_version', 'gcc_version'),
  ...optional(flag, false, 'modified', 'near_github_api_limit'),
  ...optional(decimal, 0, 'nps'),
  ...optional(text, '?.?.?.?', 'remote_addr'),
  ...optional(text, '?', 'country_code'),
});

const flips = document({ ...required(count, 'iter'), ...required(listOf(), 'packed_flips') });

const task: Shape = {
  ...required(count, 'num_games'),
  ...required(stats, 'stats'),
  ...required(worker, 'worker_info'),
  ...required(decimal, 'last_updated'),
  ...optional(flag, false, 'active'),
  ...optional(count, 0, 'start'),
  ...optional(flag, undefined, 'bad'),
  ...optional(flips, undefined, 'spsa_params'),
};

const badTask: Shape = {
  ...task,
  ...required(count, 'task_id'),
  ...optional({ title: 'anything' }, undefined, 'residual'),
  ...optional(oneOf(['green', 'yellow', 'red']), 'red', 'residual_color'),
};

const overshoot = document(
  required(
    decimal,
    ...['last_update', 'skipped_updates', 'ref0', 'm0', 'sq0', 'ref1', 'm1', 'sq1'],
  ),
);

const sprt = document({
  ...required(decimal, 'elo0', 'elo1', 'llr'),
  ...optional(decimal, 0.05, 'alpha', 'beta'),
  ...optional(oneOf(['BayesElo', 'logistic', 'normalized']), undefined, 'elo_model'),
  ...optional(oneOf(['', 'accepted', 'rejected']), '', 'state'),
  ...optional(whole(1), 1, 'batch_size'),
  ...optional(decimal, -Math.log(19), 'lower_bound'),
  ...optional(decimal, Math.log(19), 'upper_bound'),
  ...optional(overshoot, undefined, 'overshoot'),
  ...optional(decimal, undefined, 'lost_samples', 'illegal_update'),
});

const param = document({
  ...required(text, 'name'),
  ...required(decimal, 'start', 'min', 'max', 'c_end', 'r_end', 'c', 'a_end', 'a', 'theta'),
});
const sample = document(required(decimal, 'theta', 'R', 'c'));
const spsa = document({
  ...required(decimal, 'A', 'alpha', 'gamma', 'iter', 'num_iter'),
  ...required(listOf(param), 'params'),
  ...optional(text, '', 'raw_params'),
  ...optional(oneOf(['classic']), undefined, 'algorithm'),
  ...optional(listOf(listOf(sample)), undefined, 'param_history'),
});

const args = document({
  ...required(text, 'base_tag', 'new_tag', 'resolved_base', 'resolved_new', 'username', 'book'),
  ...required(timeControl, 'tc'),
  ...required(whole(1), 'num_games', 'threads'),
  ...optional(text, '', 'msg_base', 'msg_new', 'info', 'base_options', 'new_options'),
  ...optional(text, '', 'base_signature', 'new_signature', 'tests_repo'),
  ...optional(texts, [], 'base_nets', 'new_nets'),
  ...optional(timeControl, undefined, 'new_tc'),
  ...optional(text, '8', 'book_depth'),
  ...optional(text, undefined, 'master_repo', 'arch_filter', 'compiler'),
  ...optional(flag, false, 'auto_purge'),
  ...optional(flag, true, 'adjudication'),
  ...optional(decimal, 100, 'throughput', 'itp'),
  ...optional(decimal, 0, 'priority'),
  ...optional(sprt, undefined, 'sprt'),
  ...optional(spsa, undefined, 'spsa'),
});

interface RawRun extends Omit<RunRecord, 'tc_base' | 'args'> {
  readonly tc_base?: number;
  readonly args: Omit<RunArgs, 'new_tc'> & { readonly new_tc?: string };
  readonly tasks: readonly TaskRecord[];
  readonly bad_tasks: readonly BadTaskRecord[];
}

const rawRun = reader<RawRun>({
  ...required(objectId, '_id'),
  ...required(decimal, 'start_time', 'last_updated'),
  ...required(args, 'args'),
  ...required(stats, 'results'),
  ...required(flag, 'finished'),
  ...optional(listOf(document(task)), [], 'tasks'),
  ...optional(listOf(document(badTask)), [], 'bad_tasks'),
  ...optional(count, 0, 'failures', 'workers', 'cores', 'committed_games', 'total_games'),
  ...optional(decimal, 0, 'nps', 'games_per_minute'),
  ...optional(count, 24, 'version'),
  ...optional(decimal, undefined, 'tc_base'),
  ...optional(flag, false, 'approved', 'deleted', 'failed', 'is_green', 'is_yellow'),
  ...optional(text, '', 'approver'),
  ...optional(objectId, undefined, 'rescheduled_from'),
});

/** Reads a run; throws {@link DocumentFault}, and tells which fields have no place here. */
export function readRun(value: unknown, onLeftOut: OnLeftOut): FishtestRun {
  const { tasks, bad_tasks, ...run } = rawRun(value, onLeftOut);
  const { tc, new_tc = tc } = run.args;
  if (run.args.sprt && run.args.spsa) throw new DocumentFault('args has sprt and spsa');
  const { tc_base = Number.parseFloat(tc.replace(/^\d+\//, '')) } = run;
  return {
    record: { ...run, tc_base, args: { ...run.args, new_tc } },
    tasks: tasks.map(({ bad, ...one }) => ({ ...one, ...(bad && { bad }) })),
    badTasks: bad_tasks.map((one) => ({
      ...one,
      bad: true,
      residual: Number(one.residual ?? Infinity),
    })),
  };
}
