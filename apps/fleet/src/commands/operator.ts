import { SpillwayError, systemRandom, wallClock } from 'spillway';
import { makeDatabaseFolder } from 'spillway-cli';
import { openDatabase } from 'spillway-sql';
import { primaryLockPath } from '../claim.ts';
import type { Desk } from '../operations/desk.ts';
import { operate } from '../operations/operations.ts';
import { Primary } from '../primary.ts';
import { instanceHeader, operatorPath } from '../server/operator-api.ts';
import type { Settings } from '../settings.ts';
import type { FleetSchema } from '../storage/fleet-schema.ts';
import { FleetStorage } from '../storage/fleet-storage.ts';
import { Users } from '../users/users.ts';
import { openDesk } from './fleet-desk.ts';
import { type ServerAddress, serverAddress } from './server-address.ts';

/** Does what a command asks for, wherever that can be done without two deciding at once. */
export interface Operator extends AsyncDisposable {
  call(name: string, input: object): Promise<unknown>;
}

/** How long a server that crashed keeps the right to decide; a new claim waits that out. */
export const leaseMs = 5_000;
const answerMsMax = 30_000;
/** A server that has not answered by then is gone, or not well. */
const pingMsMax = 5_000;

/**
 * A running server is asked to do it, since it has the world in memory. If none answers, the
 * command becomes the primary itself for as long as it takes, so that none can start meanwhile.
 */
export async function openOperator(settings: Settings): Promise<Operator> {
  await makeDatabaseFolder(settings.database);
  const database = await openDatabase<FleetSchema>(settings.database);
  const storage = new FleetStorage(database);
  try {
    const address = await serverAddress(storage);
    if (address !== undefined && (await isThere(address, settings))) {
      await database[Symbol.asyncDispose]();
      return new RemoteOperator(address, settings);
    }
    return await LocalOperator.open(storage, settings, address);
  } catch (error) {
    await database[Symbol.asyncDispose]();
    throw error;
  }
}

/** A server of ours, and the very one that has noted its address. */
class RemoteOperator implements Operator {
  readonly #address: ServerAddress;
  readonly #settings: Settings;

  constructor(address: ServerAddress, settings: Settings) {
    this.#address = address;
    this.#settings = settings;
  }

  async call(name: string, input: object): Promise<unknown> {
    const response = await post(this.#address, this.#settings, name, input);
    const answer = (await response.json().catch(() => ({}))) as Answer;
    if (response.ok && answer.ok) return answer.value;
    const { code = 'UNEXPECTED', message = `it answered ${response.status}` } = answer.error ?? {};
    const fault = { code, status: response.status, retryable: false };
    throw new SpillwayError(fault, remedy(code, message, this.#address));
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

interface Answer {
  readonly ok?: boolean;
  readonly value?: unknown;
  readonly error?: { readonly code?: string; readonly message?: string };
}

function remedy(code: string, message: string, { url }: ServerAddress): string {
  if (code !== 'OPERATOR_ONLY') return message;
  const why = `The server at ${url} takes commands of its own machine, or with its token`;
  return `${message}\n${why}: set FLEET_OPERATOR_TOKEN.`;
}

/** The command itself, as the primary. */
class LocalOperator implements Operator {
  readonly #primary: Primary;
  readonly #storage: FleetStorage;
  readonly #desk: Desk;

  static async open(
    storage: FleetStorage,
    settings: Settings,
    address: ServerAddress | undefined,
  ): Promise<LocalOperator> {
    await storage.migrate();
    const users = new Users({ database: storage.database, clock: wallClock });
    const lockPath = primaryLockPath(settings.database);
    const common = { storage, clock: wallClock, random: systemRandom };
    const primary = new Primary({ ...common, leaseMs, lockPath });
    await primary.start({ signal: new AbortController().signal });
    if (!primary.isPrimary) {
      await primary.close();
      const where = address === undefined ? 'and its address is not known' : `at ${address.url}`;
      throw new SpillwayError(
        { code: 'SERVER_UNREACHABLE', status: 503, retryable: true },
        `a server has this database open but cannot be reached, ${where}\n` +
          'Run the command on the machine of the server, or stop the server first.',
      );
    }
    const desk = await openDesk({ storage, users, primary }, settings);
    return new LocalOperator(storage, primary, desk);
  }

  private constructor(storage: FleetStorage, primary: Primary, desk: Desk) {
    this.#storage = storage;
    this.#primary = primary;
    this.#desk = desk;
  }

  call(name: string, input: object): Promise<unknown> {
    return operate(this.#desk, name, input);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#primary.close();
    await this.#storage.database[Symbol.asyncDispose]();
  }
}

async function isThere(address: ServerAddress, settings: Settings): Promise<boolean> {
  try {
    const response = await post(address, settings, 'ping', {}, pingMsMax);
    await response.body?.cancel();
    // A stranger has no such header; ours has it, or says that a proxy or a token is the matter.
    return response.headers.get(instanceHeader) === address.instance || response.status === 403;
  } catch {
    return false;
  }
}

function post(
  { url, instance }: ServerAddress,
  { operatorToken }: Settings,
  name: string,
  input: object,
  msMax: number = answerMsMax,
): Promise<Response> {
  const headers = {
    'content-type': 'application/json',
    [instanceHeader]: instance,
    ...(operatorToken !== undefined && { authorization: `Bearer ${operatorToken}` }),
  };
  const signal = AbortSignal.timeout(msMax);
  const body = JSON.stringify(input);
  return fetch(`${url}${operatorPath}${name}`, { method: 'POST', headers, body, signal });
}
