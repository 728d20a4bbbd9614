import { untilAborted } from '../base/abort.ts';
import { copyStatement, resultsOf } from './error.ts';
import type { SqlResult, SqlStatement } from './message.ts';
import type { SqliteWorker } from './worker.ts';

/** A transaction whose statements depend on each other. It holds the writer until it ends. */
export class SqliteTransaction {
  readonly #worker: SqliteWorker;
  readonly #signal: AbortSignal | undefined;
  #state: 'open' | 'committing' | 'undone' = 'open';

  constructor(worker: SqliteWorker, signal: AbortSignal | undefined) {
    this.#worker = worker;
    this.#signal = signal;
  }

  /** True from the moment at which the transaction may be committed. */
  get isCommitting(): boolean {
    return this.#state === 'committing';
  }

  /** Runs one statement. One that fails changes nothing, and the transaction may go on. */
  async run(statement: SqlStatement): Promise<SqlResult> {
    this.#signal?.throwIfAborted();
    if (this.#state !== 'open') throw new Error('the transaction has ended: run() came too late');
    const [outcome] = await this.#worker.call('run', [[copyStatement(statement)]]);
    return resultsOf(outcome)[0] as SqlResult;
  }

  /** Runs the work and commits; rolls back if the work throws or the signal aborts. */
  async perform<T>(work: (transaction: SqliteTransaction) => Promise<T>): Promise<T> {
    await this.#call('begin');
    try {
      this.#signal?.throwIfAborted();
      const value = await untilAborted(work(this), this.#signal);
      this.#state = 'committing';
      await this.#call('commit');
      return value;
    } catch (error) {
      if (this.#state === 'open') this.#state = 'undone';
      // The caller needs the first error; a thread that was lost has rolled back already.
      await this.#call('rollback').catch(() => {});
      throw error;
    }
  }

  async #call(type: 'begin' | 'commit' | 'rollback'): Promise<void> {
    resultsOf((await this.#worker.call(type))[0]);
  }
}
