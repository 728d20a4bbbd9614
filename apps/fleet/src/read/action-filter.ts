import { type Expression, type ExpressionBuilder, type SqlBool, sql } from 'kysely';
import { fleetError } from '../errors.ts';
import type { FleetSchema } from '../storage/fleet-schema.ts';

/** The log's columns with the type of their values. */
const columns = {
  _id: 'string',
  time: 'number',
  action: 'string',
  username: 'string',
  run_id: 'string',
  run: 'string',
  task_id: 'number',
  worker: 'string',
  message: 'string',
  user: 'string',
  nn: 'string',
} as const;

type Key = keyof typeof columns;
type Column = Exclude<Key, '_id'> | 'id';
type Build = ExpressionBuilder<FleetSchema, 'actions'>;
type Condition = Expression<SqlBool>;

const depthMax = 6;
const conditionsMax = 64;
const valuesMax = 200;
const orders = { $gt: '>', $gte: '>=', $lt: '<', $lte: '<=' } as const;
const never: Condition = sql<SqlBool>`1 = 0`;
const always: Condition = sql<SqlBool>`1 = 1`;

/** A query in the form of MongoDB as a condition on the log; throws for what it cannot express. */
export function actionFilter(query: unknown): (build: Build) => Condition {
  return (build) => new FilterReader(build).query(query, 0);
}

class FilterReader {
  readonly #build: Build;
  #conditions = 0;

  constructor(build: Build) {
    this.#build = build;
  }

  query(query: unknown, depth: number): Condition {
    const parts = entriesOf(query).map(([key, value]) => {
      this.#conditions += 1;
      demand(depth <= depthMax && this.#conditions <= conditionsMax, 'too long');
      if (key === '$and') return this.#build.and(this.#queries(value, depth));
      if (key === '$or') return this.#build.or(this.#queries(value, depth));
      if (key === '$nor') return this.#build.not(this.#build.or(this.#queries(value, depth)));
      demand(!key.startsWith('$'), `${key} is not known`);
      return this.#field(key, value, depth);
    });
    return parts.length === 0 ? always : this.#build.and(parts);
  }

  #queries(list: unknown, depth: number): Condition[] {
    demand(Array.isArray(list) && list.length > 0, 'a list is needed');
    return (list as unknown[]).map((one) => this.query(one, depth + 1));
  }

  #field(key: string, value: unknown, depth: number): Condition {
    if (typeof value !== 'object' || value === null) return this.#equal(key, value);
    const parts = entriesOf(value).map(([operator, operand]) => {
      this.#conditions += 1;
      demand(depth <= depthMax && this.#conditions <= conditionsMax, 'too long');
      return this.#operator(key, operator, operand, depth);
    });
    demand(parts.length > 0, 'an operator is needed');
    return this.#build.and(parts);
  }

  #operator(key: string, operator: string, operand: unknown, depth: number): Condition {
    if (operator === '$eq') return this.#equal(key, operand);
    if (operator === '$ne') return this.#not(this.#equal(key, operand));
    if (operator === '$in') return this.#in(key, operand);
    if (operator === '$nin') return this.#not(this.#in(key, operand));
    if (operator === '$not') return this.#not(this.#field(key, operand, depth + 1));
    if (operator === '$exists') {
      const isThere = this.#not(this.#equal(key, null));
      return operand ? isThere : this.#not(isThere);
    }
    demand(operator in orders, `${operator} is not known`);
    demand(isScalar(operand) && operand !== null, `${operator} needs a value`);
    if (!fits(key, operand)) return never;
    const compare = orders[operator as keyof typeof orders];
    return this.#build(column(key), compare, operand as string | number);
  }

  #in(key: string, operand: unknown): Condition {
    demand(Array.isArray(operand) && operand.length <= valuesMax, 'a short list is needed');
    const any = (operand as unknown[]).map((value) => this.#equal(key, value));
    return any.length === 0 ? never : this.#build.or(any);
  }

  /** What is absent equals null, and nothing else. */
  #equal(key: string, value: unknown): Condition {
    demand(isScalar(value), 'a value is needed');
    if (!(key in columns)) return value === null ? always : never;
    if (value === null) return this.#build(column(key), 'is', null);
    return fits(key, value) ? this.#build(column(key), '=', value as string | number) : never;
  }

  /** A comparison with what is absent is neither true nor false in SQL: here it is false. */
  #not(condition: Condition): Condition {
    return sql<SqlBool>`not coalesce(${condition}, ${never})`;
  }
}

