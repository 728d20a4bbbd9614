import type { CompiledQuery } from 'kysely';
import { gameDuration } from '../statistics/time-control.ts';
import { fenceQuery } from '../storage/change-writer.ts';
import type { ContributorRow } from '../storage/fleet-schema.ts';
import type { FleetStorage } from '../storage/fleet-storage.ts';
import { taskRecord, upserts } from '../storage/rows.ts';
import type { RunArgs, RunRecord, TaskRecord } from '../world/records.ts';
import { gamesOf } from '../world/world.ts';

/** Work that one user has given. */
export interface Contribution {
  cpu_hours: number;
  games: number;
  /** Runs that the user submitted. */
  tests: number;
  /** Time at which a task of the user last changed, in UNIX milliseconds; 0 if there was none. */
  last_updated: number;
}

type Played = Pick<RunArgs, 'tc' | 'threads'>;

/** Contributions by user. */
export class Contributions {
  readonly byUser: Map<string, Contribution> = new Map();

  /** Counts a run for its submitter. */
  addTest(username: string): void {
    this.#of(username).tests += 1;
  }

  /** Counts the games of a task for the user whose worker played them. */
  addTask({ tc, threads }: Played, { stats, worker_info, last_updated }: TaskRecord): void {
    const games = gamesOf(stats);
    const cpu_hours = (games * threads * gameDuration(tc)) / 3600;
    this.add(worker_info.username, { cpu_hours, games, tests: 0, last_updated }, 1);
  }

  add(username: string, more: Contribution, sign: 1 | -1): void {
    const sum = this.#of(username);
    sum.cpu_hours += sign * more.cpu_hours;
    sum.games += sign * more.games;
    sum.tests += sign * more.tests;
    sum.last_updated = Math.max(sum.last_updated, more.last_updated);
  }

  #of(username: string): Contribution {
    const known = this.byUser.get(username);
    if (known !== undefined) return known;
    const none = { cpu_hours: 0, games: 0, tests: 0, last_updated: 0 };
    this.byUser.set(username, none);
    return none;
  }
}

/** A user's contribution, as it is listed. */
export interface Contributor extends Contribution {
  readonly username: string;
  /** Games per hour that the user's active workers play now. */
  readonly games_per_hour: number;
}

/** All that was ever finished, or what the last 30 days have seen. */
export type ContributorTable = 'contributors' | 'top_month';

/** A run, and what of it was counted, if it was. */
export interface CountedRun {
  readonly id: string;
  readonly start_time: number;
  readonly last_updated: number;
  readonly bad_tasks: number;
  /** Null if it was never counted. */
  readonly counted: string | null;
  /** True if it is finished, and its counted sums are missing or out of date. */
  readonly isStale: boolean;
}

/** Rows that are read at once: a millisecond's work for the event loop. */
const pageSize = 500;

/** The tables of what users gave. Nobody but the primary's one job writes them. */
export class ContributorTables {
  readonly #storage: FleetStorage;
  readonly #database: FleetStorage['database'];

  constructor(storage: FleetStorage) {
    this.#storage = storage;
    this.#database = storage.database;
  }

  /** The most hours first. */
  async list(table: ContributorTable, signal?: AbortSignal): Promise<Contributor[]> {
    const rows = await this.#database.kysely
      .selectFrom(table)
      .selectAll()
      .orderBy('cpu_hours', 'desc')
      .orderBy('username')
      .execute({ signal });
    return rows.map(contributorOf);
  }

  /** The next runs after an id, and whether what was counted of them is no longer true. */
  async runs(after: string): Promise<CountedRun[]> {
    const rows = await this.#database.kysely
      .selectFrom('runs')
      .leftJoin('deltas', 'deltas.run_id', 'runs.id')
      .select(({ selectFrom, fn }) => [
        'runs.id as id',
        'runs.finished as finished',
        'runs.start_time as start_time',
        'runs.last_updated as last_updated',
        'deltas.last_updated as counted_at',
        'deltas.bad_tasks as counted_bad',
        'deltas.counted as counted',
        selectFrom('bad_tasks')
          .select(fn.countAll<number | string>().as('count'))
          .whereRef('bad_tasks.run_id', '=', 'runs.id')
          .as('bad_tasks'),
      ])
      .where('runs.id', '>', after)
      .orderBy('runs.id')
      .limit(pageSize)
      .execute();
    return rows.map(({ finished, counted_at, counted_bad, ...row }) => {
      const bad_tasks = Number(row.bad_tasks);
      const isChanged = counted_at !== row.last_updated || counted_bad !== bad_tasks;
      return { ...row, bad_tasks, isStale: finished === 1 && isChanged };
    });
  }

