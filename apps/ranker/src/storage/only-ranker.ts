import { randomUUID } from 'node:crypto';
import { CompiledQuery, type QueryResult } from 'kysely';
import { deadline, FileLock, Lease, type Part, type RunOptions, systemClock } from 'spillway';
import { onceAborted, pause } from 'spillway/internal';
import type { Database } from 'spillway-sql';
import { rankerError } from '../errors.ts';
import type { RankerSchema } from './ranker-schema.ts';

export interface OnlyRankerOptions {
  readonly database: Database<RankerSchema>;
  /** The address of the database. */
  readonly url: string;
  /** The longest wait for another ranker, in milliseconds. @default {@link waitMs} */
  readonly claimMs?: number | undefined;
  /** Called when the claim is held again after a loss: another may have changed the tastes. */
  readonly onRegained: () => void;
}

/** One holding of the claim. */
interface Held extends AsyncDisposable {
  /** Aborts when it is lost. */
  readonly signal: AbortSignal;
}

/** Name of the document that holds the mark. */
export const markName = 'ranker_instance';
/** Life of the lease in Postgres, in milliseconds. */
const leaseMs = 15_000;
/** A ranker that is closing needs a moment; the lease of one that crashed needs all its life. */
const waitMs = { sqlite: 3_000, postgres: leaseMs + 3_000 } as const;
/** The pause between two tries to claim a database that is away, in milliseconds. */
const retryMs = 1_000;

/**
 * The claim to be the only ranker on a database, since each keeps the tastes of its readers in
 * memory: a file lock beside a SQLite file, a lease in Postgres.
 */
export class OnlyRanker implements Part, AsyncDisposable {
  readonly name = 'only ranker';
  readonly #options: OnlyRankerOptions;
  readonly #closing = new AbortController();
  readonly #keeping: Promise<void>;
  #held: Held;
  /** Aborts when a write of this ranker found the mark of another one. */
  #overtaken = new AbortController();
  #mark = '';

  /** Rejects with `DATABASE_TAKEN` if another ranker goes on using the database. */
  static async claim(options: OnlyRankerOptions): Promise<OnlyRanker> {
    const { database, claimMs = waitMs[database.kind] } = options;
    using limit = deadline(systemClock, claimMs);
    try {
      return new OnlyRanker(options, await hold(options, limit.signal));
    } catch (error) {
      if (!limit.signal.aborted) throw error;
      const message =
        'another ranker uses this database: stop that one, or choose another database';
      throw rankerError('DATABASE_TAKEN', message, { cause: error });
    }
  }

  private constructor(options: OnlyRankerOptions, held: Held) {
    this.#options = options;
    this.#held = held;
    this.#keeping = this.#keep();
  }

  get ready(): boolean {
    return !(this.#held.signal.aborted || this.#overtaken.signal.aborted);
  }

  /** Throws while the claim is lost: the tastes in memory may be older than those stored. */
  check(): void {
    if (this.ready) return;
    throw lost();
  }

  /** Writes this ranker's mark, which a later ranker replaces; the tables must exist. */
  async mark(): Promise<void> {
    this.#mark = randomUUID();
    await this.#options.database.batch([markQuery(this.#options.database, this.#mark, true)]);
  }

  /** Runs queries as one transaction, which fails if another ranker has written its mark. */
  async batch(
    queries: readonly CompiledQuery<unknown>[],
    options: RunOptions,
  ): Promise<readonly QueryResult<unknown>[]> {
    const { database } = this.#options;
    const fence = markQuery(database, this.#mark, false);
    try {
      const [, ...results] = await database.batch([fence, ...queries], options);
      return results;
    } catch (error) {
      const isOvertaken = Object(error).code === 'DATABASE_CONSTRAINT';
      if (!isOvertaken) throw error;
      this.#overtaken.abort();
      throw lost(error);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#keeping;
    await this.#held[Symbol.asyncDispose]();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Claims the database anew whenever the claim is lost, until this is closed. */
  async #keep(): Promise<void> {
    const { signal } = this.#closing;
    const either = () =>
      onceAborted(AbortSignal.any([signal, this.#held.signal, this.#overtaken.signal]));
    for (await either(); !signal.aborted; await either()) {
      await this.#held[Symbol.asyncDispose]();
      try {
        const held = await hold(this.#options, signal);
        // The mark comes before the tastes are read anew: after it no other ranker can write.
        await this.mark();
        this.#options.onRegained();
        this.#held = held;
        this.#overtaken = new AbortController();
      } catch {
        await pause(systemClock, retryMs, signal).catch(() => {});
      }
    }
  }
}

/** Waits for the claim until the signal aborts. */
async function hold({ database, url }: OnlyRankerOptions, signal: AbortSignal): Promise<Held> {
  await using made = new AsyncDisposableStack();
  let held: { readonly signal: AbortSignal };
  if (database.kind === 'sqlite') {
    const path = `${url.slice('sqlite:'.length)}-ranker`;
    const lock = made.use(new FileLock({ path, deadlineMs: Number.MAX_SAFE_INTEGER }));
    held = made.use(await lock.acquire({ signal }));
  } else {
    const store = made.use(await database.store({ signal }));
    const terms = { store, name: 'ranker', ttlMs: leaseMs, signal };
    held = made.use(await Lease.acquire(terms));
  }
  const all = made.move();
  return { signal: held.signal, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/**
 * Sets the mark of the ranker that has claimed the database; without `isNew` it fails its
 * transaction, by a column that may not be null, if the mark is another one.
 */
function markQuery({ kind }: Database<RankerSchema>, mark: string, isNew: boolean): CompiledQuery {
  const place = kind === 'postgres' ? '$1' : '?';
  const same = 'case when documents.value = excluded.value then excluded.value end';
  const text =
    `insert into documents (name, value) values ('${markName}', ${place}) ` +
    `on conflict (name) do update set value = ${isNew ? 'excluded.value' : same}`;
  return CompiledQuery.raw(text, [mark]);
}

function lost(cause?: unknown): Error {
  return rankerError('DATABASE_TAKEN', 'the claim on the database is lost for now', { cause });
}
