import { checkInteger } from '../base/check.ts';
import { SqliteFile } from '../sqlite/file.ts';
import type { SqlResult, SqlStatement, SqlValue } from '../sqlite/wire.ts';
import {
  checkStoreChanges,
  checkStoreNames,
  jsonText,
  type NamedRecord,
  type Store,
  type StoreChange,
  type StoreCommit,
  type StoredRecord,
  type StoreReading,
} from './store.ts';

const tables = [
  `CREATE TABLE IF NOT EXISTS spillway_clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    now REAL NOT NULL,
    version INTEGER NOT NULL
  )`,
  'INSERT OR IGNORE INTO spillway_clock (id, now, version) VALUES (1, 0, 0)',
  `CREATE TABLE IF NOT EXISTS spillway_record (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_at REAL
  )`,
  `CREATE INDEX IF NOT EXISTS spillway_record_expiry ON spillway_record (expires_at)
    WHERE expires_at IS NOT NULL`,
].map((sql): SqlStatement => ({ sql, parameters: [] }));

/**
 * The machine's time, but never earlier than the file or this process has seen: a clock that
 * jumps back stands still here, and what has expired stays so.
 */
const time = "max(clock.now, ?1, unixepoch('subsec') * 1000)";
const isAlive = `(record.expires_at IS NULL OR record.expires_at > ${time})`;

const readSql = `
  SELECT ${time} AS now, record.value, record.version, record.expires_at
  FROM spillway_clock AS clock
  LEFT JOIN json_each(?2) AS asked
  LEFT JOIN spillway_record AS record ON record.name = asked.value AND ${isAlive}
  ORDER BY asked.key`;

/** Gives a row only if every version is as it should be. */
const checkSql = `
  UPDATE spillway_clock AS clock SET now = ${time}, version = version + 1
  WHERE NOT EXISTS (
    SELECT 1 FROM json_each(?2) AS change
    LEFT JOIN spillway_record AS record ON record.name = change.value ->> 'name' AND ${isAlive}
    WHERE coalesce(record.version, 0) <> change.value ->> 'ifVersion'
  )
  RETURNING now, version`;

/**
 * Does nothing unless the statement before it, the check, has changed its one row. What is removed
 * stays as an expired record, so that one statement serves for all kinds of change.
 */
const changeSql = `
  INSERT INTO spillway_record (name, value, version, expires_at)
  SELECT change.value ->> 'name', coalesce(change.value ->> 'text', ''), clock.version,
    CASE WHEN change.value ->> 'text' IS NULL THEN clock.now
    ELSE clock.now + (change.value ->> 'ttlMs') END
  FROM json_each(?1) AS change, spillway_clock AS clock
  WHERE changes() = 1 AND change.value ->> 'checkOnly' IS NULL
  ON CONFLICT (name) DO UPDATE
  SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at`;

/** Removes more than one commit can leave behind, so that the expired never pile up. */
const purgeSql = `
  DELETE FROM spillway_record WHERE rowid IN (
    SELECT record.rowid FROM spillway_record AS record, spillway_clock AS clock
    WHERE record.expires_at <= clock.now ORDER BY record.expires_at LIMIT ?1
  )`;
const purgedMin = 8;

const listSql = `
  SELECT ${time} AS now, record.name, record.value, record.version, record.expires_at
  FROM spillway_clock AS clock CROSS JOIN spillway_record AS record
  WHERE record.name >= ?2 AND record.name < CAST(?3 AS TEXT) AND ${isAlive}
  ORDER BY record.name LIMIT ?4`;

/** A store in a SQLite file, for all processes of one machine. */
export class SqliteStore implements Store {
  readonly #file: SqliteFile;
  readonly #ownsFile: boolean;
  #ready: Promise<unknown> | undefined = undefined;
  /** The latest time that this process has seen. */
  #seen = 0;

  /** Uses a file that the caller opened and will close. */
  constructor(file: SqliteFile, ownsFile = false) {
    this.#file = file;
    this.#ownsFile = ownsFile;
  }

  /** Opens the file, or creates it, and closes it with the store. */
  static async open(path: string): Promise<SqliteStore> {
    const store = new SqliteStore(await SqliteFile.open({ path }), true);
    try {
      await store.#prepare();
      return store;
    } catch (error) {
      await store[Symbol.asyncDispose]();
      throw error;
    }
  }

  async read(names: readonly string[], signal?: AbortSignal): Promise<StoreReading> {
    signal?.throwIfAborted();
    checkStoreNames(names);
    const { rows } = await this.#read(readSql, [JSON.stringify(names)], signal);
    const records = names.map((_, at) => {
      const row = rows[at];
      return row === undefined || row.version === null ? undefined : toRecord(row);
    });
    return { now: this.#see(rows[0]), records };
  }

  async commit(
    changes: readonly StoreChange[],
    signal?: AbortSignal,
  ): Promise<StoreCommit | undefined> {
    signal?.throwIfAborted();
    checkStoreChanges(changes);
    const text = JSON.stringify(changes.map(toWire));
    await this.#prepare();
    const [checked] = await this.#file.write(
      [
        { sql: checkSql, parameters: [this.#seen, text] },
        { sql: changeSql, parameters: [text] },
        { sql: purgeSql, parameters: [purgedMin + changes.length] },
      ],
      signal,
    );
    const row = checked?.rows[0];
    return row && { now: this.#see(row), version: Number(row.version) };
  }

  async list(prefix: string, max: number, signal?: AbortSignal): Promise<readonly NamedRecord[]> {
    signal?.throwIfAborted();
    if (prefix !== '') checkStoreNames([prefix]);
    checkInteger('max', max, 1, 10_000);
    // No byte of UTF-8 is 0xff, so this is greater than every name that begins with the prefix.
    const end = Buffer.concat([Buffer.from(prefix), Buffer.of(0xff)]);
    const { rows } = await this.#read(listSql, [prefix, end, max], signal);
    this.#see(rows[0]);
    return rows.map((row) => ({ name: String(row.name), ...toRecord(row) }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ownsFile) await this.#file[Symbol.asyncDispose]();
  }

  async #read(sql: string, parameters: SqlValue[], signal?: AbortSignal): Promise<SqlResult> {
    await this.#prepare();
    return await this.#file.read({ sql, parameters: [this.#seen, ...parameters] }, signal);
  }

  async #prepare(): Promise<void> {
    this.#ready ??= this.#file.write(tables);
    try {
      await this.#ready;
    } catch (error) {
      this.#ready = undefined;
      throw error;
    }
  }

  #see(row: SqlResult['rows'][number] | undefined): number {
    this.#seen = Math.max(this.#seen, Number(row?.now ?? 0));
    return Number(row?.now);
  }
}

/** The parts that are undefined are left out on the way, and are null in SQL. */
function toWire({ name, ifVersion, value, ttlMs, checkOnly }: StoreChange): object {
  const text = value === undefined ? undefined : jsonText(value);
  return { name, ifVersion, text, ttlMs, checkOnly: checkOnly || undefined };
}

function toRecord(row: SqlResult['rows'][number]): StoredRecord {
  return {
    value: JSON.parse(String(row.value)),
    version: Number(row.version),
    expiresAt: row.expires_at === null ? undefined : Number(row.expires_at),
  };
}
