import assert from 'node:assert/strict';
import type {
  AbortableOperationOptions,
  CompiledQuery,
  QueryResult,
  TransactionSettings,
} from 'kysely';
import pg from 'pg';
import { type Clock, Lane, type LaneStats } from 'spillway';
import { type Engine, isSelect, type RunSql, type SqlConnection } from '../connection.ts';
import { databaseError } from './fault.ts';
import { PostgresSession } from './session.ts';

export interface PostgresEngineOptions {
  /** Where the server is: `postgres://user:password@host:port/database`. */
  readonly url: string;
  /** How many connections there may be at once. An integer from 1. */
  readonly connectionsMax: number;
  /** How many may wait for one; one more is refused. An integer from 0. */
  readonly queueMax: number;
  /** Milliseconds from arrival to the answer, above 0; `Infinity` for none. */
  readonly deadlineMs: number;
  readonly clock: Clock;
}

export interface PostgresStats {
  /** Connections open now. */
  readonly connections: number;
  /** The connections that nobody uses. */
  readonly idle: number;
  /** Counts those who use a connection, wait for one, or were refused. */
  readonly lane: LaneStats;
}

const int8 = 20;
/** The longest that Postgres takes for a timeout. */
const timeoutMsMax = 2 ** 31 - 1;

/** Counts and sums are numbers, as in SQLite; what a number cannot hold is a bigint. */
function parseInt8(text: string): number | bigint {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}

function getTypeParser(oid: number, format?: string) {
  if (oid === int8 && format !== 'binary') return parseInt8;
  return pg.types.getTypeParser(oid, format as 'text');
}

/** A bounded pool of connections behind a lane. */
export class PostgresEngine implements Engine<PostgresStats> {
  readonly clock: Clock;
  readonly queueMax: number;
  readonly deadlineMs: number;
  readonly #lane: Lane;
  readonly #pool: pg.Pool;
  readonly #config: pg.ClientConfig;
  readonly #lost = new WeakSet<pg.ClientBase>();
  #closed: Promise<void> | undefined;

