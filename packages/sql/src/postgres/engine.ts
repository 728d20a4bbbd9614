import type { CompiledQuery, QueryResult } from 'kysely';
import pg from 'pg';
import {
  type Clock,
  Lane,
  type LaneStats,
  type Permit,
  type RunOptions,
  SpillwayError,
} from 'spillway';
import { type Filled, pause, untilAborted } from 'spillway/internal';
import type { Engine, RunSql } from '../connection.ts';
import type { DatabaseOptions } from '../database.ts';
import { databaseError } from './fault.ts';
import { graceMs, PostgresSession } from './session.ts';

type EngineOptions = Filled<
  Pick<
    DatabaseOptions,
    'url' | 'listenUrl' | 'connectionsMax' | 'queueMax' | 'deadlineMs' | 'clock'
  >
>;

export interface PostgresStats {
  readonly kind: 'postgres';
  /** Connections of the pool that are open now. */
  readonly connections: number;
  /** Connections of the pool that are idle. */
  readonly idle: number;
  /** Counts callers that use a connection, wait for one, or were refused. */
  readonly lane: LaneStats;
}

const int8Oid = 20;
/** The longest timeout that Postgres takes, in milliseconds. */
const timeoutMsMax = 2 ** 31 - 1;
/** The longest wait for each answer of the server in `examine`, in milliseconds. */
const openMsMax = 4_000;
/** The oldest server with everything that the store needs, as it reports its version: 12. */
const versionMin = 120_000;
/** The time between two attempts to reach a server that was lost, in milliseconds. */
const probeMs = 1_000;

/** Parses counts and sums as numbers, as in SQLite, or as bigint if a number is not exact. */
function parseInt8(text: string): number | bigint {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}

function getTypeParser(oid: number, format?: string) {
  if (oid === int8Oid && format !== 'binary') return parseInt8;
  return pg.types.getTypeParser(oid, format as 'text');
}

/** A bounded pool of connections behind a lane. */
export class PostgresEngine implements Engine<PostgresStats> {
  readonly clock: Clock;
  readonly queueMax: number;
  readonly deadlineMs: number;
  readonly #lane: Lane;
  readonly #pool: pg.Pool;
  readonly #url: string;
  /** The address of connections that `LISTEN`. */
  readonly listenUrl: string;
  readonly #config: pg.ClientConfig;
  /** Settings of the sessions of the pool, which a pooler before the server may refuse. */
  readonly #limits: pg.ClientConfig;
  /** Clients whose connection broke. */
  readonly #lost = new WeakSet<pg.ClientBase>();
  readonly #sessions = new Set<PostgresSession>();
  /** Connections apart from the pool. */
  readonly #clients = new Set<pg.Client>();
  readonly #closing = new AbortController();
  #fault: string | undefined = undefined;
  #probing: Promise<void> | undefined = undefined;

