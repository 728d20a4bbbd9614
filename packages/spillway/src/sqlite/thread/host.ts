import { parentPort, workerData } from 'node:worker_threads';
import { primaryCode, toFailure } from '../error.ts';
import {
  type PackedTransactions,
  packOutcomes,
  type SqliteOutcome,
  type SqliteRequest,
  type SqliteStart,
  type SqlResult,
  type SqlStatements,
  unpackTransactions,
} from '../message.ts';
import { SqliteConnection } from './connection.ts';

/** Out of memory, I/O, corrupt, cannot open, no database: a new connection is needed then. */
const broken: ReadonlySet<number> = new Set([7, 10, 11, 14, 26]);

/** SQLite's result code for a transaction that was rolled back. */
const aborted = 4;

/** The thread's side of a SqliteFile: owns the connection and answers requests. */
class SqliteHost {
  readonly #start: SqliteStart;
  #connection: SqliteConnection | undefined = undefined;

  constructor(start: SqliteStart) {
    this.#start = start;
  }

  receive(message: SqliteRequest): readonly SqliteOutcome[] {
    try {
      return this.#answer(message);
    } catch (error) {
      const length = Math.max(1, message.transactions.length);
      return new Array<SqliteOutcome>(length).fill(this.#failed(error));
    }
  }

  #answer({ type, transactions }: SqliteRequest): readonly SqliteOutcome[] {
    switch (type) {
      case 'open':
        this.#connection ??= new SqliteConnection(this.#start, true);
        return [];
      case 'close':
        this.#connection?.[Symbol.dispose]();
        this.#connection = undefined;
        return [];
      case 'checkpoint':
        this.#open().checkpoint();
        return [];
      case 'group':
        return this.#group(transactions, this.#open().giveUpAt());
      case 'read':
        this.#open().checkInPlace();
        return transactions.map((statements) => this.#attempt(statements));
      case 'begin': {
        const connection = this.#open();
        connection.begin(connection.giveUpAt());
        return [];
      }
      case 'run':
        return [this.#inTransaction() ?? this.#attempt(transactions.flat())];
      case 'commit': {
        const failed = this.#inTransaction() ?? this.#commit(this.#open());
        return failed === undefined ? [] : [failed];
      }
      case 'rollback':
        this.#rollback();
        return [];
    }
  }

  #open(): SqliteConnection {
    this.#connection ??= new SqliteConnection(this.#start, false);
    return this.#connection;
  }

  /**
   * Runs all transactions in one transaction of SQLite: one fsync serves them all. They are run as
   * if none could fail. If one does, all are undone and run again with a savepoint for each, so
   * that the failing one is undone alone.
   */
  #group(
    transactions: readonly SqlStatements[],
    giveUpAt: number,
    isGuarded = false,
  ): readonly SqliteOutcome[] {
    const connection = this.#open();
    connection.begin(giveUpAt);
    const outcomes: SqliteOutcome[] = [];
    for (const statements of transactions) {
      const outcome = isGuarded
        ? this.#savepoint(connection, statements)
        : this.#attempt(statements);
      outcomes.push(outcome);
      if (!('failure' in outcome)) continue;
      // Some failures, such as a full disk, undo the whole group and not only their own part.
      const isAlone = transactions.length === 1 || !connection.isTransaction;
      if (isAlone) return this.#alone(transactions, giveUpAt, outcome);
      if (isGuarded) continue;
      this.#rollback();
      return this.#group(transactions, giveUpAt, true);
    }
    const failed = this.#commit(connection);
    if (failed === undefined) return outcomes;
    // The connection broke during the commit, so the group may be done: never run it again.
    if (this.#connection === undefined) return outcomes.map(() => failed);
    return this.#alone(transactions, giveUpAt, failed);
  }

  /** Runs the transactions one by one, so that only those fail that must. */
  #alone(
    transactions: readonly SqlStatements[],
    giveUpAt: number,
    outcome: SqliteOutcome,
  ): readonly SqliteOutcome[] {
    this.#rollback();
    if (transactions.length === 1) return [outcome];
    return transactions.flatMap((statements) => {
      try {
        return this.#group([statements], giveUpAt);
      } catch (error) {
        return [this.#failed(error)];
      }
    });
  }

  #savepoint(connection: SqliteConnection, statements: SqlStatements): SqliteOutcome {
    connection.control('SAVEPOINT spillway_one');
    const outcome = this.#attempt(statements);
    if (!connection.isTransaction) return outcome;
    if ('failure' in outcome) connection.control('ROLLBACK TO spillway_one');
    connection.control('RELEASE spillway_one');
    return outcome;
  }

  #attempt(statements: SqlStatements): SqliteOutcome {
    const connection = this.#open();
    const results: SqlResult[] = [];
    let sql: string | undefined;
    try {
      for (const statement of statements) {
        sql = statement.sql;
        results.push(connection.run(statement));
      }
      return { results };
    } catch (error) {
      return this.#failed(error, sql);
    }
  }

  /** Gives a failure if no transaction is open: an error, or the end of its thread, ended it. */
  #inTransaction(): SqliteOutcome | undefined {
    if (this.#connection?.isTransaction) return undefined;
    const message = 'the transaction has ended by an error, or with its thread';
    const error = Object.assign(new Error(message), { errcode: aborted });
    return { failure: toFailure(error, this.#start.path) };
  }

  /** Commits; gives undefined if all is safe on the disk. */
  #commit(connection: SqliteConnection): SqliteOutcome | undefined {
    try {
      connection.control('COMMIT');
      connection.checkInPlace();
      return undefined;
    } catch (error) {
      return this.#failed(error, undefined, true);
    }
  }

  #rollback(): void {
    if (this.#connection?.isTransaction) this.#connection.control('ROLLBACK');
  }

  #failed(error: unknown, sql?: string, isCommit?: boolean): SqliteOutcome {
    if (broken.has(primaryCode(error))) {
      this.#connection?.[Symbol.dispose]();
      this.#connection = undefined;
    }
    return { failure: toFailure(error, this.#start.path, sql, isCommit) };
  }
}

const port = parentPort;
if (port !== null) {
  const host = new SqliteHost(workerData);
  port.on('message', ({ type, texts, parts }: Pick<SqliteRequest, 'type'> & PackedTransactions) => {
    const transactions = unpackTransactions({ texts, parts });
    port.postMessage(packOutcomes(host.receive({ type, transactions })));
    if (type === 'close') port.close();
  });
}
