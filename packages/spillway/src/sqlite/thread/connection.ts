import { type BigIntStats, statSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { systemClock } from '../../base/clock.ts';
import { field } from '../../base/failure.ts';
import { systemRandom } from '../../base/random.ts';
import { primaryCode } from '../error.ts';
import { nodeSqlite } from '../node-sqlite.ts';
import type { SqliteStart, SqlResult, SqlStatement, SqlValue } from '../wire.ts';

/** How many prepared statements are kept, the least recently used going first. */
const statementsMax = 256;
const busy = 5;
const cannotOpen = 14;
/** From so many pages of its log on, a file is tidied: few, so that each time is short. */
const logPagesMin = 256;
/** The writer tidies by itself only where nobody else gets to it in time: 64 MiB. */
const logPagesMax = 16_384;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

interface Prepared {
  readonly statement: StatementSync;
  readonly hasRows: boolean;
  /** True if it sets, releases or goes back to a savepoint. */
  readonly isSavepoint: boolean;
}

/** One connection to one file, used by one thread and blocking it. */
export class SqliteConnection implements Disposable {
  readonly #start: SqliteStart;
  readonly #database: DatabaseSync;
  readonly #file: BigIntStats;
  readonly #prepared = new Map<string, Prepared>();
  readonly #controls = new Map<string, StatementSync>();
  /** True while a statement of this class, which may begin or end a transaction, is run. */
  #own = false;
  #sawSavepoint = false;
  #ranSavepoint = false;
  /** What all statements so far have changed; undefined when that has to be asked again. */
  #totalChanges: bigint | undefined = undefined;

  /** Creates the file only if told to: one that has vanished is not replaced by an empty one. */
  constructor(start: SqliteStart, create: boolean) {
    const { constants, DatabaseSync } = nodeSqlite();
    this.#start = start;
    if (!create) statOf(start.path);
    const isReader = start.role === 'reader';
    // SQLite's own waiting sleeps up to 100 ms at a time, which starves a writer among several.
    const timeout = isReader ? start.busyMsMax : 0;
    this.#database = new DatabaseSync(start.path, { readOnly: isReader, timeout });
    try {
      if (!isReader) this.#retry(this.giveUpAt(), () => this.#configure());
      this.#file = statOf(start.path);
      this.#database.setAuthorizer((action) => {
        if (action === constants.SQLITE_SAVEPOINT) this.#sawSavepoint = true;
        const isDenied = action === constants.SQLITE_TRANSACTION && !this.#own;
        return isDenied ? constants.SQLITE_DENY : constants.SQLITE_OK;
      });
    } catch (error) {
      this.#database.close();
      throw error;
    }
  }

  get isTransaction(): boolean {
    return this.#database.isOpen && this.#database.isTransaction;
  }

  /** Until when a transaction that asks now may wait for other processes. */
  giveUpAt(): number {
    return systemClock.now() + this.#start.busyMsMax;
  }

  /** True if a caller's statement has touched savepoints since the transaction began. */
  get ranSavepoint(): boolean {
    return this.#ranSavepoint;
  }

  begin(giveUpAt: number): void {
    this.#ranSavepoint = false;
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

  run({ sql, parameters }: SqlStatement): SqlResult {
    const { statement, hasRows, isSavepoint } = this.#prepare(sql);
    if (isSavepoint) this.#ranSavepoint = true;
    const values = parameters as (null | number | bigint | string | NodeJS.ArrayBufferView)[];
    const isReader = this.#start.role === 'reader';
    const before = hasRows && !isReader ? (this.#totalChanges ?? this.#counters().total) : 0n;
    this.#totalChanges = undefined;
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
    if (isReader) return { rows, changes: 0, lastInsertRowid: 0 };
    const { total, last, rowid } = this.#counters();
    // Of a statement that only reads, SQLite tells what the one before it has changed.
    const changes = total === before ? 0 : Number(last);
    this.#totalChanges = total;
    return { rows, changes, lastInsertRowid: exact(rowid) };
  }

  /** Moves what is in the log to its place, without holding up anybody who reads or writes. */
  tidy(): void {
    this.checkInPlace();
    const { log, checkpointed } = this.#database
      .prepare('PRAGMA wal_checkpoint(NOOP)')
      .get() as Record<string, number>;
    const pages = Number(log) - Number(checkpointed);
    if (pages >= logPagesMin) this.#database.exec('PRAGMA wal_checkpoint(PASSIVE)');
  }

  /** Fails if the file is no longer where it was: what is written now would be lost with it. */
  checkInPlace(): void {
    const { dev, ino } = statOf(this.#start.path);
    if (dev !== this.#file.dev || ino !== this.#file.ino) throw gone('the file was replaced');
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

  #prepare(sql: string): Prepared {
    const known = this.#prepared.get(sql);
    if (known !== undefined) {
      this.#prepared.delete(sql);
      this.#prepared.set(sql, known);
      return known;
    }
    this.#sawSavepoint = false;
    const statement = this.#database.prepare(sql);
    const isSavepoint = this.#sawSavepoint;
    statement.setReadBigInts(true);
    this.#checkSingle(sql.slice(statement.sourceSQL.length));
    const prepared = { statement, hasRows: statement.columns().length > 0, isSavepoint };
    this.#prepared.set(sql, prepared);
    if (this.#prepared.size > statementsMax) {
      const [oldest] = this.#prepared.keys();
      this.#prepared.delete(oldest as string);
    }
    return prepared;
  }

  /** What follows the first statement would be left out without a word. */
  #checkSingle(rest: string): void {
    if (rest.trim() === '') return;
    let isEmpty = false;
    try {
      void this.#database.prepare(rest).sourceSQL;
    } catch (error) {
      // To SQLite an empty one is none; Node refuses it, in some releases only once it is used.
      isEmpty = field(error, 'code') !== 'ERR_SQLITE_ERROR';
    }
    if (!isEmpty) throw new Error('one statement at a time');
  }

  #counters(): Record<'total' | 'last' | 'rowid', bigint> {
    const sql = 'SELECT total_changes() AS total, changes() AS last, last_insert_rowid() AS rowid';
    return this.#prepare(sql).statement.get() as Record<'total' | 'last' | 'rowid', bigint>;
  }
}

/** A number where that is exact. */
function exact(value: number | bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function statOf(path: string): BigIntStats {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (stats === undefined) throw gone('the file is gone');
  return stats;
}

function gone(message: string): Error {
  return Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode: cannotOpen });
}
