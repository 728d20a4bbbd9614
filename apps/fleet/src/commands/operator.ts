import { join } from 'node:path';
import { SpillwayError, systemRandom, wallClock } from 'spillway';
import { makeDatabaseFolder } from 'spillway-cli';
import { askOperator, operatorSocket } from 'spillway-http';
import { Database } from 'spillway-sql';
import { BookShelf } from '../files/books.ts';
import { NetShelf } from '../files/net-shelf.ts';
import type { OperationContext } from '../operations/operation.ts';
import { operate } from '../operations/operations.ts';
import { primaryLockPath } from '../primary/claim.ts';
import { Primary } from '../primary/primary.ts';
import { operatorPath } from '../server/operator-api.ts';
import type { Settings } from '../settings.ts';
import type { FleetSchema } from '../storage/fleet-schema.ts';
import { FleetStorage } from '../storage/fleet-storage.ts';
import { Users } from '../users/users.ts';
import { demandUsedDatabase, tellNewDatabase } from './used-database.ts';

/** Does what a command asks for, wherever that can be done without two deciding at once. */
export interface Operator extends AsyncDisposable {
  call(name: string, input: object): Promise<unknown>;
}

/** Lease of a server that crashed, in milliseconds: a new claim waits until it has run out. */
export const leaseMs = 5_000;
const answerMsMax = 30_000;
/** A server that has not answered by then is gone, or not well. */
const pingMsMax = 5_000;
/** The longest wait, in milliseconds, for another command that works on the same database. */
const lockMsMax = 5_000;

/**
 * A running server is asked to do it, since it has the world in memory. If none answers, the
 * command becomes the primary itself for as long as it takes, so that none can start meanwhile.
 */
export async function openOperator(settings: Settings): Promise<Operator> {
  const socket = operatorSocket(settings.data);
  if (await isThere(socket)) return new RemoteOperator(socket);
  const database = await openDatabase(settings);
  try {
    return await LocalOperator.open(new FleetStorage(database), settings);
  } catch (error) {
    await database[Symbol.asyncDispose]();
    throw error;
  }
}

async function openDatabase(settings: Settings): Promise<Database<FleetSchema>> {
  await demandUsedDatabase(settings);
  tellNewDatabase(settings);
  await makeDatabaseFolder(settings.database);
  return await Database.open<FleetSchema>({ url: settings.database });
}

/** The server that has the operator's socket in the data folder. */
class RemoteOperator implements Operator {
  readonly #socket: string;

  constructor(socket: string) {
    this.#socket = socket;
  }

  async call(name: string, input: object): Promise<unknown> {
    const { status, text } = await askOperator({
      socket: this.#socket,
      path: `${operatorPath}${name}`,
      body: input,
      signal: AbortSignal.timeout(answerMsMax),
    });
    const answer = JSON.parse(text) as Answer;
    if (answer.ok) return answer.value;
    const { code = 'UNEXPECTED', message = `it answered ${status}` } = answer.error ?? {};
    throw new SpillwayError({ code, status, retryable: false }, message);
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

interface Answer {
  readonly ok?: boolean;
  readonly value?: unknown;
  readonly error?: { readonly code?: string; readonly message?: string };
}

/** The command itself, as the primary. */
class LocalOperator implements Operator {
  readonly #primary: Primary;
  readonly #storage: FleetStorage;
  readonly #context: OperationContext;

  static async open(storage: FleetStorage, settings: Settings): Promise<LocalOperator> {
    await storage.migrate();
    const users = new Users({ database: storage.database, clock: wallClock });
    const lockPath = primaryLockPath(settings.database);
    const common = { storage, clock: wallClock, random: systemRandom };
    const primary = new Primary({ ...common, leaseMs, lockPath, patienceMs: lockMsMax });
    await primary.start({ signal: new AbortController().signal });
    if (!primary.isPrimary) {
      await primary.close();
      throw new SpillwayError(
        { code: 'SERVER_UNREACHABLE', status: 503, retryable: true },
        `a server has this database open but does not answer in ${settings.data}\n` +
          'Run the command on its machine with its data folder, or stop the server first.',
      );
    }
    const { database } = storage;
    const books = new BookShelf(database);
    await books.reload();
    const nets = new NetShelf({ folder: netsFolder(settings), database, clock: wallClock });
    const context = { storage, users, primary, books, nets, clock: wallClock };
    return new LocalOperator(storage, primary, context);
  }

  private constructor(storage: FleetStorage, primary: Primary, context: OperationContext) {
    this.#storage = storage;
    this.#primary = primary;
    this.#context = context;
  }

  call(name: string, input: object): Promise<unknown> {
    return operate(this.#context, name, input);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#primary.close();
    await this.#storage.database[Symbol.asyncDispose]();
  }
}

function netsFolder({ data }: Settings): string {
  return join(data, 'nets');
}

/** Opens the nets beside a running server, which has nothing about them in memory. */
export async function openNets(
  settings: Settings,
): Promise<AsyncDisposable & { readonly nets: NetShelf }> {
  const database = await openDatabase(settings);
  const close = () => database[Symbol.asyncDispose]();
  try {
    await new FleetStorage(database).migrate();
  } catch (error) {
    await close();
    throw error;
  }
  const nets = new NetShelf({ folder: netsFolder(settings), database, clock: wallClock });
  return { nets, [Symbol.asyncDispose]: close };
}

async function isThere(socket: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(pingMsMax);
    return (await askOperator({ socket, path: '/-/live', signal })).status === 200;
  } catch {
    return false;
  }
}
