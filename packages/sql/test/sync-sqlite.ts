import { DatabaseSync } from 'node:sqlite';
import { SpillwayError } from 'spillway';
import type { SqliteHandle, SqliteTransaction, SqlResult, SqlStatement } from 'spillway-sql';

/** A file on the event loop, one transaction after the other: just enough to test the handle. */
export class SyncSqlite implements SqliteHandle {
  readonly #db: DatabaseSync;
  #last: Promise<unknown> = Promise.resolve();

  constructor(path: string) {
    this.#db = new DatabaseSync(path);
    this.#db.exec('pragma journal_mode = wal; pragma busy_timeout = 5000');
  }

  write(statements: readonly SqlStatement[], signal?: AbortSignal): Promise<readonly SqlResult[]> {
    return this.transaction(
      async () => statements.map((statement) => this.#run(statement)),
      signal,
    );
  }

  async read(statement: SqlStatement, signal?: AbortSignal): Promise<SqlResult> {
    signal?.throwIfAborted();
    return this.#run(statement);
  }

  transaction<T>(work: (tx: SqliteTransaction) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const turn = this.#last.then(async () => {
      signal?.throwIfAborted();
      this.#db.exec('begin immediate');
      try {
        const value = await work({ run: async (statement) => this.#run(statement) });
        this.#db.exec('commit');
        return value;
      } catch (error) {
        this.#db.exec('rollback');
        throw error;
      }
    });
    this.#last = turn.catch(() => {});
    return turn;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#last;
    this.#db.close();
  }

  #run({ sql, parameters }: SqlStatement): SqlResult {
    try {
      const statement = this.#db.prepare(sql);
      if (statement.columns().length > 0) {
        const rows = statement.all(...parameters).map((row) => ({ ...row }));
        return { rows, changes: rows.length, lastInsertRowid: 0 };
      }
      const { changes, lastInsertRowid } = statement.run(...parameters);
      return { rows: [], changes: Number(changes), lastInsertRowid };
    } catch (error) {
      if (!(error instanceof Error) || !/constraint/i.test(error.message)) throw error;
      const fault = { code: 'DATABASE_CONSTRAINT', status: 409, retryable: false };
      throw new SpillwayError(fault, error.message, { cause: error });
    }
  }
}
