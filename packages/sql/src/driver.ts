import {
  type AbortableOperationOptions,
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  type TransactionSettings,
} from 'kysely';
import type { SqlConnection } from './connection.ts';

/** Kysely's way to our connections: it neither opens nor keeps any of its own. */
export class SqlDriver implements Driver {
  readonly #acquire: (signal?: AbortSignal) => Promise<SqlConnection>;

  constructor(acquire: (signal?: AbortSignal) => Promise<SqlConnection>) {
    this.#acquire = acquire;
  }

  async init(): Promise<void> {}

  async acquireConnection(options?: AbortableOperationOptions): Promise<SqlConnection> {
    try {
      return await this.#acquire(options?.signal);
    } catch (error) {
      if (!options?.signal?.aborted) throw error;
      // Kysely has told the caller, and would print whatever is rejected after that.
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

  async savepoint(connection: DatabaseConnection, name: string): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw(`savepoint ${quoted(name)}`));
  }

  async rollbackToSavepoint(connection: DatabaseConnection, name: string): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw(`rollback to ${quoted(name)}`));
  }

  async releaseSavepoint(connection: DatabaseConnection, name: string): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw(`release ${quoted(name)}`));
  }

  async releaseConnection(connection: DatabaseConnection): Promise<void> {
    (connection as SqlConnection).close();
  }

  async destroy(): Promise<void> {}
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
