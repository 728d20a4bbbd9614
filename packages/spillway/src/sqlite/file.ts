import { resolve } from 'node:path';
import { untilAborted } from '../base/abort.ts';
import { check, checkInteger, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { SpillwayError } from '../base/errors.ts';
import { inDoubt } from '../base/in-doubt.ts';
import { nextTurn } from '../wait/turn.ts';
import { copyStatement, resultsOf, toError } from './error.ts';
import { type SqliteJob, SqliteQueue } from './queue.ts';
import { SqliteThread } from './thread-start.ts';
import { SqliteTransaction } from './transaction.ts';
import type { SqliteOutcome, SqlResult, SqlStatement, SqlStatements } from './wire.ts';

/** How many transactions share one fsync at most; more would hardly be faster. */
const groupMax = 256;
/** How often it is looked whether the log has grown: after so many groups. */
const tidyGroups = 16;
/** How many reads go to a thread at once; a slow one delays those behind it. */
const readsMax = 8;

export interface SqliteFileOptions {
  /** Where the file is; it is created if there is none. */
  readonly path: string;
  /** How many threads read. An integer from 1 to 64. @default 2 */
  readonly readers?: number | undefined;
  /** How many transactions, and how many reads, may wait. An integer from 1. @default 10,000 */
  readonly queueMax?: number | undefined;
  /**
   * How long one may wait for its turn here, and then for other processes, in milliseconds.
   * @default 5,000
   */
  readonly busyMsMax?: number | undefined;
  /** @default systemClock */
  readonly clock?: Clock | undefined;
}

export interface SqliteFileStats {
  /** Transactions that wait for the writer. */
  readonly waiting: number;
  /** Reads that wait for a reader. */
  readonly readsWaiting: number;
  /** How many transactions were ever acknowledged. */
  readonly transactions: number;
  /** How many groups they came in: each cost one fsync. */
  readonly groups: number;
  /** How many reads were ever answered. */
  readonly reads: number;
  /** How many threads crashed and were started again. */
  readonly restarts: number;
}

/** A transaction known in advance, or undefined for one that asks for the writer itself. */
type Write = SqlStatements | undefined;
type WriteJob = SqliteJob<Write, readonly SqlResult[]>;

/**
 * A SQLite file on threads of its own, usable by many processes at once: one thread writes, with
 * one fsync for all transactions that came while the last one ran; others read. An abort ends the
 * waiting at once; a transaction that has begun by then may still be done.
 */
export class SqliteFile implements AsyncDisposable {
  readonly #writes: SqliteQueue<Write, readonly SqlResult[]>;
  readonly #reads: SqliteQueue<SqlStatement, SqlResult>;
  readonly #writer: SqliteThread;
  /** Moves what is in the log to its place: that takes some fsyncs, too long for the writer. */
  readonly #tidier: SqliteThread;
  #tidying: Promise<unknown> | undefined = undefined;
  readonly #readers: readonly SqliteThread[];
  readonly #idle: SqliteThread[];
  #isWriting = false;
  #isScheduled = false;
  #closed: PromiseWithResolvers<void> | undefined = undefined;
  #closing: Promise<void> | undefined = undefined;
  #transactions = 0;
  #groups = 0;
  #answered = 0;

  private constructor(options: SqliteFileOptions) {
    const { path, readers = 2, queueMax = 10_000, busyMsMax = 5_000 } = options;
    const clock = options.clock ?? systemClock;
    const isFile = typeof path === 'string' && path !== '' && path !== ':memory:';
    check(isFile, 'path', 'the path of a file', path);
    checkInteger('readers', readers, 1, 64);
    checkInteger('queueMax', queueMax, 1);
    checkNumber('busyMsMax', busyMsMax, 0, 2 ** 31 - 1);
    const queue = { max: queueMax, waitMsMax: busyMsMax, clock };
    const start = { path: resolve(path), busyMsMax };
    this.#writes = new SqliteQueue(queue);
    this.#reads = new SqliteQueue(queue);
    this.#writer = new SqliteThread({ ...start, role: 'writer' });
    this.#tidier = new SqliteThread({ ...start, role: 'tidier' });
    const reader = () => new SqliteThread({ ...start, role: 'reader' });
    this.#readers = Array.from({ length: readers }, reader);
    this.#idle = [...this.#readers];
  }

  /** Returns once the file is there and can be written. */
  static async open(options: SqliteFileOptions): Promise<SqliteFile> {
    const file = new SqliteFile(options);
    try {
      // Those that read start when there is something to read.
      resultsOf((await file.#writer.call('open'))[0]);
      return file;
    } catch (error) {
      await file[Symbol.asyncDispose]();
      throw error;
    }
  }

  get stats(): SqliteFileStats {
    const threads = [this.#writer, this.#tidier, ...this.#readers];
    return {
      waiting: this.#writes.size,
      readsWaiting: this.#reads.size,
      transactions: this.#transactions,
      groups: this.#groups,
      reads: this.#answered,
      restarts: threads.reduce((sum, { restarts }) => sum + restarts, 0),
    };
  }

  /**
   * Does all statements or none, in one transaction; returns when it is safe on the disk. If it is
   * aborted by a deadline, `retryable` tells whether it may have been done.
   */
  async write(statements: SqlStatements, signal?: AbortSignal): Promise<readonly SqlResult[]> {
    check(Array.isArray(statements), 'statements', 'an array', statements);
    const job = this.#enqueue(this.#writes, statements.map(copyStatement), signal);
    try {
      return await job.promise;
    } catch (error) {
      throw signal?.aborted && job.hasBegun ? inDoubt(error) : error;
    }
  }

  /** Runs one statement that changes nothing, on a thread that reads. */
  async read(statement: SqlStatement, signal?: AbortSignal): Promise<SqlResult> {
    return await this.#enqueue(this.#reads, copyStatement(statement), signal).promise;
  }

  /**
   * A transaction whose statements depend on each other. It holds the writer until the work ends,
   * so the work should do nothing else meanwhile; it is undone if the work throws or is aborted.
   */
  async transaction<T>(
    work: (transaction: SqliteTransaction) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    check(typeof work === 'function', 'work', 'a function', work);
    await this.#enqueue(this.#writes, undefined, signal).promise;
    const transaction = new SqliteTransaction(this.#writer, signal);
    const done = this.#perform(transaction, work);
    try {
      return await untilAborted(done, signal);
    } catch (error) {
      throw signal?.aborted && transaction.isCommitting ? inDoubt(error) : error;
    }
  }

  /** Does what waits, then closes; refuses whatever comes after this. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#closed = Promise.withResolvers();
    this.#schedule();
    await this.#closed.promise;
    const others = [this.#tidier, ...this.#readers];
    await Promise.all(others.map((thread) => thread[Symbol.asyncDispose]()));
    // The last connection to close tidies up the log, which only one that writes can do.
    await this.#writer[Symbol.asyncDispose]();
  }

  #enqueue<Work, T>(
    queue: SqliteQueue<Work, T>,
    work: Work,
    signal: AbortSignal | undefined,
  ): SqliteJob<Work, T> {
    if (this.#closed !== undefined) {
      throw new SpillwayError('DATABASE_CLOSED', 'the database is closed');
    }
    const job = queue.push(work, signal);
    this.#schedule();
    return job;
  }

  /** Once per turn of the loop: all that comes in one turn goes out in one message. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    nextTurn(this.#dispatch);
  }

  readonly #dispatch = (): void => {
    this.#isScheduled = false;
    if (!this.#isWriting && this.#writes.size > 0) this.#startWriting();
    while (this.#idle.length > 0 && this.#reads.size > 0) this.#startReading();
    const isBusy = this.#isWriting || this.#idle.length < this.#readers.length;
    if (!isBusy) this.#closed?.resolve();
  };

  #startWriting(): void {
    this.#isWriting = true;
    if (this.#writes.first === undefined) {
      this.#writes.shift()?.grant([]);
      return;
    }
    const jobs: WriteJob[] = [];
    while (jobs.length < groupMax && this.#writes.first !== undefined) {
      jobs.push(this.#writes.shift() as WriteJob);
    }
    const transactions = jobs.map(({ work }) => work as SqlStatements);
    void this.#ask(this.#writer, jobs, 'group', transactions).then((outcomes) => {
      this.#groups += 1;
      this.#endWriting();
      this.#transactions += settle(jobs, outcomes, (results) => results);
    });
  }

  async #perform<T>(
    transaction: SqliteTransaction,
    work: (transaction: SqliteTransaction) => Promise<T>,
  ): Promise<T> {
    try {
      const value = await transaction.perform(work);
      this.#transactions += 1;
      this.#groups += 1;
      return value;
    } finally {
      this.#endWriting();
    }
  }

  #endWriting(): void {
    this.#isWriting = false;
    if (this.#groups % tidyGroups === 0) this.#tidy();
    this.#schedule();
  }

  /** If it fails, the writer will find out why. */
  #tidy(): void {
    this.#tidying ??= this.#tidier
      .call('tidy')
      .catch(() => {})
      .finally(() => {
        this.#tidying = undefined;
      });
  }

  #startReading(): void {
    const thread = this.#idle.pop() as SqliteThread;
    const share = Math.ceil(this.#reads.size / (this.#idle.length + 1));
    const jobs: SqliteJob<SqlStatement, SqlResult>[] = [];
    while (jobs.length < Math.min(share, readsMax) && this.#reads.size > 0) {
      jobs.push(this.#reads.shift() as SqliteJob<SqlStatement, SqlResult>);
    }
    const statements = jobs.map(({ work }) => [work]);
    void this.#ask(thread, jobs, 'read', statements).then((outcomes) => {
      this.#idle.push(thread);
      this.#schedule();
      this.#answered += settle(jobs, outcomes, ([result]) => result as SqlResult);
    });
  }

  /** The outcomes of all jobs; none if the thread was lost, of which the jobs are told here. */
  async #ask(
    thread: SqliteThread,
    jobs: readonly { refuse(reason: unknown): void }[],
    type: 'group' | 'read',
    transactions: readonly SqlStatements[],
  ): Promise<readonly SqliteOutcome[]> {
    try {
      return await thread.call(type, transactions);
    } catch (error) {
      for (const job of jobs) job.refuse(error);
      return [];
    }
  }
}

/** Tells each job what came of it; gives the number of those that went well. */
function settle<Work, T>(
  jobs: readonly SqliteJob<Work, T>[],
  outcomes: readonly SqliteOutcome[],
  value: (results: readonly SqlResult[]) => T,
): number {
  let done = 0;
  for (const [at, outcome] of outcomes.entries()) {
    if ('failure' in outcome) jobs[at]?.refuse(toError(outcome.failure));
    else {
      done += 1;
      jobs[at]?.grant(value(outcome.results));
    }
  }
  return done;
}
