import assert from 'node:assert/strict';
import type {
  AbortableOperationOptions,
  CompiledQuery,
  QueryResult,
  TransactionSettings,
} from 'kysely';
import {
  type Clock,
  type Deadline,
  deadline,
  type RunOptions,
  type SqliteFile,
  type SqliteFileStats,
  type SqliteTransaction,
  type SqlResult,
  type SqlStatement,
  type SqlValue,
  type StoreChange,
} from 'spillway';
import { commitStatements, inDoubt } from 'spillway/internal';
import {
  type Engine,
  isSelect,
  type RunIn,
  type RunSql,
  type SqlConnection,
} from './connection.ts';

export interface SqliteStats extends SqliteFileStats {
  /** Queries and transactions that run now. */
  readonly inside: number;
}

/** A SQLite file: selects go to its readers, everything else to its one writer. */
export class SqliteEngine implements Engine<SqliteStats> {
  readonly #file: SqliteFile;
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  #inside = 0;

  constructor(file: SqliteFile, deadlineMs: number, clock: Clock) {
    this.#file = file;
    this.#deadlineMs = deadlineMs;
    this.#clock = clock;
  }

  get stats(): SqliteStats {
    return { inside: this.#inside, ...this.#file.stats };
  }

  get ready(): boolean {
    return this.#file.ready;
  }

  get fault(): string | undefined {
    return this.#file.fault;
  }

  async acquire({ signal }: RunOptions): Promise<SqlConnection> {
    signal?.throwIfAborted();
    const limit = deadline(this.#clock, this.#deadlineMs, signal);
    this.#inside += 1;
    return new SqliteConnection(this.#file, limit, () => {
      this.#inside -= 1;
    });
  }

  async batch(
    queries: readonly CompiledQuery[],
    { signal }: RunOptions,
  ): Promise<QueryResult<unknown>[]> {
    signal?.throwIfAborted();
    using limit = deadline(this.#clock, this.#deadlineMs, signal);
    const statements = queries.map(statementOf);
    const results = await this.#file.write(statements, { signal: limit.signal });
    return results.map(resultOf);
  }

  exclusively<T>(work: (run: RunSql) => Promise<T>, options: RunOptions): Promise<T> {
    return this.#file.transaction((tx) => {
      return work(async (sql, parameters = []) => (await tx.run({ sql, parameters })).rows);
    }, options);
  }

  close(limit: AbortSignal): Promise<void> {
    return this.#file.close({ withinMs: Infinity, signal: limit });
  }
}

const rolledBack = Symbol('rolled back');

/** The view that Kysely has of the file; a transaction is open until its work ends. */
class SqliteConnection implements SqlConnection {
  readonly #file: SqliteFile;
  readonly #limit: Deadline;
  readonly #onClose: () => void;
  #tx: SqliteTransaction | undefined;
  #end: PromiseWithResolvers<void> | undefined;
  #done: Promise<void> | undefined;
  #doubt = false;
  #closed = false;

  constructor(file: SqliteFile, limit: Deadline, onClose: () => void) {
    this.#file = file;
    this.#limit = limit;
    this.#onClose = onClose;
  }

  get signal(): AbortSignal {
    return this.#limit.signal;
  }

  interruption(): unknown {
    return this.#doubt ? inDoubt(this.signal.reason) : this.signal.reason;
  }

  async executeQuery<R>(
    query: CompiledQuery,
    options?: AbortableOperationOptions,
  ): Promise<QueryResult<R>> {
    try {
      return resultOf<R>(await this.#run(query));
    } catch (error) {
      // Kysely has answered the caller by now, and would print a later rejection.
      if (options?.signal?.aborted) return { rows: [] };
      throw this.#tx !== undefined && this.signal.aborted ? this.interruption() : error;
    }
  }

  async *streamQuery<R>(query: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    yield await this.executeQuery<R>(query);
  }

  async begin({ isolationLevel, accessMode }: TransactionSettings): Promise<void> {
    const isPlain = isolationLevel === undefined && accessMode === undefined;
    assert(isPlain, 'SQLite has one kind of transaction: serializable, read write');
    const begun = Promise.withResolvers<SqliteTransaction>();
    const end = Promise.withResolvers<void>();
    this.#end = end;
    this.#done = this.#file.transaction(
      (tx) => {
        begun.resolve(tx);
        return end.promise;
      },
      { signal: this.signal },
    );
    this.#done.catch(begun.reject);
    this.#tx = await begun.promise;
  }

  async commit(): Promise<void> {
    if (this.signal.aborted) throw this.interruption();
    this.#doubt = true;
    this.#end?.resolve();
    await this.#done;
    this.#doubt = false;
    this.#tx = undefined;
  }

  async rollback(): Promise<void> {
    this.#end?.reject(rolledBack);
    await this.#done?.catch(() => {});
    this.#tx = undefined;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#end?.reject(rolledBack);
    this.#limit[Symbol.dispose]();
    this.#onClose();
  }

  async #run(query: CompiledQuery): Promise<SqlResult> {
    assert(!this.#closed, 'the connection was given back');
    if (this.signal.aborted) throw this.signal.reason;
    const statement = statementOf(query);
    if (this.#tx !== undefined) return this.#tx.run(statement);
    const options = { signal: this.signal };
    if (isSelect(query)) return await this.#file.read(statement, options);
    if (maySelect(query)) {
      try {
        return await this.#file.read(statement, options);
      } catch (error) {
        if (!isReadOnlyError(error)) throw error;
      }
    }
    const [result] = await this.#file.write([statement], options);
    return result as SqlResult;
  }
}

/** Commits to the store inside a transaction; false if a version has changed. */
export async function commitInSqlite(
  run: RunIn,
  changes: readonly StoreChange[],
): Promise<boolean> {
  const [check, change, purge] = commitStatements(changes);
  const { rows } = await run(check.sql, check.parameters);
  if (rows.length === 0) return false;
  const { numAffectedRows } = await run(change.sql, change.parameters);
  await run(purge.sql, purge.parameters);
  // No row is changed if another statement of the transaction came between the first two.
  const wanted = changes.filter(({ checkOnly }) => !checkOnly).length;
  return Number(numAffectedRows) === wanted;
}

const comments = '(?:\\s|--[^\\n]*\\n|/\\*.*?\\*/)*';
const selecting = new RegExp(`^${comments}(?:select|with|values)\\b`, 'is');

/** Guesses by the first word. A wrong guess does no harm, since a reader cannot write. */
function maySelect({ query, sql }: CompiledQuery): boolean {
  return query.kind === 'RawNode' && selecting.test(sql);
}

/** True for the error of a reader that was asked to write, by `WITH ... INSERT` for example. */
function isReadOnlyError(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && Number(error.errcode) % 256 === 8;
}

function statementOf({ sql, parameters }: CompiledQuery): SqlStatement {
  return { sql, parameters: parameters.map(sqlValue) };
}

function sqlValue(parameter: unknown): SqlValue {
  if (typeof parameter === 'boolean') return parameter ? 1 : 0;
  const isText = typeof parameter === 'string' || typeof parameter === 'bigint';
  if (isText || typeof parameter === 'number' || parameter === null) return parameter;
  if (parameter instanceof Uint8Array) return parameter;
  // Not by `assert`: its message would turn the bytes of every write into text.
  assert.fail(`a parameter must be a SqlValue, got ${parameter}`);
}

function resultOf<R>({ rows, changes, lastInsertRowid }: SqlResult): QueryResult<R> {
  const numAffectedRows = BigInt(changes);
  return { rows: rows as R[], numAffectedRows, insertId: BigInt(lastInsertRowid) };
}
