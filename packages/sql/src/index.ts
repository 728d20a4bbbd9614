export type { SqlConnection } from './connection.ts';
export { copyStore } from './copy-store.ts';
export {
  type BatchResults,
  Database,
  type DatabaseOptions,
  type DatabaseStats,
} from './database.ts';
export type { DatabaseKind, MigrateOptions, Migration } from './migrate.ts';
export type { PostgresStats } from './postgres/engine.ts';
export {
  PostgresStore,
  type PostgresStoreOptions,
  type PostgresStoreStats,
} from './postgres/store.ts';
export type { SqliteStats } from './sqlite-engine.ts';
export {
  byteLines,
  type ExportTablesOptions,
  exportTables,
  type ImportTablesOptions,
  importTables,
  type MovedTables,
  type OtherLine,
  type TableRow,
} from './transfer.ts';
