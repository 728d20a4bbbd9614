export type { SqlConnection } from './connection.ts';
export { type BatchResults, Database, type DatabaseStats } from './database.ts';
export { type SqlErrorCode, sqlError, sqlErrorCodes } from './errors.ts';
export type { DatabaseKind, Migration } from './migrate.ts';
export { type DatabaseOptions, openDatabase } from './open-database.ts';
export {
  PostgresEngine,
  type PostgresEngineOptions,
  type PostgresStats,
} from './postgres/engine.ts';
export { PostgresStore } from './postgres/store.ts';
export type { SqliteStats } from './sqlite-engine.ts';
