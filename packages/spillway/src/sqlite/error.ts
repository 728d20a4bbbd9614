import { check } from '../base/check.ts';
import { type ErrorCode, inDoubt, SpillwayError } from '../base/errors.ts';
import { field } from '../base/failure.ts';
import type { SqliteFailure, SqliteOutcome, SqlResult, SqlStatement, SqlValue } from './message.ts';

/** Our code for SQLite's result code; a result code that is not here is a mistake in the SQL. */
const codes: Readonly<Record<number, { readonly code: ErrorCode; readonly says: string }>> = {
  4: { code: 'DATABASE_LOST', says: 'the transaction was rolled back' },
  5: { code: 'DATABASE_BUSY', says: 'another process holds the file; nothing was changed' },
  6: { code: 'DATABASE_BUSY', says: 'the table is locked; nothing was changed' },
  7: { code: 'DATABASE_LOST', says: 'out of memory; the transaction was rolled back' },
  10: { code: 'DATABASE_LOST', says: 'the file could not be read or written' },
  11: { code: 'DATABASE_CORRUPT', says: 'it is damaged: restore a backup' },
  13: { code: 'DATABASE_FULL', says: 'no space is left; the transaction was rolled back' },
  14: { code: 'DATABASE_LOST', says: 'the file is gone or cannot be opened' },
  19: { code: 'DATABASE_CONSTRAINT', says: 'the transaction was rolled back' },
  26: { code: 'DATABASE_CORRUPT', says: 'the file is no database' },
};

/** SQLite's result code when the disk is too full for the index of the log to grow. */
const shmSize = 10 | (19 << 8);

/** SQLite's result code for a statement that the authorizer denied. */
const denied = 23;
const deniedMessage =
  'transactions are begun and ended by write() and transaction(), there are no savepoints, ' +
  'and the pragmas that set up a connection cannot be changed';

/** SQLite's primary result code of an error, or 0. */
export function primaryCode(error: unknown): number {
  const errcode = field(error, 'errcode');
  return typeof errcode === 'number' ? errcode & 0xff : 0;
}

/** Turns a thread's error into data that can be sent. */
export function toFailure(
  error: unknown,
  path: string,
  sql?: string,
  isCommit = false,
): SqliteFailure {
  const errcode = field(error, 'errcode');
  return {
    message: error instanceof Error ? error.message : String(error),
    code: String(field(error, 'code') ?? 'ERR_SQLITE_ERROR'),
    errcode: typeof errcode === 'number' ? errcode : 0,
    path,
    sql,
    isCommit,
  };
}

/** Turns a failure into the error that the caller gets. */
export function toError({ message, code, errcode, path, sql, isCommit }: SqliteFailure): unknown {
  const cause = Object.assign(new Error(message), { code, errcode });
  const known = codes[errcode === shmSize ? 13 : errcode & 0xff];
  if (known !== undefined) {
    // A constraint is about the rows; everything else is about the file.
    const where = known.code === 'DATABASE_CONSTRAINT' ? '' : `${path}: `;
    const error = new SpillwayError(known.code, `${message} (${where}${known.says})`, { cause });
    return isCommit && known.code === 'DATABASE_LOST' ? inDoubt(error) : error;
  }
  const why = errcode === denied ? deniedMessage : message;
  const at = sql === undefined ? '' : ` in: ${sql.slice(0, 200)}`;
  return Object.assign(new Error(`${why}${at}`), { code, errcode });
}

/** Gives the results of one outcome, or throws its error. */
export function resultsOf(outcome: SqliteOutcome | undefined): readonly SqlResult[] {
  if (outcome === undefined) return [];
  if ('failure' in outcome) throw toError(outcome.failure);
  return outcome.results;
}

/** Copies a statement, so that changes to the caller's own have no effect. */
export function copyStatement(statement: SqlStatement): SqlStatement {
  const { sql, parameters }: Partial<SqlStatement> = Object(statement);
  // SQLite would ignore what is behind a NUL.
  check(typeof sql === 'string' && !sql.includes('\0'), 'sql', 'a string without NUL', sql);
  check(Array.isArray(parameters), 'parameters', 'an array', parameters);
  return { sql, parameters: parameters.map(copyValue) };
}

function copyValue(value: SqlValue, at: number): SqlValue {
  if (value instanceof Uint8Array) return new Uint8Array(value);
  if (value === null) return value;
  switch (typeof value) {
    case 'number':
    case 'bigint':
    case 'string':
      return value;
  }
  const rule = 'null, a number, a bigint, a string or a Uint8Array';
  check(false, `parameters[${at}]`, rule, value);
}
