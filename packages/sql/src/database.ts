import assert from 'node:assert/strict';
import {
  CompiledQuery,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type Transaction,
} from 'kysely';
import {
  type Clock,
  type CloseOptions,
  type Part,
  type RunOptions,
  SpillwayError,
  SqliteFile,
  SqliteStore,
  type Store,
  type StoreChange,
  systemClock,
} from 'spillway';
import {
  Closing,
  checkStoreChanges,
  clockRule,
  type Filled,
  integer,
  or,
  positive,
  settle,
  untilAborted,
  word,
} from 'spillway/internal';
import { type Engine, type RunIn, type SqlConnection, SqlDriver } from './connection.ts';
import { type DatabaseKind, type MigrateOptions, type Migration, migrate } from './migrate.ts';
import type { PostgresStats } from './postgres/engine.ts';
import { commitInSqlite, SqliteEngine, type SqliteStats } from './sqlite-engine.ts';

export interface DatabaseOptions {
  /** `sqlite:<path>` or `postgres://user:password@host:port/database`. */
  readonly url: string;
  /** Name of the part in stats and messages. @default 'database' */
  readonly name?: string | undefined;
  /**
   * The address at which to `LISTEN` for changes of the store, if `url` is that of a pooler that
   * gives each transaction another connection, as PgBouncer does. @default `url`
   */
  readonly listenUrl?: string | undefined;
  /**
   * Connections of this process to Postgres for queries, an integer from 1. One more is open while
   * a store is watched, while migrations run, and while a lost server is looked for. All processes
   * together must stay below the server's `max_connections`. @default 10
   */
  readonly connectionsMax?: number | undefined;
  /**
   * Callers that may wait for their turn; one more is refused. An integer from 0 (SQLite: 1).
   * @default 1_000
   */
  readonly queueMax?: number | undefined;
  /** The time from a call to its end, in milliseconds, above 0. @default 10_000 */
  readonly deadlineMs?: number | undefined;
  /** Threads that read a SQLite file, an integer from 1 to 64. @default 2 */
  readonly readers?: number | undefined;
  /** Source of time. @default systemClock */
  readonly clock?: Clock | undefined;
}

export type DatabaseStats = PostgresStats | SqliteStats;

/** The result of each of the queries, in their order. */
export type BatchResults<Queries extends readonly CompiledQuery<unknown>[]> = {
  [At in keyof Queries]: Queries[At] extends CompiledQuery<infer Row> ? QueryResult<Row> : never;
};

/** An open engine, and the function that opens a store on its connections. */
interface Opened {
  readonly kind: DatabaseKind;
  readonly engine: Engine<DatabaseStats>;
  readonly openStore: (options: RunOptions) => Promise<Store>;
  readonly commitIn: (run: RunIn, changes: readonly StoreChange[]) => Promise<boolean>;
}

/** The longest that SQLite waits for another process, in milliseconds. */
const sqliteMsMax = 2 ** 31 - 1;

/** One typed handle for SQLite and Postgres. */
export class Database<Schema> implements Part, AsyncDisposable {
  readonly name: string;
  readonly kind: DatabaseKind;
  /** Runs single queries; each is a transaction of its own, within the deadline. */
  readonly kysely: Kysely<Schema>;
  readonly #engine: Engine<DatabaseStats>;
  readonly #opened: Opened;
  readonly #closing: Closing;

  private constructor(opened: Opened, name: string, clock: Clock) {
    const { kind, engine } = opened;
    this.name = name;
    this.kind = kind;
    this.#opened = opened;
    this.#engine = engine;
    this.#closing = new Closing(clock, (limit) => engine.close(limit));
    this.kysely = this.#handle((options) => engine.acquire(options));
  }

  /** Opens a SQLite file; a connection to Postgres is opened when it is first needed. */
  static async open<Schema>(options: DatabaseOptions): Promise<Database<Schema>> {
    const settled = settle('Database', options, {
      url: word,
      listenUrl: or(word, Object(options).url as string),
      name: or(word, 'database'),
      connectionsMax: or(integer(1), 10),
      queueMax: or(integer(0), 1_000),
      deadlineMs: or(positive(), 10_000),
      readers: or(integer(1, 64), 2),
      clock: or(clockRule, systemClock),
    });
    const isPostgres = /^postgres(ql)?:\/\//.test(settled.url);
    const opened = isPostgres ? await openPostgres(settled) : await openSqlite(settled);
    return new Database(opened, settled.name, settled.clock);
  }

  get stats(): DatabaseStats {
    return this.#engine.stats;
  }

