import {
  Batch,
  type BatchGroup,
  type CloseOptions,
  type Durability,
  deadline,
  type Json,
  type NamedRecord,
  type Part,
  type RunOptions,
  SpillwayError,
  type Store,
  type StoreApplied,
  type StoreCallOptions,
  type StoreChange,
  type StoreCommit,
  type StoreCommitOptions,
  type StoreDecision,
  type StoredRecord,
  type StoreListOptions,
  type StoreNews,
  type StoreReading,
  type StoreWatch,
  systemClock,
} from 'spillway';
import {
  anything,
  Closing,
  checkStoreChanges,
  checkStoreList,
  checkStoreNames,
  clockRule,
  foreignForm,
  integer,
  jsonText,
  maybe,
  or,
  positive,
  SeenTime,
  settle,
  tracedCommit,
  untilAborted,
  word,
} from 'spillway/internal';
import type { RunIn } from '../connection.ts';
import type { DatabaseOptions } from '../database.ts';
import { migrate } from '../migrate.ts';
import { decisionNames, decisionStatements } from './decision-schema.ts';
import type { PostgresEngine, PostgresStats } from './engine.ts';
import {
  applySql,
  commitSql,
  listSql,
  readSql,
  relaxedCommitSql,
  storeStatements,
} from './store-schema.ts';
import { PostgresWatcher } from './watcher.ts';

/** No name of at most 512 UTF-16 units goes on behind a prefix with anything greater. */
const greatestRest = '\u{10ffff}'.repeat(256);

interface Row {
  readonly name: string;
  readonly now: number;
  readonly wall: number;
  readonly value: string | null;
  readonly version: number;
  readonly expires_at: number | null;
}

/** A waiting commit; its values are JSON text, so a caller cannot change them meanwhile. */
interface Pending {
  readonly changes: readonly StoreChange[];
  readonly values: readonly (string | null)[];
  /** True if the commit need not wait for the server's disk. */
  readonly isRelaxed: boolean;
}

/** A waiting decision, with its argument as JSON. */
interface PendingDecision {
  readonly name: string;
  readonly decision: string;
  readonly argument: string;
}

export interface PostgresStoreOptions
  extends Pick<
    DatabaseOptions,
    'url' | 'listenUrl' | 'connectionsMax' | 'queueMax' | 'deadlineMs' | 'clock'
  > {
  /** Ends the opening. */
  readonly signal?: AbortSignal | undefined;
}

export interface PostgresStoreStats extends PostgresStats {
  readonly durability: Durability;
}

/**
 * A Store on Postgres. All commits of one process that arrive while a call is under way share the
 * next call, and its write to disk.
 */
export class PostgresStore implements Store, Part {
  readonly name = 'store';
  readonly durability = 'disk';
  readonly #engine: PostgresEngine;
  readonly #ownsEngine: boolean;
  readonly #watcher: PostgresWatcher;
  readonly #seen = new SeenTime();
  readonly #commits: Batch<Pending, StoreCommit | undefined>;
  readonly #decisions: Batch<PendingDecision, StoreApplied>;
  readonly #closing: Closing;

  private constructor(engine: PostgresEngine, ownsEngine: boolean) {
    const { queueMax, deadlineMs, clock } = engine;
    this.#ownsEngine = ownsEngine;
    this.#engine = engine;
    this.#watcher = new PostgresWatcher(engine);
    const full = (waiting: number) =>
      new SpillwayError('LANE_FULL', `the store's queue is full: ${waiting} commits wait`);
    const bounds = { queueMax, deadlineMs, clock, full };
    this.#commits = new Batch({ ...bounds, call: (group) => this.#send(group) });
    this.#decisions = new Batch({ ...bounds, call: (group) => this.#decide(group) });
    this.#closing = new Closing(clock, (limit) => this.#close(limit));
  }

  /**
   * Opens a store with connections of its own, and makes the tables if they are not there. It
   * rejects within 5 s if the server cannot be reached.
   */
  static async open(options: PostgresStoreOptions): Promise<PostgresStore> {
    const { signal, ...settled } = settle('PostgresStore', options, {
      url: word,
      listenUrl: or(word, Object(options).url as string),
      connectionsMax: or(integer(1), 10),
      queueMax: or(integer(0), 1_000),
      deadlineMs: or(positive(), 10_000),
      clock: or(clockRule, systemClock),
      signal: maybe(anything),
    });
    const { PostgresEngine } = await import('./engine.ts');
    const engine = new PostgresEngine(settled);
    try {
      await untilAborted(engine.examine(), signal);
      return await PostgresStore.on(engine, { signal, ownsEngine: true });
    } catch (error) {
      using limit = deadline(engine.clock, 10_000);
      await engine.close(limit.signal);
      // Loaded here, since it loads `pg`, which a process that only uses SQLite does not need.
      const { openingError } = await import('./fault.ts');
      throw openingError(error);
    }
  }

  /** Opens a store on shared connections; they stay open unless the store owns them. */
  static async on(
    engine: PostgresEngine,
    { ownsEngine = false, ...options }: RunOptions & { readonly ownsEngine?: boolean },
  ): Promise<PostgresStore> {
    const target = { engine, kind: 'postgres', table: 'spillway_store_migrations' } as const;
    const statements = [...storeStatements, ...decisionStatements];
    await migrate(target, [{ number: 1, name: 'store', statements }], options);
    return new PostgresStore(engine, ownsEngine);
  }

