import { SpillwayError } from 'spillway';
import { makeDatabaseFolder } from 'spillway-cli';
import { askOperator, operatorSocket } from 'spillway-http';
import { type Context, openContext } from '../context.ts';
import type { Nets } from '../files/nets.ts';
import { operate } from '../operations/operations.ts';
import { operatorPath } from '../server/operator-api.ts';
import type { Settings } from '../settings.ts';
import { checkNewDatabase, demandUsedDatabase } from './used-database.ts';

/** Runs operations for a command, in the running server or, if there is none, in this process. */
export interface Operator extends AsyncDisposable {
  call(name: string, input: object): Promise<unknown>;
}

/** Length of a lease, in milliseconds: after a crash, a new claim waits until it has expired. */
export const leaseMs = 5_000;
const answerMsMax = 30_000;
/** A server that does not answer within this time, in milliseconds, counts as not running. */
const pingMsMax = 5_000;
/** The longest wait, in milliseconds, for another command that works on the same database. */
const lockMsMax = 5_000;

/**
 * Opens the running server as the operator, because only it has the world in memory. If no server
 * answers, this process is the primary until the operator is disposed, so that no server decides
 * meanwhile. A reader does not create a missing database.
 */
export async function openOperator(settings: Settings, isReader = false): Promise<Operator> {
  const socket = operatorSocket(settings.data);
  if (!(await isThere(socket))) return await openLocal(settings, isReader);
  return {
    call: (name, input) => askServer(socket, name, input),
    [Symbol.asyncDispose]: async () => {},
  };
}

/** Asks the server that has the operator's socket in the data folder. */
async function askServer(socket: string, name: string, input: object): Promise<unknown> {
  const signal = AbortSignal.timeout(answerMsMax);
  const path = `${operatorPath}${name}`;
  const { status, text } = await askOperator({ socket, path, body: input, signal });
  const answer = JSON.parse(text) as Answer;
  if (answer.ok) return answer.value;
  const { code = 'UNEXPECTED', message = `the server answered ${status}` } = answer.error ?? {};
  throw new SpillwayError({ code, status, retryable: false }, message);
}

interface Answer {
  readonly ok?: boolean;
  readonly value?: unknown;
  readonly error?: { readonly code?: string; readonly message?: string };
}

/** Makes this process the primary. */
async function openLocal(settings: Settings, isReader: boolean): Promise<Operator> {
  await using parts = new AsyncDisposableStack();
  const context = await openHere(settings, isReader, parts);
  const { primary, files } = context;
  await primary.start({ signal: new AbortController().signal });
  parts.defer(() => primary.close());
  if (!primary.isPrimary) {
    throw new SpillwayError(
      { code: 'SERVER_UNREACHABLE', status: 503, retryable: true },
      `a server has this database open but does not answer in ${settings.data}\n` +
        'Run the command on its machine with its data folder, or stop the server first.',
    );
  }
  await files.books.reload();
  const opened = parts.move();
  return {
    call: (name, input) => operate(context, name, input),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Opens the parts of a fleet without starting them: they fetch nothing and run no job. */
async function openHere(
  settings: Settings,
  isReader: boolean,
  parts: AsyncDisposableStack,
): Promise<Context> {
  await demandUsedDatabase(settings);
  checkNewDatabase(settings, isReader);
  const { database, data: folder } = settings;
  await makeDatabaseFolder(database);
  const options = { database, folder, leaseMs, patienceMs: lockMsMax };
  const context = await openContext(options, () => {});
  parts.use(context.database);
  return context;
}

/** Works on the nets even beside a running server, which keeps nothing about them in memory. */
export async function withNets<T>(
  settings: Settings,
  isReader: boolean,
  work: (nets: Nets) => Promise<T>,
): Promise<T> {
  await using parts = new AsyncDisposableStack();
  return await work((await openHere(settings, isReader, parts)).files.nets);
}

async function isThere(socket: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(pingMsMax);
    return (await askOperator({ socket, path: '/-/live', signal })).status === 200;
  } catch {
    return false;
  }
}
