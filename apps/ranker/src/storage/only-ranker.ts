import { deadline, FileLock, Lease, type Part, systemClock } from 'spillway';
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
    return !this.#held.signal.aborted;
  }

  /** Throws while the claim is lost: the tastes in memory may be older than those stored. */
  check(): void {
    if (this.ready) return;
    throw rankerError('DATABASE_TAKEN', 'the claim on the database is lost for now');
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
    const either = () => onceAborted(AbortSignal.any([signal, this.#held.signal]));
    for (await either(); !signal.aborted; await either()) {
      await this.#held[Symbol.asyncDispose]();
      const held = await hold(this.#options, signal).catch(() => undefined);
      if (held === undefined) {
        await pause(systemClock, retryMs, signal).catch(() => {});
        continue;
      }
      this.#options.onRegained();
      this.#held = held;
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