  constructor(options: PostgresEngineOptions) {
    const { url, connectionsMax, queueMax, deadlineMs, clock } = options;
    const isCount = Number.isInteger(connectionsMax) && connectionsMax >= 1;
    assert(isCount, `connectionsMax: must be an integer from 1, got ${connectionsMax}`);
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
      connectionString: url,
      keepAlive: true,
      connectionTimeoutMillis: timeout,
      types: { getTypeParser } as pg.CustomTypesConfig,
    };
    this.#pool = new pg.Pool({
      ...this.#config,
      max: connectionsMax,
      // The server gives up as well, so that a lost client leaves neither work nor locks behind.
      statement_timeout: timeout,
      idle_in_transaction_session_timeout: timeout,
    });
    // An idle connection that is lost is out of the pool already; the next query opens another.
    this.#pool.on('error', () => {});
    // The pool does not listen to those it has given out; one that ends before its session listens
    // would take the process with it.
    this.#pool.on('connect', (client) => client.on('error', () => this.#lost.add(client)));
  }

  get stats(): PostgresStats {
    const { totalCount, idleCount } = this.#pool;
    return { connections: totalCount, idle: idleCount, lane: this.#lane.stats };
  }

  async session(signal?: AbortSignal): Promise<PostgresSession> {
    const permit = await this.#lane.enter({ signal });
    let isLate = false;
    const connecting = this.#pool.connect().then(
      (client) => {
        const isLost = this.#lost.has(client);
        const session = new PostgresSession(client, { permit, clock: this.clock, isLost });
        if (isLate) session.close();
        return session;
      },
      (error: unknown) => {
        permit[Symbol.dispose]();
        throw databaseError(error, { lost: true, doubt: false });
      },
    );
    const late = Promise.withResolvers<never>();
    const permitSignal = permit.signal;
    const leave = () => {
      isLate = true;
      late.reject(permitSignal.reason);
    };
    permitSignal.addEventListener('abort', leave, { once: true });
    try {
      return await Promise.race([connecting, late.promise]);
    } finally {
      permitSignal.removeEventListener('abort', leave);
    }
  }

  /** A connection apart from the pool, for what stays open; whoever asked for it ends it. */
  async connect(): Promise<pg.Client> {
    const client = new pg.Client(this.#config);
    client.on('error', () => {});
    try {
      await client.connect();
      return client;
    } catch (error) {
      throw databaseError(error, { lost: true, doubt: false });
    }
  }

  async acquire(signal?: AbortSignal): Promise<SqlConnection> {
    return new PostgresConnection(await this.session(signal));
  }

  async batch(
    queries: readonly CompiledQuery[],
    signal?: AbortSignal,
  ): Promise<QueryResult<unknown>[]> {
    const connection = await this.acquire(signal);
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

  async exclusively<T>(work: (run: RunSql) => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    const client = new pg.Client(this.#config);
    const lost = Promise.withResolvers<never>();
    lost.promise.catch(() => {});
    const cut = () => {
      lost.reject(signal?.reason);
      client.connection.stream.destroy();
    };
    client.on('error', () => {});
    signal?.addEventListener('abort', cut, { once: true });
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
      return await Promise.race([transaction(), lost.promise]);
    } catch (error) {
      signal?.throwIfAborted();
      throw databaseError(error, { lost: isLoss(error), doubt });
    } finally {
      signal?.removeEventListener('abort', cut);
      await client.end().catch(() => {});
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closed ??= this.#lane.close().then(() => this.#pool.end());
    return this.#closed;
  }
}

function isLoss(error: unknown): boolean {
  if (error instanceof pg.DatabaseError || !(error instanceof Error)) return false;
  return 'syscall' in error || error.message.startsWith('Connection terminated');
}

/** The view that Kysely has of a session. */
class PostgresConnection implements SqlConnection {
  readonly signal: AbortSignal;
  readonly #session: PostgresSession;
  #inTransaction = false;

  constructor(session: PostgresSession) {
    this.#session = session;
    this.signal = session.signal;
  }

  interruption(): unknown {
    return this.#session.interruption();
  }

  async executeQuery<R>(
    query: CompiledQuery,
    options?: AbortableOperationOptions,
  ): Promise<QueryResult<R>> {
    const cancel = () => this.#session.cancel();
    options?.signal?.addEventListener('abort', cancel, { once: true });
    try {
      const commits = !this.#inTransaction && !isSelect(query);
      const { command, rowCount, rows } = await this.#session.query(query.sql, query.parameters, {
        commits,
      });
      const changes = ['INSERT', 'UPDATE', 'DELETE', 'MERGE'].includes(command);
      return changes ? { rows, numAffectedRows: BigInt(rowCount ?? 0) } : { rows };
    } catch (error) {
      // Kysely has told the caller, and would print whatever is rejected after that.
      if (options?.signal?.aborted) return { rows: [] };
      throw error;
    } finally {
      options?.signal?.removeEventListener('abort', cancel);
    }
  }

  async *streamQuery<R>(query: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    yield await this.executeQuery<R>(query);
  }

  async begin({ isolationLevel, accessMode }: TransactionSettings): Promise<void> {
    const level = isolationLevel === undefined ? '' : ` isolation level ${isolationLevel}`;
    const sql = `start transaction${level}${accessMode === undefined ? '' : ` ${accessMode}`}`;
    await this.#session.query(sql, [], { commits: false });
    this.#inTransaction = true;
  }

  async commit(): Promise<void> {
    const { command } = await this.#session.query('commit', [], { commits: true });
    this.#inTransaction = false;
    if (command === 'ROLLBACK') throw new Error('rolled back: a statement of it had failed');
  }

  async rollback(): Promise<void> {
    // Closing ends what is still open, also when this cannot.
    await this.#session.query('rollback', [], { commits: false }).catch(() => {});
    this.#inTransaction = false;
  }

  close(): void {
    this.#session.close();
  }
}
