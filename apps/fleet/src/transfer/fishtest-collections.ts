import { patterns } from '../protocol/patterns.ts';
import {
  document,
  flag,
  moment,
  momentIn,
  optional,
  orElse,
  pattern,
  type Rule,
  required,
  text,
  whole,
} from '../protocol/rules.ts';
import type { NetRow, UserRow } from '../storage/fleet-schema.ts';
import { noAction, runRow, type UpsertTable, withoutNul } from '../storage/rows.ts';
import { impossibleHash } from '../users/password.ts';
import { objectId, texts } from '../world/records.ts';
import { DocumentFault, reader, readRun } from './fishtest-records.ts';

/** A document of fishtest as rows of our tables. */
export interface Entry {
  readonly key: string;
  /** Time of its last change, in UNIX milliseconds; 0 if one that is here stays as it is. */
  readonly updated: number;
  /** Rows by table, all with the same columns; the first table is the one that has the key. */
  readonly rows: Readonly<Partial<Record<UpsertTable, readonly object[]>>>;
}

/** A collection of fishtest, and where its documents go. */
export interface Collection {
  /** Name in fishtest; its file is `<name>.json`. */
  readonly name: string;
  /** Table of the documents, and its key. */
  readonly table: 'users' | 'nns' | 'blocked_workers' | 'actions' | 'runs';
  readonly key: string;
  /** Reads a document; throws {@link DocumentFault}. */
  readonly read: (value: unknown, onLeftOut: (path: string) => void) => Entry;
}

const name: Rule<string> = { title: 'a name', type: 'string', minLength: 1, maxLength: 200 };

const readUser = reader(
  {
    ...required(name, 'username'),
    ...orElse(0, moment, 'registration_time'),
    ...orElse(false, flag, 'pending', 'blocked'),
    ...orElse('', text, 'email', 'tests_repo'),
    ...orElse([], texts, 'groups'),
    ...orElse(16, whole(0), 'machine_limit'),
  },
  ['_id', 'password'],
);

/** Passwords are not imported, since Fleet stores only hashes; a link sets a new one. */
const users: Collection = {
  name: 'users',
  table: 'users',
  key: 'username',
  read: (value, onLeftOut) => {
    const user = readUser(value, onLeftOut);
    const row: UserRow = {
      ...user,
      password_hash: impossibleHash,
      pending: Number(user.pending),
      blocked: Number(user.blocked),
      groups: JSON.stringify(user.groups),
    };
    return { key: user.username, updated: 0, rows: { users: [row] } };
  },
};

const test = document({ ...required(moment, 'date'), ...required(objectId, 'id') });
const readNet = reader(
  {
    ...required(pattern(patterns.netName, 'the name of a net'), 'name'),
    ...required(name, 'user'),
    ...orElse(0, whole(0), 'downloads'),
    ...orElse(false, flag, 'is_master'),
    ...optional(test, 'first_test', 'last_test'),
  },
  ['_id'],
);

const nns: Collection = {
  name: 'nns',
  table: 'nns',
  key: 'name',
  read: (value, onLeftOut) => {
    const { first_test: first, last_test: last, ...net } = readNet(value, onLeftOut);
    const row: NetRow = {
      ...net,
      is_master: Number(net.is_master),
      first_date: first?.date ?? null,
      first_id: first?.id ?? null,
      last_date: last?.date ?? null,
      last_id: last?.id ?? null,
    };
    return { key: row.name, updated: 0, rows: { nns: [row] } };
  },
};

const readWorker = reader(
  {
    ...required(name, 'worker_name'),
    ...required(flag, 'blocked'),
    ...orElse('', text, 'message'),
    ...orElse(0, moment, 'last_updated'),
  },
  ['_id'],
);

const workers: Collection = {
  name: 'workers',
  table: 'blocked_workers',
  key: 'worker_name',
  read: (value, onLeftOut) => {
    const { blocked, ...worker } = readWorker(value, onLeftOut);
    if (!blocked) throw new DocumentFault('it is not blocked, and only blocked ones are kept');
    return { key: worker.worker_name, updated: 0, rows: { blocked_workers: [worker] } };
  },
};

const readAction = reader({
  ...required(objectId, '_id'),
  ...required(momentIn(1_000), 'time'),
  ...required(name, 'action', 'username'),
  ...optional(text, 'run', 'worker', 'message', 'user', 'nn'),
  ...optional(objectId, 'run_id'),
  ...optional(whole(0), 'task_id'),
});

const actions: Collection = {
  name: 'actions',
  table: 'actions',
  key: 'id',
  read: (value, onLeftOut) => {
    const { _id: id, ...action } = readAction(value, onLeftOut);
    return { key: id, updated: 0, rows: { actions: [{ ...noAction, ...action, id }] } };
  },
};

const runs: Collection = {
  name: 'runs',
  table: 'runs',
  key: 'id',
  read: (value, onLeftOut) => {
    const { record, tasks, badTasks } = readRun(value, onLeftOut);
    const { _id: run_id, last_updated, args } = record;
    const history = args.spsa?.param_history;
    const param_history = history === undefined ? null : JSON.stringify(history);
    const rows = (records: readonly object[]) =>
      records.map((one, id) => ({ run_id, id, record: JSON.stringify(one) }));
    const run = runRow({ record });
    return {
      key: run_id,
      updated: last_updated,
      rows: {
        runs: [{ ...run, param_history }],
        tasks: rows(tasks),
        bad_tasks: rows(badTasks),
      },
    };
  },
};

/** Collections in the order in which they are read. */
export const collections: readonly Collection[] = [users, nns, workers, actions, runs];

/**
 * Parses a line of MongoDB's extended JSON, relaxed, canonical or of version 1: object ids become
 * texts, dates UNIX milliseconds, numbers numbers, and bytes lists of numbers. Texts lose
 * characters that Postgres does not take.
 */
export function extendedJson(text: string): unknown {
  return plain(JSON.parse(text));
}

function plain(value: unknown): unknown {
  if (typeof value === 'string') return withoutNul(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at += 1) value[at] = plain(value[at]);
    return value;
  }
  const fields = value as Record<string, unknown>;
  for (const name in fields) {
    if (name.startsWith('$')) return wrapped(fields, name);
    fields[name] = plain(fields[name]);
  }
  return fields;
}

/** The value of an object such as `{ "$oid": "…" }`; an unknown one stays as it is. */
function wrapped(fields: Record<string, unknown>, name: string): unknown {
  const value = fields[name];
  if (name === '$oid' || name === '$symbol') return value;
  if (/^\$number(Int|Long|Double|Decimal)$/.test(name)) return Number(value);
  if (name === '$date') {
    return typeof value === 'string' ? Date.parse(value) : Number(plain(value));
  }
  if (name === '$binary' || name === '$type') {
    const { $binary } = fields;
    const base64 = typeof $binary === 'string' ? $binary : Object($binary).base64;
    return [...Buffer.from(String(base64), 'base64')];
  }
  return name === '$undefined' ? undefined : fields;
}
