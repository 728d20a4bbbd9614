import { CompiledQuery } from 'kysely';
import { type Clock, SpillwayError } from 'spillway';
import { nextTurn } from 'spillway/internal';
import type { Database } from 'spillway-sql';
import type { Changes, PurgedTask } from '../world/records.ts';
import type { Run, Task } from '../world/run.ts';
import type { World } from '../world/world.ts';
import type { ActionRow, BlockedWorkerRow, FleetSchema, RunRow } from './fleet-schema.ts';
import { actionRow, runRow, taskRow, upserts, withoutNul } from './rows.ts';

export interface ChangeWriterOptions {
  readonly database: Database<FleetSchema>;
  /** The world whose records are written. */
  readonly world: World;
  /** Fencing number: writes are void once another primary has written with a higher one. */
  readonly fence: number;
  readonly clock: Clock;
}

/** Delay before a failed write is tried again, in milliseconds. */
const retryMs = 1_000;
/** Tasks that are serialized in one turn of the event loop: about a millisecond of work. */
const turnMax = 256;
/** Log entries that may wait to be stored; with more, decisions are refused. */
const actionsMax = 10_000;

/**
 * Stores the changes of decisions. One transaction runs at a time; the changes of all decisions
 * made meanwhile go into the next one, each record once, in its state when that begins. So a
 * transaction holds the world between two decisions, and the last state of a record stays.
 */
export class ChangeWriter {
  readonly #options: ChangeWriterOptions;
  readonly #fence: CompiledQuery;
  /** Length of each tuning's history when it was last written. */
  readonly #historyLengths = new WeakMap<Run, number>();
  #pending = new Pending();
  #writing: Promise<void> | undefined;
  #retry: Disposable | undefined;
  readonly #end = new AbortController();
  #decisions = 0;
  #transactions = 0;
  #failures = 0;

  constructor(options: ChangeWriterOptions) {
    this.#options = options;
    this.#fence = fenceQuery(options);
  }

  /** Stored decisions, their transactions, failed ones, and records that wait. */
  get stats() {
    return {
      decisions: this.#decisions,
      transactions: this.#transactions,
      failures: this.#failures,
      waiting: this.#pending.size,
    };
  }

  /** Throws `DATABASE_BUSY` if too much waits to be stored for another decision. */
  assertRoom(): void {
    this.signal.throwIfAborted();
    if (this.#pending.actions.length < actionsMax) return;
    throw new SpillwayError('DATABASE_BUSY', 'too much waits to be stored');
  }

  /** Resolves when the changes are durable. If it rejects, they are still tried again. */
  store(changes: Changes): Promise<void> {
    const { runs, tasks, actions, blocked } = changes;
    if (runs.size + tasks.size + actions.length + blocked.size === 0) return Promise.resolve();
    if (this.signal.aborted) return Promise.reject(this.signal.reason);
    this.#pending.add(changes);
    const { promise } = this.#pending.done;
    this.#write();
    return promise;
  }

  /** Resolves when all changes so far are durable; rejects if they cannot be stored. */
  async flush(): Promise<void> {
    await this.#writing;
    if (this.#pending.size === 0) return;
    const { promise } = this.#pending.done;
    this.#write();
    await promise;
  }

  /** Aborts when nothing more is written: another instance is the primary, or it was closed. */
  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Makes later writes of earlier primaries fail. */
  async claim(): Promise<void> {
    await this.#options.database.batch([this.#fence]).catch((error: unknown) => {
      throw hopeless(error) ?? error;
    });
  }

  /** Stops writing; waiting changes are dropped. */
  close(reason: Error = new SpillwayError('DATABASE_CLOSED', 'nothing is stored any more')): void {
    if (this.signal.aborted) return;
    this.#end.abort(reason);
    this.#retry?.[Symbol.dispose]();
    const { done } = this.#pending;
    done.promise.catch(() => {});
    done.reject(reason);
  }

  #write(): void {
    if (this.signal.aborted || this.#writing !== undefined || this.#pending.size === 0) return;
    this.#retry?.[Symbol.dispose]();
    this.#retry = undefined;
    this.#writing = this.#transact();
  }

