import { untilAborted } from '../base/abort.ts';
import { copyStatement, resultsOf } from './error.ts';
import type { SqliteThread } from './thread-start.ts';
import type { SqlResult, SqlStatement } from './wire.ts';

/** A transaction whose statements depend on each other; it holds the writer until it ends. */
export class SqliteTransaction {
  readonly #thread: SqliteThread;
  readonly #signal: AbortSignal | undefined;
  #isOpen = true;
  #isCommitting = false;

  constructor(thread: SqliteThread, signal: AbortSignal | undefined) {
    this.#thread = thread;
    this.#signal = signal;
  }

  /** True from the moment when it may have been done, whatever comes. */
  get isCommitting(): boolean {
    return this.#isCommitting;
  }

  /** Runs one statement; one that fails changes nothing, and the transaction may go on. */
  async run(statement: SqlStatement): Promise<SqlResult> {
    this.#signal?.throwIfAborted();
    if (!this.#isOpen) throw new Error('the transaction has ended: run() came too late');
    const [outcome] = await this.#thread.call('run', [[copyStatement(statement)]]);
    return resultsOf(outcome)[0] as SqlResult;
  }

  /** Commits what the work did, or nothing if it throws or the signal aborts. */
  async perform<T>(work: (transaction: SqliteTransaction) => Promise<T>): Promise<T> {
    const signal = this.#signal;
    await this.#call('begin');
    try {
      signal?.throwIfAborted();
      const value = await untilAborted(work(this), signal);
      this.#isOpen = false;
      this.#isCommitting = true;
      await this.#call('commit');
      return value;
    } catch (error) {
      this.#isOpen = false;
      // What has failed is what the work threw; a lost thread has rolled back already.
      await this.#call('rollback').catch(() => {});
      throw error;
    }
  }

  async #call(type: 'begin' | 'commit' | 'rollback'): Promise<void> {
    resultsOf((await this.#thread.call(type))[0]);
  }
}
