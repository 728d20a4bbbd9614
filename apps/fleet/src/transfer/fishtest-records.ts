import { Ajv, type ErrorObject } from 'ajv';
import {
  type DocumentOf,
  decimal,
  document,
  list,
  oneOf,
  optional,
  orElse,
  type Rule,
  required,
  type Shape,
  whole,
} from '../protocol/rules.ts';
import { argsShape, runShape, taskShape, timeControl } from '../world/records.ts';

/** A fault of a document; its message is the same for all documents with the same fault. */
export class DocumentFault extends Error {}

type OnLeftOut = (path: string) => void;

const ajv = new Ajv({ strict: false, useDefaults: true, verbose: true });

/** Reads documents of a shape and reports left out fields; throws {@link DocumentFault}. */
export function reader<S extends Shape>(shape: S, unneeded: readonly string[] = []) {
  const rule = document(shape);
  const isRight = ajv.compile(rule);
  return (value: unknown, onLeftOut: OnLeftOut) => {
    prune(rule, value, '', (path) => {
      if (!unneeded.includes(path)) onLeftOut(path);
    });
    if (!isRight(value)) throw new DocumentFault(faultOf(isRight.errors?.[0] as ErrorObject));
    return value as DocumentOf<S>;
  };
}

/** Removes fields that are unknown or null. */
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

const badTaskShape = {
  ...taskShape,
  ...required(whole(0), 'task_id'),
  ...optional({ title: 'anything' }, 'residual'),
  ...orElse('red', oneOf('green', 'yellow', 'red'), 'residual_color'),
};

const readRaw = reader({
  ...runShape,
  ...required(document({ ...argsShape, ...optional(timeControl, 'new_tc') }), 'args'),
  ...optional(decimal, 'tc_base'),
  ...orElse([], list(document(taskShape)), 'tasks'),
  ...orElse([], list(document(badTaskShape)), 'bad_tasks'),
});

/** Reads a run and its tasks in the form in which they are stored here. */
export function readRun(value: unknown, onLeftOut: OnLeftOut) {
  const { tasks, bad_tasks, ...run } = readRaw(value, onLeftOut);
  const { tc, new_tc = tc } = run.args;
  if (run.args.sprt && run.args.spsa) throw new DocumentFault('args has sprt and spsa');
  const { tc_base = Number.parseFloat(tc.replace(/^\d+\//, '')) } = run;
  return {
    record: { ...run, tc_base, args: { ...run.args, new_tc } },
    tasks: tasks.map(({ bad, ...one }) => ({ ...one, ...(bad && { bad }) })),
    badTasks: bad_tasks.map(({ residual = Infinity, ...one }) => {
      return { ...one, bad: true as const, residual: Number(residual) };
    }),
  };
}
