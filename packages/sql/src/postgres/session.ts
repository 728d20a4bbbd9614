import type {
  AbortableOperationOptions,
  CompiledQuery,
  QueryResult,
  TransactionSettings,
} from 'kysely';
import pg from 'pg';
import { type Clock, type Permit, SpillwayError } from 'spillway';
import { inDoubt, untilAborted } from 'spillway/internal';
import { isSelect, type SqlConnection } from '../connection.ts';
import { databaseError } from './fault.ts';

/** The time that a query or connection may take to end before the connection is cut, in ms. */
export const graceMs = 1_000;

export interface SessionOptions {
  readonly permit: Permit;
  readonly clock: Clock;
  /** True if the connection broke before the session began. */
  readonly isLost: boolean;
  /** Makes a client that is not connected, with the settings of this one. */
  readonly newClient: () => pg.Client;
  readonly onClose: (session: PostgresSession) => void;
}

/** A connection of the pool and a permit of the lane, held together. */
export class PostgresSession implements SqlConnection {
  readonly signal: AbortSignal;
  readonly #client: pg.PoolClient;
  readonly #options: SessionOptions;
  #lost: boolean;
  #inTransaction = false;
  #closed = false;
  #isGivenBack = false;
  /** True while a statement runs that commits by itself. */
  #doubt = false;
  #running: Promise<unknown> | undefined = undefined;
  #grace: Disposable | undefined = undefined;
  #cancelling: Promise<void> | undefined = undefined;

