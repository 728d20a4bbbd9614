import { accessSync, constants, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { untilAborted } from '../base/abort.ts';
import { check } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { DiskSpace } from '../base/disk-space.ts';
import { inDoubt, SpillwayError } from '../base/errors.ts';
import { field } from '../base/failure.ts';
import { clockRule, instance, integer, number, or, settle, word } from '../base/options.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import type { RunOptions } from '../base/task.ts';
import { nextTurn } from '../wait/turn-budget.ts';
import { copyStatement, resultsOf, toError } from './error.ts';
import type {
  SqliteOutcome,
  SqliteStart,
  SqlResult,
  SqlStatement,
  SqlStatements,
} from './message.ts';
import { type SqliteJob, SqliteQueue } from './queue.ts';
import { SqliteTransaction } from './transaction.ts';
import { SqliteWorker } from './worker.ts';

/** Transactions that share one fsync at most; more would hardly be faster. */
const groupMax = 256;
/** Groups between two looks of the checkpointer at the length of the log. */
const checkpointGroups = 16;
/** Reads that go to a thread in one message; a slow one delays those behind it. */
const readsMax = 8;
/** Added to the time limit of each call, so that SQLite's own wait for a lock ends first. */
const marginMs = 1_000;

export interface SqliteFileOptions {
  /** Path of the file, in a folder that exists; the file is created if there is none. */
  readonly path: string;
  /** Name of the part in stats and messages. @default 'sqlite' */
  readonly name?: string | undefined;
  /** Threads that read. An integer from 1 to 64. @default 2 */
  readonly readers?: number | undefined;
  /** Transactions, and also reads, that may wait. An integer from 1. @default 10_000 */
  readonly queueMax?: number | undefined;
  /**
   * Milliseconds, from 0 to 2^31 - 1, that a call may wait for its turn; then as many that it may
   * wait for other processes, and as many that it may run. A thread that takes longer is replaced.
   * The statements of `transaction()` are bounded by its signal only. @default 5_000
   */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface SqliteFileStats {
  readonly kind: 'sqlite';
  /** Transactions that wait for the writer. */
  readonly waiting: number;
  /** Reads that wait for a reader. */
  readonly readsWaiting: number;
  /** Transactions that were acknowledged. */
  readonly transactions: number;
  /** Groups in which they came: each cost one fsync. */
  readonly groups: number;
  /** Reads that were answered. */
  readonly reads: number;
  /** Threads that were replaced because they crashed or a call took too long. */
  readonly restarts: number;
  /** True once a write has failed because the disk is full, until one succeeds. */
  readonly full: boolean;
}

/** The statements of a `write()`, or undefined for a `transaction()`, which takes the writer. */
type Write = SqlStatements | undefined;
type WriteJob = SqliteJob<Write, readonly SqlResult[]>;
type ReadJob = SqliteJob<SqlStatement, SqlResult>;

/**
 * A SQLite file on threads of its own, usable by many processes at once: one thread writes, with
 * one fsync for all transactions that came while the last one ran; others read. An abort ends the
 * waiting at once; a transaction that has begun by then may still be done.
 */
export class SqliteFile implements Part, AsyncDisposable {
  readonly name: string;
  readonly #writes: SqliteQueue<Write, readonly SqlResult[]>;
  readonly #reads: SqliteQueue<SqlStatement, SqlResult>;
  readonly #writer: SqliteWorker;
  /** Moves the log into the file: that takes several fsyncs, too long for the writer. */
  readonly #checkpointer: SqliteWorker;
  #checkpoint: Promise<void> | undefined = undefined;
  readonly #readers: readonly SqliteWorker[];
  readonly #idle: SqliteWorker[];
  readonly #closing: Closing;
  readonly #space: DiskSpace;
  #isWriting = false;
  #isScheduled = false;
  readonly #drained: PromiseWithResolvers<void> = Promise.withResolvers();
  #transactions = 0;
  #groups = 0;
  #answered = 0;

  private constructor(options: SqliteFileOptions) {
    const settled = settle('SqliteFile', options, {
      path: instance((value) => word.holds(value) && value !== ':memory:', 'the path of a file'),
      name: or(word, 'sqlite'),
      readers: or(integer(1, 64), 2),
      queueMax: or(integer(1), 10_000),
      deadlineMs: or(number(0, 2 ** 31 - 1), 5_000),
      clock: or(clockRule, systemClock),
    });
    const { deadlineMs, clock, readers } = settled;
    this.name = settled.name;
    this.#writes = new SqliteQueue(settled);
    this.#reads = new SqliteQueue(settled);
    const worker = (role: SqliteStart['role'], limits: number) => {
      const start = { path: resolve(options.path), role, busyMs: deadlineMs };
      return new SqliteWorker(start, limits * deadlineMs + marginMs, clock);
    };
    // The writer waits for other processes first, and then runs statements.
    this.#writer = worker('writer', 2);
    this.#checkpointer = worker('checkpointer', 2);
    this.#readers = Array.from({ length: readers }, () => worker('reader', 1));
    this.#idle = [...this.#readers];
    this.#space = new DiskSpace(resolve(options.path), clock);
    this.#closing = new Closing(clock, (limit) => this.#close(limit));
  }

  /** Opens the file for writing; `DATABASE_UNUSABLE` says why it cannot. */
  static async open(options: SqliteFileOptions): Promise<SqliteFile> {
    const isNew = Number.parseInt(process.versions.node, 10) >= 24;
    check(isNew, 'SqliteFile: Node', '24.12 or newer, for its node:sqlite', process.version);
    const file = new SqliteFile(options);
    try {
      // The readers start when there is something to read.
      resultsOf((await file.#writer.call('open'))[0]);
      return file;
    } catch (error) {
      await file.close();
      throw field(error, 'code') === 'DATABASE_LOST' ? unusable(options.path, error) : error;
    }
  }

  /** False while the disk is full, and once the file is closing. */
  get ready(): boolean {
    return !this.#closing.hasBegun && this.fault === undefined;
  }

  get fault(): string | undefined {
    return this.#space.fault;
  }

  get stats(): SqliteFileStats {
    const workers = [this.#writer, this.#checkpointer, ...this.#readers];
    return {
      kind: 'sqlite',
      waiting: this.#writes.size,
      readsWaiting: this.#reads.size,
      transactions: this.#transactions,
      groups: this.#groups,
      reads: this.#answered,
      restarts: workers.reduce((sum, { restarts }) => sum + restarts, 0),
      full: this.fault !== undefined,
    };
  }

  /**
   * Does all statements or none, in one transaction; returns when it is safe on the disk. If a
   * deadline aborts it, the error is `retryable` only if nothing was done.
   */
  async write(
    statements: SqlStatements,
    { signal }: RunOptions = {},
  ): Promise<readonly SqlResult[]> {
    check(Array.isArray(statements), 'statements', 'an array', statements);
    const job = this.#enqueue(this.#writes, statements.map(copyStatement), signal);
    try {
      return await job.promise;
    } catch (error) {
      throw signal?.aborted && job.hasBegun ? inDoubt(error) : error;
    }
  }

  /** Runs one statement that changes nothing, on a thread that reads. */
  async read(statement: SqlStatement, { signal }: RunOptions = {}): Promise<SqlResult> {
    return await this.#enqueue(this.#reads, copyStatement(statement), signal).promise;
  }

  /**
   * Runs a transaction whose statements depend on each other. It holds the writer until the work
   * ends, so the work should do nothing else meanwhile; it is undone if the work throws or is
   * aborted.
   */
  async transaction<T>(
    work: (transaction: SqliteTransaction) => Promise<T>,
    { signal }: RunOptions = {},
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

  /**
   * Finishes the waiting jobs, then closes; later jobs are refused. When the time is over, waiting
   * jobs are refused as well, and threads that are still at work are given up.
   */
  close(options?: CloseOptions): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(limit: AbortSignal): Promise<void> {
    this.#schedule();
    await untilAborted(this.#drained.promise, limit).catch(() => {
      const error = new SpillwayError('DATABASE_CLOSED', 'the database was closed before its turn');
      this.#writes.refuseAll(error);
      this.#reads.refuseAll(error);
    });
    const others = [this.#checkpointer, ...this.#readers];
    await Promise.all(others.map((worker) => worker.close(limit)));
    // The last connection to close removes the log, which only one that writes can do.
    await this.#writer.close(limit);
    await untilAborted(this.#space.idle(), limit).catch(() => {});
  }

  #enqueue<Work, T>(
    queue: SqliteQueue<Work, T>,
    work: Work,
    signal: AbortSignal | undefined,
  ): SqliteJob<Work, T> {
    if (this.#closing.hasBegun) {
      throw new SpillwayError('DATABASE_CLOSED', 'the database is closed');
    }
    const job = queue.push(work, signal);
    this.#schedule();
    return job;
  }

  /** Dispatches once per turn of the event loop: all jobs of a turn share one message. */
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
    if (!isBusy && this.#closing.hasBegun) this.#drained.resolve();
  };

  #startWriting(): void {
    this.#isWriting = true;
    if (this.#writes.first?.work === undefined) {
      this.#writes.shift()?.grant([]);
      return;
    }
    const jobs: WriteJob[] = [];
    while (jobs.length < groupMax && this.#writes.first?.work !== undefined) {
      jobs.push(this.#writes.shift() as WriteJob);
    }
    const transactions = jobs.map(({ work }) => work as SqlStatements);
    void ask(this.#writer, jobs, 'group', transactions).then((outcomes) => {
      this.#groups += 1;
      this.#endWriting();
      this.#transactions += this.#answer(jobs, outcomes, (results) => results);
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
    } catch (error) {
      this.#space.failed(error);
      throw error;
    } finally {
      this.#endWriting();
    }
  }

  /** Tells each job its outcome, and gives the number of those that went well. */
  #answer<Work, T>(
    jobs: readonly SqliteJob<Work, T>[],
    outcomes: readonly SqliteOutcome[],
    value: (results: readonly SqlResult[]) => T,
  ): number {
    let done = 0;
    for (const [at, outcome] of outcomes.entries()) {
      if ('failure' in outcome) {
        const error = toError(outcome.failure);
        this.#space.failed(error);
        jobs[at]?.refuse(error);
        continue;
      }
      done += 1;
      // A statement that changed nothing has needed no space.
      if (outcome.results.some(({ changes }) => changes > 0)) this.#space.succeeded();
      jobs[at]?.grant(value(outcome.results));
    }
    return done;
  }

  #endWriting(): void {
    this.#isWriting = false;
    this.#schedule();
    if (this.#groups % checkpointGroups > 0 || this.#closing.hasBegun) return;
    const forget = () => {
      this.#checkpoint = undefined;
    };
    // A failure is left to the writer, which will meet its cause too.
    this.#checkpoint ??= this.#checkpointer.call('checkpoint').then(forget, forget);
  }

  #startReading(): void {
    const reader = this.#idle.pop() as SqliteWorker;
    const share = Math.ceil(this.#reads.size / (this.#idle.length + 1));
    const jobs: ReadJob[] = [];
    while (jobs.length < Math.min(share, readsMax) && this.#reads.size > 0) {
      jobs.push(this.#reads.shift() as ReadJob);
    }
    const statements = jobs.map(({ work }) => [work]);
    void ask(reader, jobs, 'read', statements).then((outcomes) => {
      this.#idle.push(reader);
      this.#schedule();
      this.#answered += this.#answer(jobs, outcomes, ([result]) => result as SqlResult);
    });
  }
}

/** Gives the outcomes of all jobs; if the thread was lost it rejects the jobs, and gives none. */
async function ask(
  worker: SqliteWorker,
  jobs: readonly { refuse(reason: unknown): void }[],
  type: 'group' | 'read',
  transactions: readonly SqlStatements[],
): Promise<readonly SqliteOutcome[]> {
  try {
    return await worker.call(type, transactions);
  } catch (error) {
    for (const job of jobs) job.refuse(error);
    return [];
  }
}

/** Makes an error with the path and the reason: SQLite only says that it cannot open the file. */
function unusable(path: string, cause: unknown): SpillwayError {
  let reason = cause;
  try {
    accessSync(dirname(resolve(path)), constants.W_OK);
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats?.isDirectory()) reason = new Error('it is a folder');
    else if (stats !== undefined) accessSync(path, constants.R_OK | constants.W_OK);
  } catch (denied) {
    reason = denied;
  }
  const message = `cannot open ${path}: ${String(field(reason, 'message'))}`;
  return new SpillwayError('DATABASE_UNUSABLE', message, { cause: reason });
}
