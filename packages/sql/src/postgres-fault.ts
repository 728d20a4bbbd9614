import pg from 'pg';
import { type Fault, SpillwayError } from 'spillway';

const fault = (code: string, status: number, retryable: boolean): Fault => ({
  code,
  status,
  retryable,
});

const busy = fault('DATABASE_BUSY', 503, true);
const lostFault = fault('DATABASE_LOST', 503, true);
const corrupt = fault('DATABASE_CORRUPT', 500, false);

/** SQLSTATE codes, or the class that their first two characters name. */
const faults: Readonly<Record<string, Fault>> = {
  '08': lostFault,
  '23': fault('DATABASE_CONSTRAINT', 409, false),
  '25P03': lostFault, // idle in a transaction for too long
  '40001': busy, // could not be serialized
  '40P01': busy, // deadlock
  '53': busy, // out of connections, memory
  '53100': fault('DATABASE_FULL', 507, false),
  '55P03': busy, // lock not available
  '57014': fault('DEADLINE', 504, true), // cancelled, or over statement_timeout
  '57P01': lostFault, // shut down, or terminated by an operator
  '57P02': lostFault, // another backend crashed
  '57P03': lostFault, // starting up or shutting down
  '57P05': lostFault, // idle for too long
  XX001: corrupt,
  XX002: corrupt,
};

/**
 * The world's failures as our errors; anything else, such as wrong SQL, as it came. `lost` tells
 * that the connection is gone, `doubt` that it carried something that may have been committed.
 */
export function databaseError(
  error: unknown,
  { lost, doubt }: { readonly lost: boolean; readonly doubt: boolean },
): unknown {
  if (!(error instanceof Error) || error instanceof SpillwayError) return error;
  const state = error instanceof pg.DatabaseError ? (error.code ?? '') : '';
  const known = faults[state] ?? faults[state.slice(0, 2)];
  const kind = known ?? (lost && state === '' ? lostFault : undefined);
  if (kind === undefined) return error;
  if (kind !== lostFault || !doubt) {
    return new SpillwayError(kind, `postgres: ${error.message}`, { cause: error });
  }
  const message = `postgres: ${error.message}; whether the write was committed is not known`;
  return new SpillwayError({ ...lostFault, retryable: false }, message, { cause: error });
}