  constructor(options: EngineOptions) {
    const { url, listenUrl, connectionsMax, queueMax, deadlineMs, clock } = options;
    this.#url = url;
    this.listenUrl = listenUrl;
    this.clock = clock;
    this.queueMax = queueMax;
    this.deadlineMs = deadlineMs;
    this.#lane = new Lane({
      name: 'postgres',
      limit: { fixed: connectionsMax },
      queueMax,
      deadlineMs,
      clock,
    });
    const timeout = Math.min(Math.ceil(deadlineMs), timeoutMsMax);
    this.#config = {
      keepAlive: true,
      connectionTimeoutMillis: timeout,
      types: { getTypeParser } as pg.CustomTypesConfig,
    };
    // The server has a timeout as well, so that a lost client leaves neither work nor locks.
    this.#limits = { statement_timeout: timeout, idle_in_transaction_session_timeout: timeout };
    this.#pool = new pg.Pool({
      ...this.#config,
      ...this.#limits,
      connectionString: url,
      max: connectionsMax,
    });
    // An idle connection that is lost is out of the pool already; the next query opens another.
    this.#pool.on('error', () => {});
    // The pool does not listen to clients that it has given out: without this listener one that
    // breaks before its session listens would end the process.
    this.#pool.on('connect', (client) => {
      client.on('error', () => {
        this.#lost.add(client);
        this.#probe();
      });
    });
  }

  get stats(): PostgresStats {
    const { totalCount: connections, idleCount: idle } = this.#pool;
    return { kind: 'postgres', connections, idle, lane: this.#lane.stats };
  }

  /** Aborts when the engine is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** False from the first failed attempt to connect until one succeeds. */
  get ready(): boolean {
    return this.#fault === undefined;
  }

  get fault(): string | undefined {
    return this.#fault;
  }

  async acquire(options: RunOptions): Promise<PostgresSession> {
    const permit = await this.#lane.enter(options);
    const connecting = this.#checkOut(permit);
    return await untilAborted(connecting, permit.signal, (reason) => {
      // A connection that comes after its caller has left goes back to the pool.
      connecting.then((session) => session.close()).catch(() => {});
      return reason;
    });
  }

  async #checkOut(permit: Permit): Promise<PostgresSession> {
    try {
      const client = await this.#pool.connect();
      const session = new PostgresSession(client, {
        permit,
        clock: this.clock,
        isLost: this.#lost.has(client),
        newClient: () => this.#newClient(),
        onClose: (closed) => this.#sessions.delete(closed),
      });
      this.#sessions.add(session);
      return session;
    } catch (reason) {
      permit[Symbol.dispose]();
      this.#probe();
      throw databaseError(reason, { lost: true, doubt: false });
    }
  }

  /** Finds out whether the server can be reached, and tries again until it can. */
  #probe(): void {
    const { signal } = this.#closing;
    const probe = async () => {
      while (!signal.aborted) {
        try {
          await this.end(await this.connect());
          this.#fault = undefined;
          break;
        } catch (error) {
          // A server that has no connection to spare still answers on those that are open.
          const isBusy = error instanceof SpillwayError && error.code === 'DATABASE_BUSY';
          const reason = `Postgres cannot be reached: ${String(Object(error).message)}`;
          this.#fault = isBusy ? undefined : reason;
        }
        await pause(this.clock, probeMs, signal).catch(() => {});
      }
      this.#probing = undefined;
    };
    this.#probing ??= probe();
  }

  #newClient(url = this.#url, config: pg.ClientConfig = {}): pg.Client {
    const client = new pg.Client({ ...this.#config, ...config, connectionString: url });
    // Without this listener a client that breaks would end the process.
    client.on('error', () => {});
    return client;
  }

  /** Opens a connection apart from the pool; `end` ends it. */
  async connect(url?: string, config?: pg.ClientConfig): Promise<pg.Client> {
    const client = this.#newClient(url, config);
    client.once('end', () => this.#clients.delete(client));
    try {
      await client.connect();
      this.#clients.add(client);
      return client;
    } catch (error) {
      throw databaseError(error, { lost: true, doubt: false });
    }
  }

  /** Refuses a server that cannot be reached soon, is too old, or has no Unicode. */
  async examine(): Promise<void> {
    const ms = Math.min(Math.ceil(this.deadlineMs), openMsMax);
    const config = { ...this.#limits, connectionTimeoutMillis: ms, query_timeout: ms };
    const client = await this.connect(undefined, config);
    try {
      const refuse = (why: string) => {
        throw new SpillwayError('DATABASE_UNUSABLE', `postgres: ${why}`);
      };
      const setting = (name: string) => `current_setting('${name}') as ${name}`;
      const names = ['server_version_num', 'server_encoding'];
      const { rows } = await client.query(`select ${names.map(setting).join(', ')}`);
      const { server_version_num: text, server_encoding: encoding } = rows[0];
      const version = Number(text);
      if (version < versionMin) {
        refuse(`version ${version} is too old: ${versionMin} or newer is needed`);
      }
      // Names would be lost, and their hashes would be others than those that watchers listen to.
      // SQL_ASCII changes nothing that it is given.
      if (!/^(UTF8|SQL_ASCII)$/.test(encoding)) {
        refuse(`the database has the encoding ${encoding}: create one with UTF8`);
      }
    } finally {
      await this.end(client);
    }
  }

  /** Ends a connection made by `connect`; cuts it if the server does not answer. */
  async end(client: pg.Client): Promise<void> {
    using _cut = this.clock.after(graceMs, () => client.connection.stream.destroy());
    await client.end().catch(() => {});
  }

  async batch(
    queries: readonly CompiledQuery[],
    options: RunOptions,
  ): Promise<QueryResult<unknown>[]> {
    const connection = await this.acquire(options);
    try {
      await connection.begin({});
      const results: QueryResult<unknown>[] = [];
      for (const query of queries) results.push(await connection.executeQuery(query));
      await connection.commit();
      return results;
    } finally {
      connection.close();
    }
  }

  async exclusively<T>(work: (run: RunSql) => Promise<T>, { signal }: RunOptions): Promise<T> {
    signal?.throwIfAborted();
    const client = this.#newClient();
    let doubt = false;
    const run: RunSql = async (sql, parameters = []) =>
      (await client.query(sql, [...parameters])).rows;
    const transaction = async () => {
      await client.connect();
      await client.query('begin');
      await client.query(`select pg_advisory_xact_lock(hashtext('spillway'), hashtext('migrate'))`);
      const value = await work(run);
      doubt = true;
      await client.query('commit');
      return value;
    };
    try {
      return await untilAborted(transaction(), signal);
    } catch (error) {
      if (signal?.aborted) client.connection.stream.destroy();
      signal?.throwIfAborted();
      throw databaseError(error, { lost: isLoss(error), doubt });
    } finally {
      await this.end(client);
    }
  }

  /** Waits for the sessions to end; when `limit` aborts, the others are cut. */
  async close(limit: AbortSignal): Promise<void> {
    this.#closing.abort();
    await this.#lane.close({ withinMs: Infinity, signal: limit });
    for (const session of this.#sessions) session.cut();
    await this.#pool.end();
    await Promise.all([...this.#clients].map((client) => this.end(client)));
  }
}

function isLoss(error: unknown): boolean {
  if (error instanceof pg.DatabaseError || !(error instanceof Error)) return false;
  return 'syscall' in error || error.message.startsWith('Connection terminated');
}