  /** The stats of its connections, which the store may share with others. */
  get stats(): PostgresStoreStats {
    return { ...this.#engine.stats, durability: this.durability };
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
    const rows = await this.#select(listSql, [prefix, max, after, prefix + greatestRest], signal);
    return rows.map((row) => ({ name: row.name, ...(recordOf(row) as StoredRecord) }));
  }

  watch(names: readonly string[], changed: (news?: StoreNews) => void): StoreWatch {
    checkStoreNames(names);
    return this.#watcher.watch(names, changed);
  }

  async commit(
    changes: readonly StoreChange[],
    { signal, durability }: StoreCommitOptions = {},
  ): Promise<StoreCommit | undefined> {
    signal?.throwIfAborted();
    checkStoreChanges(changes);
    const pending = { changes, values: textsOf(changes), isRelaxed: durability === 'none' };
    const add = () => this.#commits.add(pending, { signal });
    return await tracedCommit('postgresql', changes.length, add);
  }

  apply(
    name: string,
    decision: StoreDecision,
    argument: Json,
    { signal }: StoreCallOptions = {},
  ): Promise<StoreApplied> | undefined {
    checkStoreNames([name]);
    if (!decisionNames.has(decision.name)) return undefined;
    const item = { name, decision: decision.name, argument: jsonText(argument) };
    return this.#decisions.add(item, { signal });
  }

  /** False while the server is away, and from `close` on. */
  get ready(): boolean {
    return this.#engine.ready && !this.#closing.hasBegun;
  }

  /** Resolves when no call is under way; connections of a database stay open. */
  close(options?: CloseOptions): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(limit: AbortSignal): Promise<void> {
    await this.#watcher.close();
    await untilAborted(Promise.all([this.#commits.idle(), this.#decisions.idle()]), limit);
    if (this.#ownsEngine) await this.#engine.close(limit);
  }

  async #select(
    sql: string,
    values: readonly unknown[],
    signal: AbortSignal | undefined,
  ): Promise<readonly Row[]> {
    const session = await this.#engine.acquire({ signal });
    try {
      const { now = null, wall = null } = this.#seen;
      const { rows } = await session.query(sql, [now, wall, ...values], { commits: false });
      if (rows[0] !== undefined) this.#seen.note(rows[0].now, rows[0].wall);
      return rows;
    } finally {
      session.close();
    }
  }

  async #send(group: BatchGroup<Pending, StoreCommit | undefined>): Promise<void> {
    const session = await this.#engine.acquire({ signal: group.signal });
    try {
      const entries = group.take();
      const commits = entries.map(({ item }) => item);
      const { now: seen = null, wall: seenWall = null } = this.#seen;
      const values = [...columnsOf(commits), seen, seenWall, newsOf(commits)];
      const sql = commits.every(({ isRelaxed }) => isRelaxed) ? relaxedCommitSql : commitSql;
      const { rows } = await session.query(sql, values, { commits: true });
      for (const [at, { now, wall, version }] of rows.entries()) {
        this.#seen.note(now, wall);
        entries[at]?.grant(version === null ? undefined : { now, version });
      }
    } finally {
      session.close();
    }
  }

  async #decide(group: BatchGroup<PendingDecision, StoreApplied>): Promise<void> {
    const session = await this.#engine.acquire({ signal: group.signal });
    try {
      const entries = group.take();
      const items = entries.map(({ item }) => item);
      const { now: seen = null, wall: seenWall = null } = this.#seen;
      const values = [
        items.map(({ name }) => name),
        items.map(({ decision }) => decision),
        items.map(({ argument }) => argument),
        seen,
        seenWall,
      ];
      const { rows } = await session.query(applySql, values, { commits: true });
      for (const [at, { now, wall, answer }] of rows.entries()) {
        this.#seen.note(now, wall);
        if (answer === null) entries[at]?.refuse(foreignForm(items[at]?.name ?? ''));
        else entries[at]?.grant({ now, answer: JSON.parse(answer) });
      }
    } finally {
      session.close();
    }
  }
}

/** Commits to the store inside a transaction; false if a version has changed. */
export async function commitInPostgres(
  run: RunIn,
  changes: readonly StoreChange[],
): Promise<boolean> {
  const columns = columnsOf([{ changes, values: textsOf(changes), isRelaxed: false }]);
  const { rows } = await run(commitSql, [...columns, null, null, null]);
  return rows[0]?.version !== null;
}

function textsOf(changes: readonly StoreChange[]): Pending['values'] {
  return changes.map(({ value }) => (value === undefined ? null : jsonText(value)));
}

/** The arguments of the commit function: the end of each commit, and all their changes. */
function columnsOf(commits: readonly Pending[]): readonly unknown[] {
  const all = commits.flatMap(({ changes }) => changes);
  const ends: number[] = [];
  for (const { changes } of commits) ends.push((ends.at(-1) ?? 0) + changes.length);
  return [
    ends,
    all.map(({ name }) => name),
    all.map(({ ifVersion }) => ifVersion ?? null),
    commits.flatMap(({ values }) => values),
    all.map(({ ttlMs }) => ttlMs ?? null),
    all.map(({ checkOnly }) => checkOnly ?? false),
  ];
}

/** The `news` of each change, or null if no change has any. */
function newsOf(commits: readonly Pending[]): readonly (string | null)[] | null {
  const all = commits.flatMap(({ changes }) => changes.map(({ news = null }) => news));
  return all.some((news) => news !== null) ? all : null;
}

function recordOf({ value, version, expires_at }: Row): StoredRecord | undefined {
  if (value === null) return undefined;
  return { value: JSON.parse(value), version, expiresAt: expires_at ?? undefined };
}
