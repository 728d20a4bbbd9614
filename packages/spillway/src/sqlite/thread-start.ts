import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { SpillwayError } from '../base/errors.ts';
import { inDoubt } from '../base/in-doubt.ts';
import { type PackedOutcomes, packTransactions, unpackOutcomes } from './pack.ts';
import type { SqliteOutcome, SqliteStart, SqlStatements, ToSqlite } from './wire.ts';

interface Call {
  readonly type: ToSqlite['type'];
  resolve(outcomes: readonly SqliteOutcome[]): void;
  reject(error: unknown): void;
}

/** A thread with a connection of its own; one that has crashed is replaced by the next call. */
export class SqliteThread implements AsyncDisposable {
  readonly #start: SqliteStart;
  #worker: Worker | undefined = undefined;
  #calls: Call[] = [];
  #restarts = -1;

  constructor(start: SqliteStart) {
    this.#start = start;
  }

  /** How often it had to be started again. */
  get restarts(): number {
    return Math.max(0, this.#restarts);
  }

  /** Answered in the order of the calls; rejects if the thread ends before it answers. */
  call(
    type: ToSqlite['type'],
    transactions: readonly SqlStatements[] = [],
  ): Promise<readonly SqliteOutcome[]> {
    this.#worker ??= this.#spawn();
    const { promise, resolve, reject } = Promise.withResolvers<readonly SqliteOutcome[]>();
    this.#calls.push({ type, resolve, reject });
    this.#worker.postMessage({ type, ...packTransactions(transactions) });
    return promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined) return;
    const exit = once(worker, 'exit');
    await this.call('close').catch(() => []);
    await exit;
  }

  #spawn(): Worker {
    this.#restarts += 1;
    // The build turns `.ts` imports into `.js`, but not the names in URLs.
    const entry = new URL(`./thread/entry${extname(import.meta.url)}`, import.meta.url);
    // The program's own switches may be such that no thread can start with them.
    const worker = new Worker(entry, { workerData: this.#start, execArgv: [] });
    let failure: unknown;
    worker.on('message', (outcomes: PackedOutcomes) => {
      this.#calls.shift()?.resolve(unpackOutcomes(outcomes));
    });
    worker.on('error', (error) => {
      failure = error;
    });
    worker.on('exit', () => {
      const lost = this.#calls;
      this.#worker = undefined;
      this.#calls = [];
      const error = new SpillwayError('DATABASE_LOST', 'the thread ended', { cause: failure });
      for (const { type, reject } of lost) {
        reject(type === 'group' || type === 'commit' ? inDoubt(error) : error);
      }
    });
    return worker;
  }
}
