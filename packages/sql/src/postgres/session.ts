import pg from 'pg';
import { type Clock, type Permit, SpillwayError } from 'spillway';
import { inDoubt } from 'spillway/internal';
import { untilInterrupted } from '../connection.ts';
import { cancelQuery } from './cancel.ts';
import { databaseError } from './fault.ts';

/** How long a cancelled query may take to end before its connection is cut, in milliseconds. */
const graceMs = 1_000;

/** A connection of the pool and a permit of the lane, held together. */
export class PostgresSession {
  readonly signal: AbortSignal;
  readonly #client: pg.PoolClient;
  readonly #permit: Permit;
  readonly #clock: Clock;
  #lost: boolean;
  #closed = false;
  /** True while something runs that commits by itself. */
  #doubt = false;
  #running: Promise<unknown> | undefined;
  #grace: Disposable | undefined;
  #cancelling: Promise<void> | undefined;

  constructor(
    client: pg.PoolClient,
    { permit, clock, isLost }: { permit: Permit; clock: Clock; isLost: boolean },
  ) {
    this.#client = client;
    this.#lost = isLost;
    this.#permit = permit;
    this.#clock = clock;
    this.signal = permit.signal;
    client.on('error', this.#lose);
    client.on('end', this.#lose);
  }

  /** `commits` says that it makes something durable by itself, not as a part of a transaction. */
  async query(
    text: string,
    values: readonly unknown[],
    { commits }: { readonly commits: boolean },
  ): Promise<pg.QueryResult> {
    if (this.#closed) throw new Error('the connection was given back');
    if (this.signal.aborted) throw this.interruption();
    this.#doubt = commits;
    const answer = this.#send(text, values, commits);
    this.#running = answer;
    const settle = () => {
      if (this.#running !== answer) return;
      this.#running = undefined;
      this.#doubt = false;
    };
    answer.then(settle, settle);
    return untilInterrupted(answer, { signal: this.signal, interruption: this.interruption });
  }

  readonly interruption = (): unknown =>
    this.#doubt ? inDoubt(this.signal.reason) : this.signal.reason;

  /** Stops what runs now; the connection is cut if that does not help. */
  cancel(): void {
    if (this.#running === undefined || this.#grace !== undefined) return;
    const { host, port } = this.#client;
    const { processID, secretKey } = this.#client as unknown as Readonly<Record<string, number>>;
    if (processID !== undefined && secretKey !== undefined) {
      this.#cancelling = cancelQuery({ host, port, processId: processID, secretKey });
    }
    const grace = this.#clock.after(graceMs, () => this.#client.connection.stream.destroy());
    this.#grace = grace;
    const calm = () => {
      grace[Symbol.dispose]();
      this.#grace = undefined;
    };
    this.#running.then(calm, calm);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.signal.aborted) this.cancel();
    const isBusy = this.#running !== undefined || this.#cancelling !== undefined;
    if (isBusy || this.#isInTransaction) void this.#closeLater();
    else this.#giveBack();
  }

  get #isInTransaction(): boolean {
    return !this.#lost && this.#client.getTransactionStatus() !== 'I';
  }

  /** The permit is held until the server is really done with this. */
  async #closeLater(): Promise<void> {
    const late = Promise.withResolvers<void>();
    const cut = this.#clock.after(2 * graceMs, () => {
      this.#lose();
      this.#client.connection.stream.destroy();
      late.resolve();
    });
    await this.#running?.catch(() => {});
    await Promise.race([this.#cancelling, late.promise]);
    if (this.#isInTransaction) await this.#send('rollback', [], false).catch(this.#lose);
    cut[Symbol.dispose]();
    this.#giveBack();
  }

  async #send(text: string, values: readonly unknown[], commits: boolean): Promise<pg.QueryResult> {
    if (this.#lost) throw new SpillwayError('DATABASE_LOST', 'postgres: the connection was lost');
    try {
      return await this.#client.query(text, values as unknown[]);
    } catch (error) {
      const state = error instanceof pg.DatabaseError ? error.severity : undefined;
      if (state === 'FATAL' || state === 'PANIC') this.#lost = true;
      if (error instanceof Error && 'syscall' in error) this.#lost = true;
      throw databaseError(error, { lost: this.#lost, doubt: commits });
    }
  }

  readonly #lose = (): void => {
    this.#lost = true;
  };

  #giveBack(): void {
    this.#client.off('error', this.#lose);
    this.#client.off('end', this.#lose);
    this.#client.release(this.#lost);
    this.#permit[Symbol.dispose]();
  }
}
