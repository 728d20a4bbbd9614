import { type BigIntStats, statSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { systemClock } from '../../base/clock.ts';
import { field } from '../../base/failure.ts';
import { systemRandom } from '../../base/random.ts';
import { BoundedMap } from '../../wait/bounded-map.ts';
import { primaryCode } from '../error.ts';
import type { SqliteStart, SqlResult, SqlStatement, SqlValue } from '../message.ts';
import { nodeSqlite } from '../node-sqlite.ts';

/** Prepared statements that are kept. */
const statementsMax = 256;
const busy = 5;
const corrupt = 11;
const cannotOpen = 14;
/** Pages in the log from which it is moved into the file: few, so that each move is short. */
const logPagesMin = 256;
/** Pages (64 MiB) at which the writer itself moves the log, if the checkpointer is too slow. */
const logPagesMax = 16_384;
/** Settings that would outlive the statement and break the connection for all who write later. */
const fixedPragmas: ReadonlySet<string> = new Set([
  'busy_timeout',
  'locking_mode',
  'query_only',
  'wal_autocheckpoint',
]);
const sleeper = new Int32Array(new SharedArrayBuffer(4));

interface Prepared {
  readonly statement: StatementSync;
  readonly hasRows: boolean;
  /** True if it inserts, updates or deletes. */
  readonly isWrite: boolean;
}

/** One connection to one file, used by one thread and blocking it. */
export class SqliteConnection implements Disposable {
  readonly #start: SqliteStart;
  readonly #database: DatabaseSync;
  readonly #file: BigIntStats;
  readonly #prepared = new BoundedMap<string, Prepared>({ countMax: statementsMax });
  readonly #controls = new Map<string, StatementSync>();
  /** True while a statement of this class is prepared: only those begin or end transactions. */
  #own = false;
  /** True if the statement that was prepared last writes. */
  #sawWrite = false;

  /** Creates the file only if told to: one that has vanished is not replaced by an empty one. */
  constructor(start: SqliteStart, create: boolean) {
    const { constants, DatabaseSync } = nodeSqlite();
    this.#start = start;
    if (!create) statOf(start.path);
    const isReader = start.role === 'reader';
    // SQLite's own waiting sleeps up to 100 ms at a time, which starves a writer among several.
    const timeout = isReader ? start.busyMs : 0;
    this.#database = new DatabaseSync(start.path, { readOnly: isReader, timeout });
    try {
      if (!isReader) this.#retry(this.giveUpAt(), () => this.#configure());
      this.#file = statOf(start.path);
      this.#database.setAuthorizer((action, name, value) =>
        this.#mayPrepare(action, name, value) ? constants.SQLITE_OK : constants.SQLITE_DENY,
      );
    } catch (error) {
      this.#database.close();
      throw error;
    }
  }

  get isTransaction(): boolean {
    return this.#database.isOpen && this.#database.isTransaction;
  }

  /** The moment until which a transaction that begins now may wait for other processes. */
  giveUpAt(): number {
    return systemClock.now() + this.#start.busyMs;
  }

  begin(giveUpAt: number): void {
    this.#retry(giveUpAt, () => this.control('BEGIN IMMEDIATE'));
  }

  /** Runs one of the statements that only this package may run. */
  control(sql: string): void {
    this.#own = true;
    try {
      // Kept apart, since a caller's statement of the same text must not find them.
      let statement = this.#controls.get(sql);
      if (statement === undefined) {
        statement = this.#database.prepare(sql);
        this.#controls.set(sql, statement);
      }
      statement.run();
    } finally {
      this.#own = false;
    }
  }

  /** Runs a caller's statement, which must not begin, end or nest transactions. */
  run({ sql, parameters }: SqlStatement): SqlResult {
    const { statement, hasRows, isWrite } = this.#prepare(sql);
    const values = parameters as (null | number | bigint | string | NodeJS.ArrayBufferView)[];
    if (!hasRows) {
      const { changes, lastInsertRowid } = statement.run(...values);
      return { rows: [], changes: Number(changes), lastInsertRowid: exact(lastInsertRowid) };
    }
    const rows = statement.all(...values) as Record<string, SqlValue>[];
    for (const row of rows) {
      for (const name in row) {
        const value = row[name];
        if (typeof value === 'bigint') row[name] = exact(value);
      }
    }
    // A statement that writes gives its rows by RETURNING: one for each row it changed.
    return { rows, changes: isWrite ? rows.length : 0, lastInsertRowid: 0 };
  }

  /** Moves the log into the file, without holding up readers or the writer. */
  checkpoint(): void {
    this.checkInPlace();
    const { log, checkpointed } = this.#database
      .prepare('PRAGMA wal_checkpoint(NOOP)')
      .get() as Record<string, number>;
    const pages = Number(log) - Number(checkpointed);
    if (pages >= logPagesMin) this.#database.exec('PRAGMA wal_checkpoint(PASSIVE)');
  }

  /** Fails if the file was moved, deleted, emptied or replaced: writes would be lost. */
  checkInPlace(): void {
    const { dev, ino } = statOf(this.#start.path);
    if (dev !== this.#file.dev || ino !== this.#file.ino) throw fileError('the file was replaced');
  }

  [Symbol.dispose](): void {
    this.#prepared.clear();
    this.#controls.clear();
    if (this.#database.isOpen) this.#database.close();
  }

  #configure(): void {
    const mode = this.#database.prepare('PRAGMA journal_mode = WAL').get()?.journal_mode;
    if (mode !== 'wal') throw new Error(`no write-ahead log is possible here, only: ${mode}`);
    this.#database.exec('PRAGMA synchronous = FULL');
    this.#database.exec(`PRAGMA wal_autocheckpoint = ${logPagesMax}`);
  }

  #retry(giveUpAt: number, attempt: () => void): void {
    for (;;) {
      try {
        attempt();
        return;
      } catch (error) {
        if (primaryCode(error) !== busy || systemClock.now() >= giveUpAt) throw error;
        Atomics.wait(sleeper, 0, 0, 0.5 + systemRandom());
      }
    }
  }

  /** Called by SQLite for each action of a statement while it prepares the statement. */
  #mayPrepare(action: number, name: string | null, value: string | null): boolean {
    const { constants } = nodeSqlite();
    switch (action) {
      case constants.SQLITE_PRAGMA:
        return value === null || !fixedPragmas.has(String(name).toLowerCase());
      case constants.SQLITE_TRANSACTION:
      case constants.SQLITE_SAVEPOINT:
        return this.#own;
      case constants.SQLITE_INSERT:
      case constants.SQLITE_UPDATE:
      case constants.SQLITE_DELETE:
        this.#sawWrite = true;
    }
    return true;
  }

  #prepare(sql: string): Prepared {
    const known = this.#prepared.get(sql);
    if (known !== undefined) return known;
    this.#sawWrite = false;
    const statement = this.#database.prepare(sql);
    const isWrite = this.#sawWrite;
    statement.setReadBigInts(true);
    this.#checkSingle(sql.slice(statement.sourceSQL.length));
    const prepared = { statement, hasRows: statement.columns().length > 0, isWrite };
    this.#prepared.set(sql, prepared);
    return prepared;
  }

  /** Refuses a second statement, which SQLite would leave out without a word. */
  #checkSingle(rest: string): void {
    if (rest.trim() === '') return;
    let isEmpty = false;
    try {
      void this.#database.prepare(rest).sourceSQL;
    } catch (error) {
      // SQLite takes an empty text for no statement; some releases of Node refuse only its use.
      isEmpty = field(error, 'code') !== 'ERR_SQLITE_ERROR';
    }
    if (!isEmpty) throw new Error('one statement at a time');
  }
}

/** Gives a number where that is exact. */
function exact(value: number | bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function statOf(path: string): BigIntStats {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (stats === undefined) throw fileError('the file is gone');
  // A database has a header from its opening on. SQLite would take an empty file for a new one.
  if (stats.size === 0n) throw fileError('the file was emptied while it was open', corrupt);
  return stats;
}

function fileError(message: string, errcode: number = cannotOpen): Error {
  return Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode });
}