  /** Sums up a stored run's tasks by user, read a few at a time. */
  async contributionsOf(runId: string): Promise<Contributions> {
    const { args } = (await this.#storage.record(runId)) as RunRecord;
    const sums = new Contributions();
    sums.addTest(args.username);
    for await (const page of this.#storage.pagesOf('tasks', runId)) {
      for (const row of page) sums.addTask(args, taskRecord(row));
    }
    return sums;
  }

  /** One page of the counted sums of finished runs that began after `since`, by run id. */
  async countedSince(since: number, after: string): Promise<{ run_id: string; counted: string }[]> {
    return await this.#database.kysely
      .selectFrom('deltas')
      .select(['run_id', 'counted'])
      .where('start_time', '>', since)
      .where('run_id', '>', after)
      .orderBy('run_id')
      .limit(pageSize)
      .execute();
  }

  /** Stores what a run gave, and the new totals with it, as long as this is the primary. */
  async count(fence: number, run: CountedRun, now: Contributions): Promise<void> {
    const database = this.#database;
    const change = new Contributions();
    for (const [name, one] of now.byUser) change.add(name, one, 1);
    for (const [name, one] of countedOf(run.counted)) change.add(name, one, -1);
    const known = await this.#totalsOf([...change.byUser.keys()]);
    const rows = [...change.byUser].map(([username, more]) => {
      const before = known.get(username);
      const sum = new Contributions();
      if (before !== undefined) sum.add(username, before, 1);
      sum.add(username, more, 1);
      const total = sum.byUser.get(username) as Contribution;
      return rowOf({ username, games_per_hour: before?.games_per_hour ?? 0, ...total });
    });
    const { id: run_id, start_time, last_updated, bad_tasks } = run;
    const counted = JSON.stringify([...now.byUser]);
    await database.batch([
      fenceQuery({ database, fence }),
      ...upserts(database.kind, 'deltas', [
        { run_id, start_time, last_updated, bad_tasks, counted },
      ]),
      ...upserts(database.kind, 'contributors', rows),
    ]);
  }

  async #totalsOf(names: readonly string[]): Promise<Map<string, Contributor>> {
    const rows = await this.#database.kysely
      .selectFrom('contributors')
      .selectAll()
      .where('username', 'in', names)
      .execute();
    return new Map(rows.map((row) => [row.username, contributorOf(row)]));
  }

  /** Replaces the month, and what active workers play now in the totals. */
  async setMonth(
    fence: number,
    month: Contributions,
    gamesPerHour: ReadonlyMap<string, number>,
  ): Promise<void> {
    const database = this.#database;
    const rate = (username: string) => gamesPerHour.get(username) ?? 0;
    const rows = [...month.byUser].map(([username, one]) => {
      return rowOf({ username, games_per_hour: rate(username), ...one });
    });
    const totals = (await this.list('contributors')).flatMap((one) => {
      const games_per_hour = rate(one.username);
      return games_per_hour === one.games_per_hour ? [] : rowOf({ ...one, games_per_hour });
    });
    const queries: CompiledQuery[] = [
      fenceQuery({ database, fence }),
      database.kysely.deleteFrom('top_month').compile(),
      ...upserts(database.kind, 'top_month', rows),
      ...upserts(database.kind, 'contributors', totals),
    ];
    await database.batch(queries);
  }
}

/** Parses the counted sums of a run, by user. */
export function countedOf(counted: string | null): [string, Contribution][] {
  return counted === null ? [] : (JSON.parse(counted) as [string, Contribution][]);
}

function rowOf({ username, cpu_hours, ...rest }: Contributor): ContributorRow {
  const { games, games_per_hour, tests, last_updated } = rest;
  const record = JSON.stringify({ games, games_per_hour, tests, last_updated });
  return { username, cpu_hours, record };
}

function contributorOf(row: ContributorRow): Contributor {
  const { username, cpu_hours } = row;
  const none = { games: 0, games_per_hour: 0, tests: 0, last_updated: 0 };
  return { username, cpu_hours, ...none, ...(JSON.parse(row.record) as object) };
}
