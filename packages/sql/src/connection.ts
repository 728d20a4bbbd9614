import type { CompiledQuery, DatabaseConnection, QueryResult, TransactionSettings } from 'kysely';

/** One conversation with a database, for one query or one transaction. */
export interface SqlConnection extends DatabaseConnection {
  /** Aborts at the deadline, or with the caller's own signal. */
  readonly signal: AbortSignal;
  /** The error for the caller once `signal` has aborted. */
  interruption(): unknown;
  begin(settings: TransactionSettings): Promise<void>;
  commit(): Promise<void>;
  /** Never fails: what cannot be rolled back is thrown away, which comes to the same. */
  rollback(): Promise<void>;
  /** Gives back what it holds as soon as nothing runs on it; doing so twice is harmless. */
  close(): void;
}

/** The contract of the two databases. */
export interface Engine<Stats> extends AsyncDisposable {
  readonly stats: Stats;
  acquire(signal?: AbortSignal): Promise<SqlConnection>;
  /** All of the queries as one transaction. */
  batch(queries: readonly CompiledQuery[], signal?: AbortSignal): Promise<QueryResult<unknown>[]>;
  /** One transaction without a deadline, while no other process is in such a one. */
  exclusively<T>(work: (run: RunSql) => Promise<T>, signal?: AbortSignal): Promise<T>;
}

/** Runs one statement; parameters are `$1`, `$2` in Postgres and `?` in SQLite. */
export type RunSql = (
  sql: string,
  parameters?: readonly (string | number)[],
) => Promise<readonly Readonly<Record<string, unknown>>[]>;

/** True if it is known to change nothing, so that it may be asked again when the answer is lost. */
export function isSelect(query: CompiledQuery): boolean {
  if (query.query.kind !== 'SelectQueryNode') return false;
  const ctes = query.query.with?.expressions ?? [];
  return ctes.every(({ expression }) => expression.kind === 'SelectQueryNode');
}

/** Gives what the work gives, or what the connection says as soon as its signal aborts. */
export function untilInterrupted<T>(
  work: Promise<T>,
  connection: Pick<SqlConnection, 'signal' | 'interruption'>,
): Promise<T> {
  const { signal } = connection;
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const leave = () => reject(connection.interruption());
  if (signal.aborted) leave();
  else signal.addEventListener('abort', leave, { once: true });
  work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  return promise;
}