  async #transact(): Promise<void> {
    // Other decisions of this turn join the transaction.
    await undefined;
    const batch = this.#pending;
    this.#pending = new Pending();
    const lengths = historyLengths(batch.runs);
    try {
      await this.#options.database.batch(await this.#queries(batch));
      for (const [run, length] of lengths) this.#historyLengths.set(run, length);
      this.#decisions += batch.decisions;
      this.#transactions += 1;
      this.#writing = undefined;
      batch.done.resolve();
      this.#write();
    } catch (error) {
      this.#failures += 1;
      this.#pending.takeBack(batch);
      this.#writing = undefined;
      const reason = hopeless(error);
      if (reason !== undefined) this.close(reason);
      if (!this.signal.aborted) {
        this.#retry = this.#options.clock.after(retryMs, () => this.#write());
      }
      batch.done.promise.catch(() => {});
      batch.done.reject(reason ?? error);
    }
  }

  /** Copies all records now; long lists are serialized in several turns. */
  async #queries(pending: Pending): Promise<CompiledQuery[]> {
    const { runs, tasks, bad, actions, blocked } = pending;
    const plain: Omit<RunRow, 'param_history'>[] = [];
    const grown: RunRow[] = [];
    for (const run of runs) {
      const history = run.args.spsa?.param_history;
      const isStored = (history?.length ?? 0) === (this.#historyLengths.get(run) ?? 0);
      if (isStored) plain.push(runRow(run));
      else grown.push({ ...runRow(run), param_history: JSON.stringify(history) });
    }
    const { kind } = this.#options.database;
    const queries = [
      this.#fence,
      ...upserts(kind, 'runs', plain),
      ...upserts(kind, 'runs', grown),
      ...upserts(kind, 'actions', actions),
      ...this.#blockedQueries(blocked),
    ];
    // The values in a task's record are replaced, never changed in place.
    const copies = [...tasks].map(({ run, id, record }) => ({ run, id, record: { ...record } }));
    for (let at = 0; at < Math.max(copies.length, bad.length); at += turnMax) {
      if (at > 0) await new Promise<void>(nextTurn);
      queries.push(...upserts(kind, 'tasks', copies.slice(at, at + turnMax).map(taskRow)));
      queries.push(...upserts(kind, 'bad_tasks', bad.slice(at, at + turnMax).map(taskRow)));
    }
    return queries;
  }

  #blockedQueries(names: ReadonlySet<string>): CompiledQuery[] {
    const { world, database } = this.#options;
    const rows: BlockedWorkerRow[] = [];
    const gone: string[] = [];
    for (const name of names) {
      const worker = world.blocked.get(name);
      if (worker === undefined) gone.push(name);
      else rows.push({ ...worker, worker_name: name, message: withoutNul(worker.message) });
    }
    const deletion = database.kysely.deleteFrom('blocked_workers');
    return [
      ...upserts(database.kind, 'blocked_workers', rows),
      ...gone.map((name) => deletion.where('worker_name', '=', name).compile()),
    ];
  }
}

function historyLengths(runs: Iterable<Run>): [Run, number][] {
  return [...runs].map((run) => [run, run.args.spsa?.param_history?.length ?? 0]);
}

/** The error to close with if a retry would not help. */
function hopeless(cause: unknown): SpillwayError | undefined {
  if (!(cause instanceof SpillwayError)) {
    return new SpillwayError('DATABASE_LOST', 'the database does not take a change', { cause });
  }
  if (cause.code !== 'DATABASE_CONSTRAINT') return undefined;
  // Only the query of the fence can violate a constraint.
  return new SpillwayError('LEASE_LOST', 'another instance is the primary', { cause });
}

/** Fails the transaction if there is a newer primary: its column must not be null. */
export function fenceQuery({
  database,
  fence,
}: Pick<ChangeWriterOptions, 'database' | 'fence'>): CompiledQuery {
  const place = database.kind === 'postgres' ? '$1' : '?';
  const text =
    `insert into primary_instance (id, fence) values (1, ${place}) on conflict (id) do update ` +
    'set fence = case when primary_instance.fence <= excluded.fence then excluded.fence end';
  return CompiledQuery.raw(text, [fence]);
}

/** Records that the next transaction writes. */
class Pending {
  readonly runs: Set<Run> = new Set();
  readonly tasks: Set<Task> = new Set();
  readonly bad: PurgedTask[] = [];
  readonly actions: ActionRow[] = [];
  readonly blocked: Set<string> = new Set();
  decisions = 0;
  readonly done: PromiseWithResolvers<void> = Promise.withResolvers<void>();

  get size(): number {
    const { runs, tasks, bad, actions, blocked } = this;
    return runs.size + tasks.size + bad.length + actions.length + blocked.size;
  }

  add(changes: Changes): void {
    this.#take(changes, changes.purged);
    for (const entry of changes.actions) this.actions.push(actionRow(entry));
    this.decisions += 1;
  }

  /** Takes back a failed transaction, whose changes are older. */
  takeBack(older: Pending): void {
    // The key of a bad task is its place, so that their order does not matter.
    this.#take(older, older.bad);
    this.actions.unshift(...older.actions);
  }

  #take(
    { runs, tasks, blocked }: Pick<Changes, 'runs' | 'tasks' | 'blocked'>,
    bad: readonly PurgedTask[],
  ): void {
    for (const run of runs) this.runs.add(run);
    for (const task of tasks) this.tasks.add(task);
    for (const name of blocked) this.blocked.add(name);
    for (const one of bad) this.bad.push(one);
  }
}
