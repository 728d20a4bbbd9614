import {
  type CompiledQuery,
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
import type { Store } from 'spillway';
import { type Engine, type SqlConnection, untilInterrupted } from './connection.ts';
import { SqlDriver } from './driver.ts';
import { type DatabaseKind, type Migration, migrate } from './migrate.ts';
import type { PostgresStats } from './postgres/engine.ts';
import type { SqliteStats } from './sqlite-engine.ts';

export type DatabaseStats = Readonly<{ kind: DatabaseKind }> & (PostgresStats | SqliteStats);

/** The result of each of the queries, in their order. */
export type BatchResults<Queries extends readonly CompiledQuery<unknown>[]> = {
  [At in keyof Queries]: Queries[At] extends CompiledQuery<infer Row> ? QueryResult<Row> : never;
};

/** Many queries may run at once: the engine itself puts them in order. */
class SharedSqliteAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

/** One typed handle, whichever database is behind it. Open it with `openDatabase`. */
export class Database<Schema> implements AsyncDisposable {
  readonly kind: DatabaseKind;
  /** For single queries: each is a transaction of its own, within the deadline. */
  readonly kysely: Kysely<Schema>;
  readonly #engine: Engine<PostgresStats | SqliteStats>;
  readonly #openStore: (signal?: AbortSignal) => Promise<Store>;

  constructor(
    kind: DatabaseKind,
    engine: Engine<PostgresStats | SqliteStats>,
    openStore: (signal?: AbortSignal) => Promise<Store>,
  ) {
    this.kind = kind;
    this.#openStore = openStore;
    this.#engine = engine;
    this.kysely = this.#handle((signal) => engine.acquire(signal));
  }

  get stats(): DatabaseStats {
    return { kind: this.kind, ...this.#engine.stats };
  }

  /**
   * All that the work does through `tx` is done when this resolves, and nothing when it rejects,
   * unless the error says that it is not known. The work must not use `kysely` meanwhile.
   */
  async transaction<T>(
    work: (tx: Transaction<Schema>) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const connection = await this.#engine.acquire(signal);
    try {
      const transaction = this.#handle(async () => connection).transaction();
      return await untilInterrupted(transaction.execute(work), connection);
    } finally {
      connection.close();
    }
  }

  /** All of the queries as one durable transaction; SQLite shares its fsync with others. */
  async batch<const Queries extends readonly CompiledQuery<unknown>[]>(
    queries: Queries,
    signal?: AbortSignal,
  ): Promise<BatchResults<Queries>> {
    return (await this.#engine.batch(queries, signal)) as BatchResults<Queries>;
  }

  /** Applies the migrations that have not been applied yet; tells how many this call applied. */
  migrate(migrations: readonly Migration[], signal?: AbortSignal): Promise<number> {
    const target = { engine: this.#engine, kind: this.kind, table: 'spillway_migrations' };
    return migrate(target, migrations, signal);
  }

  /** A store in this database, on its connections; dispose it before the database. */
  store(signal?: AbortSignal): Promise<Store> {
    return this.#openStore(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kysely.destroy();
    await this.#engine[Symbol.asyncDispose]();
  }

  #handle(acquire: (signal?: AbortSignal) => Promise<SqlConnection>): Kysely<Schema> {
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