function fits(key: string, value: unknown): boolean {
  return columns[key as Key] === typeof value;
}

function column(key: string): Column {
  return key === '_id' ? 'id' : (key as Column);
}

function isScalar(value: unknown): boolean {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value);
}

function entriesOf(value: unknown): [string, unknown][] {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  demand(isObject, 'an object is needed');
  return Object.entries(value as object);
}

function demand(holds: boolean, complaint: string): void {
  if (!holds) throw fleetError('REQUEST_REFUSED', `query: ${complaint}`);
}

/** An entry of the log; what is absent in it equals null. */
export type Entry = Readonly<Record<string, unknown>>;

type Test = (entry: Entry) => boolean;

const expressionMax = 500;
/** Python and Perl write them at the beginning of an expression. */
const leadingFlags = /^\(\?([ims]+)\)/;

/** Says of entries whether a query like those of MongoDB matches them; throws for what is none. */
export function entryMatch(query: unknown): Test {
  const tests = entriesOf(query).map(([key, value]): Test => {
    if (key === '$and') return every(list(value).map(entryMatch));
    if (key === '$or') return some(list(value).map(entryMatch));
    if (key === '$nor') return not(some(list(value).map(entryMatch)));
    if (key.startsWith('$')) throw new TypeError(`${key} is not known`);
    return field(key, value);
  });
  return every(tests);
}

function field(key: string, value: unknown): Test {
  if (typeof value !== 'object' || value === null) return equal(key, value);
  const { $regex, $options, ...rest } = value as Record<string, unknown>;
  const tests = entriesOf(rest).map(([name, operand]) => operator(key, name, operand));
  if ($regex !== undefined) tests.push(expression(key, $regex, $options ?? ''));
  else if ($options !== undefined) throw new TypeError('$options needs a $regex');
  if (tests.length === 0) throw new TypeError('an operator is needed');
  return every(tests);
}

function operator(key: string, name: string, operand: unknown): Test {
  if (name === '$eq') return equal(key, operand);
  if (name === '$ne') return not(equal(key, operand));
  if (name === '$in') return some(list(operand).map((one) => equal(key, one)));
  if (name === '$nin') return not(some(list(operand).map((one) => equal(key, one))));
  if (name === '$not') return not(field(key, entriesOf(operand) && operand));
  if (name === '$exists') return operand ? not(equal(key, null)) : equal(key, null);
  return order(key, name, operand);
}

function order(key: string, name: string, operand: unknown): Test {
  if (!(typeof operand === 'string' || typeof operand === 'number')) throw new TypeError(name);
  const within = (value: string | number) => {
    if (name === '$gt') return value > operand;
    if (name === '$gte') return value >= operand;
    if (name === '$lt') return value < operand;
    if (name === '$lte') return value <= operand;
    throw new TypeError(`${name} is not known`);
  };
  within(operand);
  return (entry) => typeof entry[key] === typeof operand && within(entry[key] as string | number);
}

function expression(key: string, source: unknown, options: unknown): Test {
  if (typeof source !== 'string' || source.length > expressionMax) throw new TypeError('$regex');
  if (typeof options !== 'string' || !/^[ims]*$/.test(options)) throw new TypeError('$options');
  const [lead = '', inline = ''] = leadingFlags.exec(source) ?? [];
  const flags = [...new Set(options + inline)].join('');
  const pattern = new RegExp(source.slice(lead.length), flags);
  return (entry) => typeof entry[key] === 'string' && pattern.test(entry[key] as string);
}

function equal(key: string, value: unknown): Test {
  if (typeof value === 'object' && value !== null) throw new TypeError('a value is needed');
  return (entry) => (entry[key] ?? null) === value;
}

function every(tests: readonly Test[]): Test {
  return (entry) => tests.every((test) => test(entry));
}

function some(tests: readonly Test[]): Test {
  return (entry) => tests.some((test) => test(entry));
}

function not(test: Test): Test {
  return (entry) => !test(entry);
}

function list(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new TypeError('a list is needed');
  return value;
}
