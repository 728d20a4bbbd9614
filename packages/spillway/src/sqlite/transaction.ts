import { untilAborted } from '../base/abort.ts';
import { copyStatement, resultsOf } from './error.ts';
import type { SqlResult, SqlStatement } from './message.ts';
import type { SqliteWorker } from './worker.ts';

/** A transaction whose statements depend on each other. It holds the writer until it ends. */
export class SqliteTransaction {
  readonly #worker: SqliteWorker;
  readonly #signal: AbortSignal | undefined;
  #isOpen = true;
  #isCommitting = false;

  constructor(worker: SqliteWorker, signal: AbortSignal | undefined) {
    this.#worker = worker;
    this.#signal = signal;
  }

  /** True from the moment at which the transaction may be committed. */
  get isCommitting(): boolean {
    return this.#isCommitting;
  }

  /** Runs one statement. One that fails changes nothing, and the transaction may go on. */
  async run(statement: SqlStatement): Promise<SqlResult> {
    this.#signal?.throwIfAborted();
    if (!this.#isOpen) throw new Error('the transaction has ended: run() came too late');
    const [outcome] = await this.#worker.call('run', [[copyStatement(statement)]]);
    return resultsOf(outcome)[0] as SqlResult;
  }

  /** Runs the work and commits; rolls back if the work throws or the signal aborts. */
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
      // The caller needs the first error; a thread that was lost has rolled back already.
      await this.#call('rollback').catch(() => {});
      throw error;
    }
  }

  async #call(type: 'begin' | 'commit' | 'rollback'): Promise<void> {
    resultsOf((await this.#worker.call(type))[0]);
  }
}
