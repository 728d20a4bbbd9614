import { AssertionError } from 'node:assert/strict';
import { type ErrorCode, SpillwayError } from 'spillway';
import { inDoubt } from 'spillway/internal';
import { foreignForm } from './scripts.ts';

/** Our codes, by the first word of a server error that means that nothing was done. */
const codes: Readonly<Record<string, ErrorCode>> = {
  BUSY: 'DATABASE_BUSY', // another script runs for too long
  CLUSTERDOWN: 'DATABASE_BUSY',
  LOADING: 'DATABASE_BUSY',
  MASTERDOWN: 'DATABASE_BUSY',
  MISCONF: 'DATABASE_FULL', // the server cannot write to its disk
  NOAUTH: 'DATABASE_UNUSABLE',
  NOPERM: 'DATABASE_UNUSABLE',
  NOREPLICAS: 'DATABASE_BUSY',
  OOM: 'STORE_FULL',
  READONLY: 'DATABASE_BUSY', // a replica, as after a failover
  TRYAGAIN: 'DATABASE_BUSY',
  WRONGPASS: 'DATABASE_UNUSABLE',
};

/** Remedies for errors that do not go away by themselves, by their first word. */
const remedies: Readonly<Record<string, string>> = {
  MISCONF: 'the server cannot write to its disk: see its log',
  NOAUTH: 'give a password in the address',
  NOPERM: 'let the user run scripts, all that they call, and INFO, on ~{name}* and &{name}*',
  OOM: 'raise maxmemory of the server',
  READONLY: 'give the address of the master',
  WRONGPASS: 'check the user and the password of the address',
};

/** Matches the error of a script that found a record in an unknown format. */
const misread = new RegExp(`${foreignForm}|user_script.*(attempt to|bad argument)`);

/** Names of node-redis errors for commands that were never sent. */
const unsent = new Set(['ClientOfflineError', 'ClientClosedError']);

/** Turns failures of server and client into our errors; `doubt` if it was a commit. */
export function redisError(error: unknown, { doubt }: { readonly doubt: boolean }): unknown {
  if (!(error instanceof Error) || error instanceof SpillwayError) return error;
  // Wrong use and a bad address stay as they are.
  if (error instanceof AssertionError || error instanceof TypeError) return error;
  // Some servers write errors of a script as `ERR … script: …, on @user_script:1.`
  const isDenied = /^ERR The user executing the script can't/.test(error.message);
  const word = isDenied ? 'NOPERM' : (/^(?:ERR )?([A-Z]+)\b/.exec(error.message)?.[1] ?? '');
  const code = codes[word];
  if (code !== undefined) {
    const remedy = remedies[word];
    const message = `redis: ${error.message}${remedy === undefined ? '' : `; ${remedy}`}`;
    return new SpillwayError(code, message, { cause: error });
  }
  if (misread.test(error.message)) {
    const message = `redis: ${error.message}; let all processes run the newer version`;
    return new SpillwayError('DATABASE_MIGRATION', message, { cause: error });
  }
  if (/^(ERR|WRONGTYPE|NOSCRIPT|CROSSSLOT|UNKNOWN)\b/.test(error.message)) return error;
  const lost = new SpillwayError('DATABASE_LOST', `redis: ${error.message || error.name}`, {
    cause: error,
  });
  const isUnsent =
    unsent.has(error.constructor.name) || /writeable|queue is full/.test(error.message);
  // A Sentinel client has to find the master first.
  const hadConnection = Object(error).syscall !== 'connect';
  return doubt && !isUnsent && hadConnection ? inDoubt(lost) : lost;
}

/** The failure of opening a store, with what to do. */
export function openingError(error: unknown): unknown {
  // No cause: that error has the address with its password.
  if (Object(error).code === 'ERR_INVALID_URL') {
    const message = 'redis: the address is not a URL; write redis://user:password@host:port';
    return new SpillwayError('DATABASE_UNUSABLE', message);
  }
  const known = redisError(error, { doubt: false });
  const isAway = known instanceof SpillwayError && /^(DATABASE_LOST|DEADLINE)$/.test(known.code);
  if (!isAway) return known;
  const message = `${known.message}; check that the server runs, and the address`;
  return new SpillwayError(known, message, { cause: error });
}
