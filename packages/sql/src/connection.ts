import type {
  AbortableOperationOptions,
  CompiledQuery,
  DatabaseConnection,
  Driver,
  QueryResult,
  TransactionSettings,
} from 'kysely';
import type { RunOptions } from 'spillway';

/** One session of a database, for one query or one transaction. */
export interface SqlConnection extends DatabaseConnection {
  /** Aborts at the deadline, or with the caller's own signal. */
  readonly signal: AbortSignal;
  /** The error that the caller gets once `signal` has aborted. */
  interruption(): unknown;
  begin(settings: TransactionSettings): Promise<void>;
  commit(): Promise<void>;
  /** Never fails: a connection that cannot roll back is closed, which rolls back as well. */
  rollback(): Promise<void>;
  /** Gives the connection back as soon as no query runs on it; a second call does nothing. */
  close(): void;
}

/** The contract of the two databases. */
export interface Engine<Stats> {
  readonly stats: Stats;
  /** False while the database cannot be reached, or its disk is full. */
  readonly ready: boolean;
  /** The reason for which it is not ready. */
  readonly fault: string | undefined;
  acquire(options: RunOptions): Promise<SqlConnection>;
  /** Runs all of the queries as one transaction. */
  batch(queries: readonly CompiledQuery[], options: RunOptions): Promise<QueryResult<unknown>[]>;
  /** Runs one transaction without a deadline, under a lock that only one process can hold. */
  exclusively<T>(work: (run: RunSql) => Promise<T>, options: RunOptions): Promise<T>;
  /** Finishes the calls under way; when the signal aborts, they are cut short. */
  close(limit: AbortSignal): Promise<void>;
}

/** Runs one statement; parameters are `$1`, `$2` in Postgres and `?` in SQLite. */
export type RunSql = (
  sql: string,
  parameters?: readonly (string | number)[],
) => Promise<readonly Readonly<Record<string, unknown>>[]>;

/** Runs one statement of a transaction. */
export type RunIn = (
  sql: string,
  parameters: readonly unknown[],
) => Promise<QueryResult<Readonly<Record<string, unknown>>>>;

/** True if a query is known to change nothing, so that it may be repeated after a lost answer. */
export function isSelect(query: CompiledQuery): boolean {
  if (query.query.kind !== 'SelectQueryNode') return false;
  const ctes = query.query.with?.expressions ?? [];
  return ctes.every(({ expression }) => expression.kind === 'SelectQueryNode');
}

/** The driver that gives Kysely our connections; it neither opens nor keeps any itself. */
export class SqlDriver implements Driver {
  readonly #acquire: (options: RunOptions) => Promise<SqlConnection>;

  constructor(acquire: (options: RunOptions) => Promise<SqlConnection>) {
    this.#acquire = acquire;
  }

  async init(): Promise<void> {}

  async acquireConnection(options?: AbortableOperationOptions): Promise<SqlConnection> {
    try {
      return await this.#acquire({ signal: options?.signal });
    } catch (error) {
      if (!options?.signal?.aborted) throw error;
      // Kysely has answered the caller by now, and would print a later rejection.
      return new Promise(() => {});
    }
  }

  beginTransaction(connection: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    return (connection as SqlConnection).begin(settings);
  }

  commitTransaction(connection: DatabaseConnection): Promise<void> {
    return (connection as SqlConnection).commit();
  }

  rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    return (connection as SqlConnection).rollback();
  }

  async releaseConnection(connection: DatabaseConnection): Promise<void> {
    (connection as SqlConnection).close();
  }

  async destroy(): Promise<void> {}
}
