import { writeSync } from 'node:fs';
import { inspect } from 'node:util';
import { Worker } from 'node:worker_threads';
import { untilAborted } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import { inDoubt, SpillwayError } from '../base/errors.ts';
import { threadFile } from '../base/thread-file.ts';
import { Deadlines } from '../wait/deadlines.ts';
import {
  type PackedOutcomes,
  packTransactions,
  type SqliteOutcome,
  type SqliteRequest,
  type SqliteStart,
  type SqlStatements,
  unpackOutcomes,
} from './message.ts';

interface Call {
  readonly type: SqliteRequest['type'];
  /** The moment at which the thread is given up if it has not answered. */
  readonly dueAt: number;
  resolve(outcomes: readonly SqliteOutcome[]): void;
  reject(error: unknown): void;
}

/**
 * Calls without a time limit: a statement of a transaction, which may be a long migration, ends
 * with its transaction's signal, and then the rollback behind it has a limit.
 */
const unlimited: ReadonlySet<SqliteRequest['type']> = new Set(['run', 'checkpoint', 'close']);

/** The time that a busy machine may need to start a thread, in milliseconds. */
const startMsMax = 3_000;

/**
 * A thread with a connection of its own. A thread that has crashed, or whose call takes longer than
 * `callMsMax`, is replaced by the next call. It keeps the process alive only during a call.
 */
export class SqliteWorker {
  readonly #start: SqliteStart;
  readonly #callMsMax: number;
  readonly #clock: Clock;
  #worker: Worker | undefined = undefined;
  #calls: Call[] = [];
  readonly #deadlines: Deadlines;
  #starts = 0;
  #hasAnswered = false;
  #isClosed = false;

  /** `callMsMax` is the longest that a call may take, in milliseconds. */
  constructor(start: SqliteStart, callMsMax: number, clock: Clock) {
    this.#start = start;
    this.#callMsMax = callMsMax;
    this.#clock = clock;
    this.#deadlines = new Deadlines(clock, this.#expire);
  }

  /** Threads that were started to replace another one. */
  get restarts(): number {
    return Math.max(0, this.#starts - 1);
  }

  /** Answers in the order of the calls; rejects if the thread ends before it answers. */
  call(
    type: SqliteRequest['type'],
    transactions: readonly SqlStatements[] = [],
  ): Promise<readonly SqliteOutcome[]> {
    if (this.#isClosed) {
      return Promise.reject(new SpillwayError('DATABASE_CLOSED', 'the database is closed'));
    }
    this.#worker ??= this.#spawn();
    const { promise, resolve, reject } = Promise.withResolvers<readonly SqliteOutcome[]>();
    const msMax = this.#callMsMax + (this.#hasAnswered ? 0 : startMsMax);
    const dueAt = unlimited.has(type) ? Infinity : this.#clock.now() + msMax;
    this.#calls.push({ type, dueAt, resolve, reject });
    this.#deadlines.watch(dueAt);
    if (this.#calls.length === 1) this.#worker.ref();
    this.#worker.postMessage({ type, ...packTransactions(transactions) });
    return promise;
  }

  /** Closes the connection after the calls under way, and without them when the limit aborts. */
  async close(limit: AbortSignal): Promise<void> {
    const worker = this.#worker;
    if (worker !== undefined) {
      const exit = new Promise((resolve) => worker.once('exit', resolve));
      const closed = this.call('close').then(() => exit);
      // A thread that has crashed meanwhile is closed as well.
      await untilAborted(closed, limit).catch(() => {});
    }
    this.#isClosed = true;
    this.#abandon(new SpillwayError('DATABASE_CLOSED', 'the database was closed before the end'));
  }

  #spawn(): Worker {
    this.#starts += 1;
    this.#hasAnswered = false;
    const entry = threadFile('sqlite-worker');
    // Without the switches of the process: with some of them no thread can start.
    const worker = new Worker(entry, { workerData: this.#start, execArgv: [] });
    let failure: unknown;
    worker.on('message', (outcomes: PackedOutcomes) => {
      // A thread that was replaced has nobody left to answer.
      if (worker !== this.#worker) return;
      this.#hasAnswered = true;
      const call = this.#calls.shift();
      if (this.#calls.length === 0) {
        this.#deadlines.clear();
        worker.unref();
      }
      call?.resolve(unpackOutcomes(outcomes));
    });
    worker.on('error', (error) => {
      failure = error;
    });
    worker.on('exit', () => {
      if (worker !== this.#worker) return;
      this.#worker = undefined;
      this.#rejectAll(new SpillwayError('DATABASE_LOST', 'the thread ended', { cause: failure }));
    });
    return worker;
  }

  readonly #expire = (now: number): number => {
    const dueAt = Math.min(...this.#calls.map((call) => call.dueAt));
    if (dueAt > now) return dueAt;
    const message = `a statement ran for more than ${this.#callMsMax} ms and was given up`;
    this.#abandon(new SpillwayError('DEADLINE', message));
    return Infinity;
  };

  /** Gives the thread up, with its calls; the next call starts another one. */
  #abandon(reason: SpillwayError): void {
    const worker = this.#worker;
    this.#worker = undefined;
    if (worker !== undefined) endWhenItReturns(worker);
    this.#rejectAll(reason);
  }

  #rejectAll(reason: SpillwayError): void {
    const lost = this.#calls;
    this.#calls = [];
    this.#deadlines.clear();
    for (const { type, reject } of lost) {
      reject(type === 'group' || type === 'commit' ? inDoubt(reason) : reason);
    }
  }
}

/** Threads that were given up and may still be inside SQLite. */
const givenUp = new Set<Worker>();
/** The error that ends the process, which Node prints only after the listeners of its exit. */
let fatal: unknown;

/**
 * Ends a thread as soon as its call into SQLite returns: node:sqlite can interrupt no statement
 * (Node 24.21), and a thread inside native code cannot be stopped. The process would wait for such
 * a thread at its exit, for ever if the statement has no end. So it is killed then: at that moment
 * everything acknowledged is on the disk, and SQLite undoes the rest.
 */
function endWhenItReturns(worker: Worker): void {
  if (givenUp.size === 0) {
    process.on('uncaughtExceptionMonitor', keepFatal);
    process.on('exit', killProcess);
  }
  givenUp.add(worker);
  worker.once('exit', () => {
    givenUp.delete(worker);
    if (givenUp.size > 0) return;
    process.off('uncaughtExceptionMonitor', keepFatal);
    process.off('exit', killProcess);
  });
  void worker.terminate();
  worker.unref();
}

function keepFatal(error: unknown): void {
  fatal = error;
}

function killProcess(code: number): void {
  if (code !== 0 && fatal !== undefined)
    writeSync(process.stderr.fd, `Uncaught ${inspect(fatal)}\n`);
  process.kill(process.pid, 'SIGKILL');
}
