import {
  deadline,
  type NamedRecord,
  type RunOptions,
  SpillwayError,
  type Store,
  type StoreCallOptions,
  type StoreChange,
  type StoreCommit,
  type StoredRecord,
  type StoreListOptions,
  type StoreReading,
  type StoreWatch,
} from 'spillway';
import {
  checkStoreChanges,
  checkStoreList,
  checkStoreNames,
  inDoubt,
  jsonText,
  untilAborted,
} from 'spillway/internal';
import { migrate } from '../migrate.ts';
import type { PostgresEngine } from './engine.ts';
import { commitSql, listSql, readSql, storeMigrations } from './store-schema.ts';
import { PostgresWatcher } from './watcher.ts';

/** How many commits go to the server in one call. */
const groupMax = 256;

interface Row {
  readonly name: string;
  readonly now: number;
  readonly wall: number;
  readonly value: string | null;
  readonly version: number;
  readonly expires_at: number | null;
}

/** A commit that waits for its turn, or for its answer. */
interface Pending extends PromiseWithResolvers<StoreCommit | undefined> {
  readonly changes: readonly StoreChange[];
  /** As JSON, taken when the caller came. */
  readonly values: readonly (string | null)[];
}

/**
 * The Store for many machines. All commits of one process that come while a call is under way
 * share the next one, and its write to disk.
 */
export class PostgresStore implements Store {
  readonly #engine: PostgresEngine;
  readonly #watcher: PostgresWatcher;
  /** The latest store time that this process has seen, and the server's clock at that moment. */
  #seen: number | null = null;
  #seenWall: number | null = null;
  #pending: Pending[] = [];
  #sending: Promise<void> | undefined;

  /** The tables must be there already: {@link PostgresStore.open} sees to that. */
  constructor(engine: PostgresEngine) {
    this.#engine = engine;
    this.#watcher = new PostgresWatcher(engine);
  }

  /** Makes the tables if they are not there; whoever opened the engine closes it. */
  static async open(engine: PostgresEngine, options: RunOptions): Promise<PostgresStore> {
    const target = { engine, kind: 'postgres', table: 'spillway_store_migrations' } as const;
    await migrate(target, storeMigrations, options);
    return new PostgresStore(engine);
  }

  async read(names: readonly string[], { signal }: StoreCallOptions = {}): Promise<StoreReading> {
    signal?.throwIfAborted();
    checkStoreNames(names);
    const rows = await this.#select(readSql, [names], signal);
    const records = names.map((_name, at) => recordOf(rows[at] as Row));
    return { now: (rows[0] as Row).now, records };
  }

  async list(prefix: string, options: StoreListOptions): Promise<readonly NamedRecord[]> {
    checkStoreList(prefix, options);
    const { max, after = '', signal } = options;
    signal?.throwIfAborted();
    const rows = await this.#select(listSql, [prefix, max, after], signal);
    return rows.map((row) => ({ name: row.name, ...(recordOf(row) as StoredRecord) }));
  }

  watch(names: readonly string[], changed: () => void): StoreWatch {
    checkStoreNames(names);
    return this.#watcher.watch(names, changed);
  }

  async commit(
    changes: readonly StoreChange[],
    { signal }: StoreCallOptions = {},
  ): Promise<StoreCommit | undefined> {
    signal?.throwIfAborted();
    checkStoreChanges(changes);
    const values = changes.map(({ value }) => (value === undefined ? null : jsonText(value)));
    if (this.#pending.length >= this.#engine.queueMax) {
      const message = `the store's queue is full: ${this.#pending.length} commits wait`;
      throw new SpillwayError('LANE_FULL', message);
    }
    const pending = { changes, values, ...Promise.withResolvers<StoreCommit | undefined>() };
    this.#pending.push(pending);
    this.#sending ??= this.#sendAll();
    using limit = deadline(this.#engine.clock, this.#engine.deadlineMs, signal);
    const leave = (reason: unknown) => {
      const at = this.#pending.indexOf(pending);
      if (at === -1) return inDoubt(reason);
      this.#pending.splice(at, 1);
      return reason;
    };
    return await untilAborted(pending.promise, limit.signal, leave);
  }

  /** Resolves when nothing is under way; the engine stays open. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watcher.close();
    await this.#sending;
  }

  async #select(
    sql: string,
    values: readonly unknown[],
    signal: AbortSignal | undefined,
  ): Promise<readonly Row[]> {
    const session = await this.#engine.session({ signal });
    try {
      const known = [this.#seen, this.#seenWall];
      const { rows } = await session.query(sql, [...known, ...values], { commits: false });
      this.#see(rows[0]);
      return rows;
    } finally {
      session.close();
    }
  }

  async #sendAll(): Promise<void> {
    while (this.#pending.length > 0) {
      const group = this.#pending.splice(0, groupMax);
      try {
        const rows = await this.#send(group);
        for (const [at, row] of rows.entries()) {
          const { now, version } = row;
          this.#see(row);
          group[at]?.resolve(version === null ? undefined : { now, version });
        }
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    this.#sending = undefined;
  }

  async #send(
    group: readonly Pending[],
  ): Promise<readonly { now: number; wall: number; version: number | null }[]> {
    const session = await this.#engine.session({});
    try {
      let end = 0;
      const ends = group.map(({ changes }) => {
        end += changes.length;
        return end;
      });
      const all = group.flatMap(({ changes }) => changes);
      const columns = [
        ends,
        all.map(({ name }) => name),
        all.map(({ ifVersion }) => ifVersion ?? null),
        group.flatMap(({ values }) => values),
        all.map(({ ttlMs }) => ttlMs ?? null),
        all.map(({ checkOnly }) => checkOnly ?? false),
        this.#seen,
        this.#seenWall,
      ];
      return (await session.query(commitSql, columns, { commits: true })).rows;
    } finally {
      session.close();
    }
  }

  /** Answers may overtake each other: an older one tells nothing new. */
  #see(row: { readonly now: number; readonly wall: number } | undefined): void {
    if (row === undefined || row.now < (this.#seen ?? 0)) return;
    this.#seen = row.now;
    this.#seenWall = row.wall;
  }
}

function recordOf({ value, version, expires_at }: Row): StoredRecord | undefined {
  if (value === null) return undefined;
  return { value: JSON.parse(value), version, expiresAt: expires_at ?? undefined };
}