  /** False while Postgres is away or SQLite's disk is full, and once the database is closing. */
  get ready(): boolean {
    return this.#engine.ready && !this.#closing.hasBegun;
  }

  get fault(): string | undefined {
    return this.#engine.fault;
  }

  /**
   * Runs the work as one transaction. All its changes through `tx` are made when this resolves, and
   * none when it rejects, unless the error says that the outcome is unknown. The work must not use
   * `kysely` meanwhile.
   */
  async transaction<T>(
    work: (tx: Transaction<Schema>) => Promise<T>,
    options: RunOptions = {},
  ): Promise<T> {
    const connection = await this.#engine.acquire(options);
    try {
      const running = this.#handle(async () => connection)
        .transaction()
        .execute(work);
      return await untilAborted(running, connection.signal, () => connection.interruption());
    } finally {
      connection.close();
    }
  }

  /** Runs all of the queries as one durable transaction; SQLite shares its fsync with others. */
  async batch<const Queries extends readonly CompiledQuery<unknown>[]>(
    queries: Queries,
    options: RunOptions = {},
  ): Promise<BatchResults<Queries>> {
    return (await this.#engine.batch(queries, options)) as BatchResults<Queries>;
  }

  /** Applies the migrations that have not been applied yet; gives how many this call applied. */
  migrate(migrations: readonly Migration[], options: MigrateOptions = {}): Promise<number> {
    const target = { engine: this.#engine, kind: this.kind, table: 'spillway_migrations' };
    return migrate(target, migrations, options);
  }

  /** Opens a store in this database, on its connections; it is closed with the database. */
  store(options: RunOptions = {}): Promise<Store> {
    return this.#opened.openStore(options);
  }

  /**
   * Commits to the store of this database inside a transaction, together with its rows. Throws
   * `DATABASE_BUSY` if a version has changed; the work must not catch that, so that all of it is
   * undone. Call it last: other commits of the store wait from then until the transaction ends.
   */
  async commitIn(tx: Transaction<Schema>, changes: readonly StoreChange[]): Promise<void> {
    if (changes.length === 0) return;
    checkStoreChanges(changes);
    const run: RunIn = (sql, parameters) =>
      tx.executeQuery(CompiledQuery.raw(sql, [...parameters]));
    if (await this.#opened.commitIn(run, changes)) return;
    throw new SpillwayError('DATABASE_BUSY', 'a record of the store was changed by another');
  }

  /** Finishes the calls under way; when the time is over, they are cut short and fail. */
  close(options: CloseOptions = {}): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #handle(acquire: (options: RunOptions) => Promise<SqlConnection>): Kysely<Schema> {
    const isPostgres = this.kind === 'postgres';
    return new Kysely<Schema>({
      dialect: {
        createAdapter: () => (isPostgres ? new PostgresAdapter() : new SharedSqliteAdapter()),
        createDriver: () => new SqlDriver(acquire),
        createIntrospector: (db) =>
          isPostgres ? new PostgresIntrospector(db) : new SqliteIntrospector(db),
        createQueryCompiler: () =>
          isPostgres ? new PostgresQueryCompiler() : new SqliteQueryCompiler(),
      },
    });
  }
}

/** Loads `pg` as well, which a process that only uses SQLite does not need. */
async function openPostgres(options: Filled<DatabaseOptions>): Promise<Opened> {
  const { PostgresEngine } = await import('./postgres/engine.ts');
  const { commitInPostgres: commitIn, PostgresStore } = await import('./postgres/store.ts');
  const engine = new PostgresEngine(options);
  const openStore: Opened['openStore'] = (call) => PostgresStore.on(engine, call);
  return { kind: 'postgres', engine, openStore, commitIn };
}

async function openSqlite(options: Filled<DatabaseOptions>): Promise<Opened> {
  const { url, readers, queueMax, deadlineMs, clock } = options;
  const path = /^sqlite:(.+)$/s.exec(url)?.[1];
  // The URL is left out of the message: there may be a password in it.
  assert(path !== undefined, 'Database: url: must begin with sqlite: or postgres://');
  const busyMs = Math.min(deadlineMs, sqliteMsMax);
  const file = await SqliteFile.open({ path, readers, queueMax, deadlineMs: busyMs, clock });
  const engine = new SqliteEngine(file, deadlineMs, clock);
  const openStore: Opened['openStore'] = () => SqliteStore.open({ file });
  return { kind: 'sqlite', engine, openStore, commitIn: commitInSqlite };
}

/** Lets many queries run at once; the engine itself puts them in order. */
class SharedSqliteAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}
