export type { SqlConnection } from './connection.ts';
export { type BatchResults, Database, type DatabaseStats } from './database.ts';
export type { DatabaseKind, Migration } from './migrate.ts';
export { type DatabaseOptions, openDatabase, type SqliteOpenOptions } from './open-database.ts';
export {
  PostgresEngine,
  type PostgresEngineOptions,
  type PostgresStats,
} from './postgres-engine.ts';
export { PostgresStore } from './postgres-store.ts';
export type {
  SqliteHandle,
  SqliteStats,
  SqliteTransaction,
  SqlResult,
  SqlStatement,
  SqlValue,
} from './sqlite-engine.ts';
