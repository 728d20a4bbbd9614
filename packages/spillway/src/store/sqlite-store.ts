import { check } from '../base/check.ts';
import { jsonText } from '../base/json.ts';
import type { CloseOptions, Part } from '../base/part.ts';
import { tracedCommit } from '../base/trace.ts';
import { SqliteFile, type SqliteFileStats } from '../sqlite/file.ts';
import type { SqlResult, SqlStatement, SqlValue } from '../sqlite/message.ts';
import { SeenTime } from './seen-time.ts';
import {
  checkStoreChanges,
  checkStoreList,
  checkStoreNames,
  type Durability,
  type NamedRecord,
  type Store,
  type StoreCallOptions,
  type StoreChange,
  type StoreCommit,
  type StoredRecord,
  type StoreListOptions,
  type StoreReading,
} from './store.ts';

type Row = SqlResult['rows'][number];

const tables = [
  `CREATE TABLE IF NOT EXISTS spillway_clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    now REAL NOT NULL,
    version INTEGER NOT NULL,
    wall REAL
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
 * Store time goes on by the differences of the machine's clock, from the last commit and from what
 * this process has seen last (`?1` of store time, `?2` of the machine's). So a record that has
 * expired stays expired when that clock jumps back, and time goes on when it had been ahead.
 */
const wall = "(unixepoch('subsec') * 1000)";
const sinceCommit = `clock.now + max(0, ${wall} - coalesce(clock.wall, clock.now))`;
const time = `max(${sinceCommit}, ?1 + max(0, ${wall} - ?2))`;
const isAlive = `(record.expires_at IS NULL OR record.expires_at > ${time})`;

const readSql = `
  SELECT ${time} AS now, ${wall} AS wall, record.value, record.version, record.expires_at
  FROM spillway_clock AS clock
  LEFT JOIN json_each(?3) AS asked
  LEFT JOIN spillway_record AS record ON record.name = asked.value AND ${isAlive}
  ORDER BY asked.key`;

/** Moves clock and version on, and gives a row, if every version is the expected one. */
const checkSql = `
  UPDATE spillway_clock AS clock SET now = ${time}, wall = ${wall}, version = version + 1
  WHERE NOT EXISTS (
    SELECT 1 FROM json_each(?3) AS change
    LEFT JOIN spillway_record AS record ON record.name = change.value ->> 'name' AND ${isAlive}
    WHERE coalesce(record.version, 0) <> change.value ->> 'ifVersion'
  )
  RETURNING now, wall, version`;

/**
 * Makes the changes if the statement before it, the check, has changed its one row. A removed
 * record stays as an expired one, so that one statement serves for all kinds of change.
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

/** Removes more records than one commit can leave behind, so that expired ones never pile up. */
const purgeSql = `
  DELETE FROM spillway_record WHERE rowid IN (
    SELECT record.rowid FROM spillway_record AS record, spillway_clock AS clock
    WHERE record.expires_at <= clock.now ORDER BY record.expires_at LIMIT ?1
  )`;
const purgedMin = 8;

const listSql = `
  SELECT ${time} AS now, ${wall} AS wall, record.name, record.value, record.version,
    record.expires_at
  FROM spillway_clock AS clock CROSS JOIN spillway_record AS record
  WHERE record.name >= ?3 AND record.name < CAST(?4 AS TEXT) AND record.name > ?6 AND ${isAlive}
  ORDER BY record.name LIMIT ?5`;

export interface SqliteStoreOptions {
  /** Path of the file; it is created if there is none, and closed with the store. */
  readonly path?: string | undefined;
  /** A file that the caller has opened and will close; give this or `path`. */
  readonly file?: SqliteFile | undefined;
  /** Name of the part in stats and messages. @default 'store' */
  readonly name?: string | undefined;
}

/** The stats of the file, which the store may share with others. */
export interface SqliteStoreStats extends SqliteFileStats {
  readonly durability: Durability;
}

/** A store in a SQLite file, for all processes of one machine. */
export class SqliteStore implements Store, Part {
  readonly durability = 'disk';
  readonly name: string;
  readonly #file: SqliteFile;
  readonly #ownsFile: boolean;
  readonly #seen = new SeenTime();

  private constructor(file: SqliteFile, ownsFile: boolean, name: string) {
    this.#file = file;
    this.#ownsFile = ownsFile;
    this.name = name;
  }

  /** Opens the file, or uses the one that is given, and makes the tables if there are none. */
  static async open(options: SqliteStoreOptions): Promise<SqliteStore> {
    const { path, file, name = 'store' } = options;
    const isOne = (path === undefined) !== (file === undefined);
    check(isOne, 'path', 'given, or else `file`, and not both', path);
    const used = file ?? (await SqliteFile.open({ path: path as string }));
    try {
      await used.write(tables);
      return new SqliteStore(used, file === undefined, name);
    } catch (error) {
      if (file === undefined) await used[Symbol.asyncDispose]();
      throw error;
    }
  }

  get stats(): SqliteStoreStats {
    return { ...this.#file.stats, durability: this.durability };
  }

  async read(names: readonly string[], options: StoreCallOptions = {}): Promise<StoreReading> {
    options.signal?.throwIfAborted();
    checkStoreNames(names);
    const rows = await this.#select(readSql, [JSON.stringify(names)], options);
    const records = names.map((_, at) => {
      const row = rows[at];
      return row === undefined || row.version === null ? undefined : recordOf(row);
    });
    return { now: Number(rows[0]?.now), records };
  }

  async commit(
    changes: readonly StoreChange[],
    options: StoreCallOptions = {},
  ): Promise<StoreCommit | undefined> {
    options.signal?.throwIfAborted();
    checkStoreChanges(changes);
    const statements = commitStatements(changes, this.#seen);
    const write = () => this.#file.write(statements, options);
    const [checked] = await tracedCommit('sqlite', changes.length, write);
    const row = checked?.rows[0];
    this.#note(row);
    return row && { now: Number(row.now), version: Number(row.version) };
  }

  async list(prefix: string, options: StoreListOptions): Promise<readonly NamedRecord[]> {
    checkStoreList(prefix, options);
    const { max, after = '', signal } = options;
    signal?.throwIfAborted();
    // No byte of UTF-8 is 0xff, so this is greater than every name that begins with the prefix.
    const end = Buffer.concat([Buffer.from(prefix), Buffer.of(0xff)]);
    const rows = await this.#select(listSql, [prefix, end, max, after], options);
    return rows.map((row) => ({ name: String(row.name), ...recordOf(row) }));
  }

  get ready(): boolean {
    return this.#file.ready;
  }

  get fault(): string | undefined {
    return this.#file.fault;
  }

  /** Closes the file, unless the caller opened it. */
  async close(options?: CloseOptions): Promise<void> {
    if (this.#ownsFile) await this.#file.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #select(
    sql: string,
    parameters: readonly SqlValue[],
    options: StoreCallOptions,
  ): Promise<readonly Row[]> {
    const statement = { sql, parameters: [...seenValues(this.#seen), ...parameters] };
    const { rows } = await this.#file.read(statement, options);
    this.#note(rows[0]);
    return rows;
  }

  #note(row: Row | undefined): void {
    if (row !== undefined) this.#seen.note(Number(row.now), Number(row.wall));
  }
}

/** The first two values of each statement; before the first answer they change nothing. */
function seenValues({ now = 0, wall = Number.MAX_SAFE_INTEGER }: SeenTime): [number, number] {
  return [now, wall];
}

/** The statements of a commit: a check that gives a row if all versions are right, and the rest. */
export function commitStatements(
  changes: readonly StoreChange[],
  seen: SeenTime = new SeenTime(),
): readonly [check: SqlStatement, change: SqlStatement, purge: SqlStatement] {
  // Parts that are undefined are absent from the JSON, and null in SQL.
  const wire = changes.map(({ name, ifVersion, value, ttlMs, checkOnly }) => {
    const text = value === undefined ? undefined : jsonText(value);
    return { name, ifVersion, text, ttlMs, checkOnly: checkOnly || undefined };
  });
  const text = JSON.stringify(wire);
  return [
    { sql: checkSql, parameters: [...seenValues(seen), text] },
    { sql: changeSql, parameters: [text] },
    { sql: purgeSql, parameters: [purgedMin + changes.length] },
  ];
}

function recordOf(row: Row): StoredRecord {
  return {
    value: JSON.parse(String(row.value)),
    version: Number(row.version),
    expiresAt: row.expires_at === null ? undefined : Number(row.expires_at),
  };
}
