import { RE2JS } from 're2js';
import sift from 'sift';
import { nextTurn } from 'spillway/internal';
import { demand, fleetError } from '../errors.ts';
import { isRecord } from '../protocol/patterns.ts';
import type { ActionRow } from '../storage/fleet-schema.ts';
import type { FleetStorage } from '../storage/fleet-storage.ts';

/** An entry of the log as it is shown: without the fields that it does not have. */
export type Entry = Readonly<Record<string, unknown>>;

type Column = keyof ActionRow;
type Compare = '=' | 'in' | '>' | '>=' | '<' | '<=';
type Condition = readonly [column: Column, compare: Compare, value: string | number | string[]];

const foundMax = 200;
/** The newest entries, which a query searches. */
const entriesMax = 100_000;
const pageSize = 500;
/** Characters that are searched before the event loop turns: about a millisecond (2026-11). */
const sliceLength = 65_536;
const depthMax = 20;
const conditionsMax = 64;
const valuesMax = 200;
const expressionMax = 500;
const textColumns = ['action', 'username', 'run_id', 'run', 'worker', 'message', 'user', 'nn'];
const orders = { $gt: '>', $gte: '>=', $lt: '<', $lte: '<=' } as const;
const groups = ['$and', '$or', '$nor'];
const operators = ['$eq', '$ne', '$in', '$nin', '$not', '$exists', '$regex', '$options'];
/** Flags of a pattern, also as Python and Perl write them at its beginning. */
const flags = { i: RE2JS.CASE_INSENSITIVE, m: RE2JS.MULTILINE, s: RE2JS.DOTALL } as const;
const leadingFlags = /^\(\?([ims]+)\)/;

/**
 * The newest entries of the log that a query in the form of MongoDB matches. SQL narrows by what
 * must be equal and by time; the rest is tried on each entry, with patterns in linear time. Throws
 * `REQUEST_REFUSED` for what is no query.
 */
export async function searchActions(
  storage: FleetStorage,
  query: unknown,
  signal?: AbortSignal,
): Promise<Entry[]> {
  checkQuery(query, 0, { left: conditionsMax });
  const matches = testOf(query as object);
  const conditions = Object.entries(query as object).flatMap(([key, value]) => narrow(key, value));
  const found: Entry[] = [];
  let last: ActionRow | undefined;
  for (let seen = 0; seen < entriesMax && found.length < foundMax; seen += pageSize) {
    const page = await pageAfter(storage, conditions, last, signal);
    let length = 0;
    for (const row of page) {
      const entry = entryOf(row);
      if (matches(entry)) found.push(entry);
      length += row.message?.length ?? 0;
      if (length < sliceLength) continue;
      length = 0;
      await new Promise<void>(nextTurn);
      signal?.throwIfAborted();
    }
    last = page.at(-1);
    if (page.length < pageSize) break;
  }
  return found.slice(0, foundMax);
}

function testOf(query: object): (entry: Entry) => boolean {
  const $regex = (source: unknown, owner: { $options?: unknown }, options: unknown) => {
    const pattern = patternOf(source, owner.$options ?? '');
    const test = (value: unknown) => typeof value === 'string' && pattern.test(value);
    return sift.createEqualsOperation(test, owner, options as never);
  };
  try {
    return sift.default(query, { operations: { $regex } });
  } catch (error) {
    throw fleetError('REQUEST_REFUSED', 'query: cannot be done', { cause: error });
  }
}

function patternOf(source: unknown, options: unknown): RE2JS {
  demandQuery(typeof source === 'string' && source.length <= expressionMax, '$regex: a short text');
  demandQuery(typeof options === 'string' && /^[ims]*$/.test(options), '$options: i, m or s');
  const [lead = '', inline = ''] = leadingFlags.exec(source as string) ?? [];
  const all = [...`${options}${inline}`] as (keyof typeof flags)[];
  const bits = all.reduce((sum, flag) => sum | flags[flag], 0);
  return RE2JS.compile((source as string).slice(lead.length), bits);
}

