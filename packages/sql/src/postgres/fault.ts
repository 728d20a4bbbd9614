import pg from 'pg';
import { type ErrorCode, SpillwayError } from 'spillway';
import { inDoubt } from 'spillway/internal';

/** SQLSTATE codes, or the class that their first two characters name. */
const codes: Readonly<Record<string, ErrorCode>> = {
  '08': 'DATABASE_LOST',
  '23': 'DATABASE_CONSTRAINT',
  '25P03': 'DATABASE_LOST', // idle in a transaction for too long
  '40001': 'DATABASE_BUSY', // could not be serialized
  '40P01': 'DATABASE_BUSY', // deadlock
  '53': 'DATABASE_BUSY', // out of connections, memory
  '53100': 'DATABASE_FULL',
  '55P03': 'DATABASE_BUSY', // lock not available
  '57014': 'DEADLINE', // cancelled, or over statement_timeout
  '57P01': 'DATABASE_LOST', // shut down, or terminated by an operator
  '57P02': 'DATABASE_LOST', // another backend crashed
  '57P03': 'DATABASE_LOST', // starting up or shutting down
  '57P05': 'DATABASE_LOST', // idle for too long
  XX001: 'DATABASE_CORRUPT',
  XX002: 'DATABASE_CORRUPT',
};

/** Remedies for faults that keep a store from being opened, by SQLSTATE. */
const remedies: Readonly<Record<string, string>> = {
  '08P01':
    'let PgBouncer have ignore_startup_parameters = ' +
    'statement_timeout, idle_in_transaction_session_timeout',
  '25006': 'this server only reads: give the address of the primary',
  '28000': 'check the user of the address, and whom the server lets in',
  '28P01': 'check the user and the password of the address',
  '3D000': 'create the database, or mend its name in the address',
  '42501': 'let the user create tables and functions',
  '53300': 'raise max_connections of the server, or lower connectionsMax of its clients',
};

/** The failure of opening a store, with what to do. */
export function openingError(error: unknown): unknown {
  if (Object(error).code === 'ERR_INVALID_URL') {
    const message = 'postgres: the address is not a URL; write postgres://user:password@host/name';
    return new SpillwayError('DATABASE_UNUSABLE', message);
  }
  const told = error instanceof SpillwayError ? error.cause : error;
  const remedy = told instanceof pg.DatabaseError ? remedies[told.code ?? ''] : undefined;
  if (told instanceof pg.DatabaseError && remedy !== undefined) {
    const isBusy = told.code === '53300';
    const message = `postgres: ${told.message}; ${remedy}`;
    return new SpillwayError(isBusy ? 'DATABASE_BUSY' : 'DATABASE_UNUSABLE', message, {
      cause: told,
    });
  }
  if (!(error instanceof SpillwayError && error.code === 'DATABASE_LOST')) return error;
  const message = `${error.message}; check that the server runs, and the address`;
  return new SpillwayError('DATABASE_LOST', message, { cause: error });
}

/**
 * Turns failures of server and network into our errors; anything else, such as wrong SQL, stays as
 * it is. `lost`: the connection is gone; `doubt`: the query may have been committed.
 */
export function databaseError(
  error: unknown,
  { lost, doubt }: { readonly lost: boolean; readonly doubt: boolean },
): unknown {
  if (!(error instanceof Error) || error instanceof SpillwayError) return error;
  const state = error instanceof pg.DatabaseError ? (error.code ?? '') : '';
  const named = codes[state] ?? codes[state.slice(0, 2)];
  const code = named ?? (lost && state === '' ? 'DATABASE_LOST' : undefined);
  if (code === undefined) return error;
  const known = new SpillwayError(code, `postgres: ${error.message}`, { cause: error });
  return code === 'DATABASE_LOST' && doubt ? inDoubt(known) : known;
}
