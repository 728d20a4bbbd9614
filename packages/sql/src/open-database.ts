import assert from 'node:assert/strict';
import { type Clock, SqliteFile, SqliteStore, systemClock } from 'spillway';
import { Database } from './database.ts';
import { PostgresEngine } from './postgres/engine.ts';
import { PostgresStore } from './postgres/store.ts';
import { SqliteEngine } from './sqlite-engine.ts';

export interface DatabaseOptions {
  /** How many connections to Postgres there may be at once. An integer from 1. @default 10 */
  readonly connectionsMax?: number | undefined;
  /**
   * How many may wait for their turn; one more is refused. An integer from 0, for SQLite from 1.
   * @default 1000
   */
  readonly queueMax?: number | undefined;
  /** Milliseconds from a call to its end, above 0; `Infinity` for none. @default 10_000 */
  readonly deadlineMs?: number | undefined;
  /** How many threads read a SQLite file. An integer from 1 to 64. @default 2 */
  readonly readers?: number | undefined;
  /** Where time comes from. @default the system's */
  readonly clock?: Clock | undefined;
}

/** The longest that SQLite waits for another process, in milliseconds. */
const sqliteMsMax = 2 ** 31 - 1;
const defaults = { connectionsMax: 10, queueMax: 1_000, deadlineMs: 10_000 };

/** Opens the database behind `sqlite:<path>` or `postgres://user:password@host:port/database`. */
export async function openDatabase<Schema>(
  url: string,
  options: DatabaseOptions = {},
): Promise<Database<Schema>> {
  const { clock = systemClock } = options;
  const connectionsMax = options.connectionsMax ?? defaults.connectionsMax;
  const queueMax = options.queueMax ?? defaults.queueMax;
  const deadlineMs = options.deadlineMs ?? defaults.deadlineMs;
  assert(deadlineMs > 0, `deadlineMs: must be a number above 0, got ${deadlineMs}`);
  if (/^postgres(ql)?:\/\//.test(url)) {
    const engine = new PostgresEngine({ url, connectionsMax, queueMax, deadlineMs, clock });
    return new Database('postgres', engine, (signal) => PostgresStore.open(engine, signal));
  }
  const path = /^sqlite:(.+)$/s.exec(url)?.[1];
  assert(path !== undefined, 'url: must begin with sqlite: or postgres://');
  const file = await SqliteFile.open({
    path,
    readers: options.readers,
    queueMax,
    deadlineMs: Math.min(deadlineMs, sqliteMsMax),
    clock,
  });
  const engine = new SqliteEngine(file, deadlineMs, clock);
  return new Database('sqlite', engine, () => SqliteStore.open({ file }));
}