/** SQL conditions that hold for every entry that the field of the query matches. */
function narrow(key: string, value: unknown): Condition[] {
  const column = key === '_id' ? 'id' : (key as Column);
  if (column === 'time') return narrowTime(value);
  if (column !== 'id' && !textColumns.includes(column)) return [];
  if (typeof value === 'string') return [[column, '=', value]];
  const { $eq, $in } = Object(value) as { $eq?: unknown; $in?: unknown };
  if (typeof $eq === 'string') return [[column, '=', $eq]];
  if (!Array.isArray($in) || $in.includes(null)) return [];
  const texts = $in.filter((one) => typeof one === 'string');
  return texts.length === 0 ? [] : [[column, 'in', texts]];
}

function narrowTime(value: unknown): Condition[] {
  return Object.entries(orders).flatMap(([name, compare]) => {
    const bound = Object(value)[name];
    return typeof bound === 'number' ? [['time', compare, bound] as const] : [];
  });
}

async function pageAfter(
  storage: FleetStorage,
  conditions: readonly Condition[],
  last: ActionRow | undefined,
  signal: AbortSignal | undefined,
): Promise<ActionRow[]> {
  let rows = storage.database.kysely.selectFrom('actions').selectAll();
  for (const [column, compare, value] of conditions) rows = rows.where(column, compare, value);
  if (last !== undefined) {
    const { time, id } = last;
    rows = rows.where((build) => {
      const sameTime = build.and([build('time', '=', time), build('id', '<', id)]);
      return build.or([build('time', '<', time), sameTime]);
    });
  }
  return rows.orderBy('time', 'desc').orderBy('id', 'desc').limit(pageSize).execute({ signal });
}

function entryOf({ id, ...row }: ActionRow): Entry {
  const present = Object.entries(row).filter(([, value]) => value !== null);
  return { _id: id, ...Object.fromEntries(present) };
}

/** Refuses queries that are too long or not valid, and operators that run code. */
function checkQuery(query: unknown, depth: number, conditions: { left: number }): void {
  demandQuery(isRecord(query), 'an object is needed');
  demandQuery(depth <= depthMax, 'too deep');
  for (const [key, value] of Object.entries(query as object)) {
    conditions.left -= 1;
    demandQuery(conditions.left >= 0, 'too long');
    if (groups.includes(key)) {
      demandQuery(Array.isArray(value) && value.length > 0, `${key}: a list is needed`);
      for (const one of value) checkQuery(one, depth + 1, conditions);
      continue;
    }
    demandQuery(!key.startsWith('$'), `${key} is not known`);
    checkField(value, depth, conditions);
  }
}

function checkField(value: unknown, depth: number, conditions: { left: number }): void {
  if (typeof value !== 'object' || value === null) return;
  demandQuery(isRecord(value) && Object.keys(value).length > 0, 'a value or an operator is needed');
  demandQuery(depth <= depthMax, 'too deep');
  demandQuery(!('$options' in value) || '$regex' in value, '$options needs a $regex');
  for (const [name, operand] of Object.entries(value)) {
    conditions.left -= 1;
    demandQuery(conditions.left >= 0, 'too long');
    demandQuery(operators.includes(name) || name in orders, `${name} is not known`);
    const isList = name === '$in' || name === '$nin';
    if (name === '$not') checkField(operand, depth + 1, conditions);
    else if (isList) demandQuery(isListOfValues(operand), `${name}: a short list is needed`);
    else demandQuery(!isRecord(operand) && !Array.isArray(operand), `${name}: a value is needed`);
  }
}

function isListOfValues(value: unknown): boolean {
  if (!Array.isArray(value) || value.length > valuesMax) return false;
  return value.every((one) => typeof one !== 'object' || one === null);
}

function demandQuery(holds: boolean, complaint: string): asserts holds {
  demand(holds, `query: ${complaint}`);
}