  constructor(client: pg.PoolClient, options: SessionOptions) {
    this.#client = client;
    this.#options = options;
    this.#lost = options.isLost;
    this.signal = options.permit.signal;
    client.on('error', this.#lose);
    client.on('end', this.#lose);
  }

  async executeQuery<R>(
    query: CompiledQuery,
    options?: AbortableOperationOptions,
  ): Promise<QueryResult<R>> {
    const cancel = () => this.cancel();
    options?.signal?.addEventListener('abort', cancel, { once: true });
    try {
      const commits = !this.#inTransaction && !isSelect(query);
      const answer = await this.query(query.sql, query.parameters, { commits });
      const { command, rowCount, rows } = answer;
      const changes = ['INSERT', 'UPDATE', 'DELETE', 'MERGE'].includes(command);
      return changes ? { rows, numAffectedRows: BigInt(rowCount ?? 0) } : { rows };
    } catch (error) {
      // Kysely has answered the caller by now, and would print a later rejection.
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
    await this.query(sql, [], { commits: false });
    this.#inTransaction = true;
  }

  async commit(): Promise<void> {
    const { command } = await this.query('commit', [], { commits: true });
    this.#inTransaction = false;
    if (command === 'ROLLBACK') throw new Error('rolled back: a statement of it had failed');
  }

  async rollback(): Promise<void> {
    // Closing the connection ends the transaction even if this statement fails.
    await this.query('rollback', [], { commits: false }).catch(() => {});
    this.#inTransaction = false;
  }

  /** Runs one statement; one that `commits` makes something durable outside of a transaction. */
  async query(
    text: string,
    values: readonly unknown[],
    { commits }: { readonly commits: boolean },
  ): Promise<pg.QueryResult> {
    if (this.signal.aborted) throw this.interruption();
    if (this.#closed && !this.#lost) throw new Error('the connection was given back');
    this.#doubt = commits;
    const answer = this.#send(text, values, commits);
    this.#running = answer;
    const settle = () => {
      if (this.#running !== answer) return;
      this.#running = undefined;
      this.#doubt = false;
    };
    answer.then(settle, settle);
    return untilAborted(answer, this.signal, this.interruption);
  }

  readonly interruption = (): unknown =>
    this.#doubt ? inDoubt(this.signal.reason) : this.signal.reason;

  /** Stops the query that runs now; the connection is cut if that does not help. */
  cancel(): void {
    if (this.#running === undefined || this.#grace !== undefined) return;
    this.#cancelling = cancelQuery(this.#client, this.#options.newClient());
    const { clock } = this.#options;
    const grace = clock.after(graceMs, () => this.#client.connection.stream.destroy());
    this.#grace = grace;
    const calm = () => {
      grace[Symbol.dispose]();
      this.#grace = undefined;
    };
    this.#running.then(calm, calm);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.signal.aborted) this.cancel();
    const isBusy = this.#running !== undefined || this.#cancelling !== undefined;
    if (isBusy || this.#isInTransaction) void this.#closeLater();
    else this.#giveBack();
  }

  /** Breaks the connection; a query that runs on it fails. */
  cut(): void {
    this.#closed = true;
    this.#lose();
    this.#client.connection.stream.destroy();
    this.#giveBack();
  }

  get #isInTransaction(): boolean {
    return !this.#lost && this.#client.getTransactionStatus() !== 'I';
  }

  /** Holds the permit until the server has really ended the work. */
  async #closeLater(): Promise<void> {
    const late = Promise.withResolvers<void>();
    const cut = this.#options.clock.after(2 * graceMs, () => {
      this.#lose();
      this.#client.connection.stream.destroy();
      late.resolve();
    });
    await this.#running?.catch(() => {});
    await Promise.race([this.#cancelling, late.promise]);
    if (this.#isInTransaction) await this.#send('rollback', [], false).catch(this.#lose);
    cut[Symbol.dispose]();
    this.#giveBack();
  }

  async #send(text: string, values: readonly unknown[], commits: boolean): Promise<pg.QueryResult> {
    if (this.#lost) throw new SpillwayError('DATABASE_LOST', 'postgres: the connection was lost');
    try {
      return await this.#client.query(text, values as unknown[]);
    } catch (error) {
      const state = error instanceof pg.DatabaseError ? error.severity : undefined;
      if (state === 'FATAL' || state === 'PANIC') this.#lost = true;
      if (error instanceof Error && 'syscall' in error) this.#lost = true;
      throw databaseError(error, { lost: this.#lost, doubt: commits });
    }
  }

  readonly #lose = (): void => {
    this.#lost = true;
  };

  #giveBack(): void {
    if (this.#isGivenBack) return;
    this.#isGivenBack = true;
    this.#client.off('error', this.#lose);
    this.#client.off('end', this.#lose);
    this.#client.release(this.#lost);
    this.#options.permit[Symbol.dispose]();
    this.#options.onClose(this);
  }
}

/** The members of pg's connection that its own cancelling uses; the published types lack them. */
interface CancelConnection {
  readonly ssl: unknown;
  readonly sslNegotiation: string | undefined;
  readonly stream: { unref?(): void };
  on(event: 'connect' | 'sslconnect' | 'error' | 'end', listener: () => void): this;
  connect(portOrPath: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processId: number, secretKey: number): void;
}

/**
 * Asks the server to stop the query of a client, by a connection of `other`, so that TLS is used
 * where the client uses it. The protocol gives no answer: the query fails, or has ended already, or
 * the request is lost and the statement timeout of the server ends the query. Resolves when the
 * server has closed the request: until then it may stop the query that runs next.
 */
function cancelQuery(client: pg.ClientBase, other: pg.Client): Promise<void> {
  const { processID, secretKey } = client as unknown as Readonly<Record<string, number>>;
  if (processID === undefined || secretKey === undefined) return Promise.resolve();
  const connection = other.connection as unknown as CancelConnection;
  const send = () => connection.cancel(processID, secretKey);
  connection.on('connect', () => {
    if (!connection.ssl) send();
    else if (connection.sslNegotiation !== 'direct') connection.requestSsl();
  });
  connection.on('sslconnect', send);
  return new Promise((resolve) => {
    connection.on('end', resolve);
    // An error is one of the three outcomes above, and needs no report.
    connection.on('error', resolve);
    const { host, port } = other;
    if (host.startsWith('/')) connection.connect(`${host}/.s.PGSQL.${port}`);
    else connection.connect(port, host);
    connection.stream.unref?.();
  });
}
