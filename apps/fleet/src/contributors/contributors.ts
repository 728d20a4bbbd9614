import type { CompiledQuery } from 'kysely';
import { type CloseOptions, type Every, every, type Part, SingleFlight } from 'spillway';
import { nextTurn } from 'spillway/internal';
import type { Context } from '../context.ts';
import { gameDuration } from '../statistics/time-control.ts';
import { fenceQuery } from '../storage/change-writer.ts';
import type { ContributorRow } from '../storage/fleet-schema.ts';
import { taskRecord, upserts } from '../storage/rows.ts';
import type { RunArgs, RunRecord, TaskRecord } from '../world/records.ts';
import type { Run } from '../world/run.ts';
import { gamesOf } from '../world/world.ts';

/** Contributions of one user. */
interface Contribution {
  cpu_hours: number;
  games: number;
  /** Runs that the user submitted. */
  tests: number;
  /** Time at which a task of the user last changed, in UNIX milliseconds; 0 if there was none. */
  last_updated: number;
}

type Played = Pick<RunArgs, 'tc' | 'threads'>;

/** Contributions by user. */
class Contributions {
  readonly byUser: Map<string, Contribution> = new Map();

  /** Counts a run for its submitter. */
  addTest(username: string): void {
    this.#of(username).tests += 1;
  }

  /** Counts the games of a task for the user whose worker played them. */
  addTask({ tc, threads }: Played, { stats, worker_info, last_updated }: TaskRecord): void {
    const games = gamesOf(stats);
    const cpu_hours = (games * threads * gameDuration(tc)) / 3600;
    this.addAll([[worker_info.username, { cpu_hours, games, tests: 0, last_updated }]]);
  }

  addAll(contributions: Iterable<readonly [string, Contribution]>, sign: 1 | -1 = 1): void {
    for (const [username, more] of contributions) {
      const sum = this.#of(username);
      sum.cpu_hours += sign * more.cpu_hours;
      sum.games += sign * more.games;
      sum.tests += sign * more.tests;
      sum.last_updated = Math.max(sum.last_updated, more.last_updated);
    }
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

/** All finished runs, or the runs of the last 30 days. */
export type ContributorTable = 'contributors' | 'top_month';

/** A run, and the contributions that were counted for it. */
interface CountedRun {
  readonly id: string;
  readonly start_time: number;
  readonly last_updated: number;
  readonly bad_tasks: number;
  /** Null if it was never counted. */
  readonly counted: string | null;
  /** True if it is finished, and its counted sums are missing or out of date. */
  readonly isStale: boolean;
}

type ContributorsOptions = Pick<Context, 'storage' | 'primary' | 'onFailure' | 'clock'>;

const periodMs = 3_600_000;
/** The first count waits until workers have come back. */
const firstMs = 60_000;
const monthMs = 30 * 24 * 60 * 60 * 1000;
/** Tasks that are looked at in one turn of the event loop: less than a millisecond's worth. */
const turnMax = 1_000;
/** Rows that are read at once: a millisecond's work for the event loop. */
const pageSize = 500;

/**
 * Totals of what users contributed. Each finished run is counted once, in one transaction with a
 * note of what was counted; if its games change afterwards, by a purge or because it goes on, the
 * difference is counted. So a crash loses nothing and counts nothing twice. The primary counts each
 * hour; nothing else writes these tables.
 */
export class Contributors implements Part {
  readonly name = 'contributors';
  readonly #options: ContributorsOptions;
  readonly #database: Context['database'];
  readonly #job: Every;
  #first: Disposable | undefined;
  readonly #counting = new SingleFlight<void>();
  #stopped = false;

  constructor(options: ContributorsOptions) {
    this.#options = options;
    this.#database = options.storage.database;
    const { clock, onFailure } = options;
    const name = 'count contributors';
    const onError = (error: unknown) => onFailure(name, error);
    const run = () => this.count();
    this.#job = every({ name, periodMs, atStart: true, run, onError, clock });
  }

  start(): void {
    this.#first = this.#options.clock.after(firstMs, () => this.#job.start());
  }

  async close(options?: CloseOptions): Promise<void> {
    this.#stopped = true;
    this.#first?.[Symbol.dispose]();
    await this.#job.close(options);
  }

  /** Contributors as of the last count, those with the most hours first. */
  async list(table: ContributorTable, signal?: AbortSignal): Promise<Contributor[]> {
    const rows = await this.#database.kysely
      .selectFrom(table)
      .selectAll()
      .orderBy('cpu_hours', 'desc')
      .orderBy('username')
      .execute({ signal });
    return rows.map(contributorOf);
  }

  /** Counts new runs, if this is the primary; joins a count that is under way. */
  count(): Promise<void> {
    return this.#counting.run('', () => this.#count());
  }

  async #count(): Promise<void> {
    const { primary } = this.#options;
    const { fence } = primary.stats;
    if (fence === undefined || !primary.isPrimary) return;
    for (let page = await this.#runs(''); page.length > 0; ) {
      for (const run of page) {
        if (this.#stopped) return;
        if (run.isStale) await this.#store(fence, run, await this.#contributionsTo(run.id));
      }
      page = await this.#runs(page.at(-1)?.id as string);
    }
    const month = await this.#finishedMonth();
    const rates = new Map<string, number>();
    for (const run of [...primary.world.unfinished]) await addUnfinished(run, month, rates);
    if (!this.#stopped) await this.#setMonth(fence, month, rates);
  }

  /** The next runs after an id, with what was counted for them. */
  async #runs(after: string): Promise<CountedRun[]> {
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
  async #contributionsTo(runId: string): Promise<Contributions> {
    const { storage } = this.#options;
    const { args } = (await storage.record(runId)) as RunRecord;
    const sums = new Contributions();
    sums.addTest(args.username);
    for await (const page of storage.pagesOf('tasks', runId)) {
      for (const row of page) sums.addTask(args, taskRecord(row));
    }
    return sums;
  }

  /** Contributions to finished runs of the last 30 days, except to runs that live again. */
  async #finishedMonth(): Promise<Contributions> {
    const { clock, primary } = this.#options;
    const month = new Contributions();
    const since = clock.now() - monthMs;
    for (let after = ''; ; ) {
      const page = await this.#database.kysely
        .selectFrom('deltas')
        .select(['run_id', 'counted'])
        .where('start_time', '>', since)
        .where('run_id', '>', after)
        .orderBy('run_id')
        .limit(pageSize)
        .execute();
      for (const { run_id, counted } of page) {
        if (primary.world.run(run_id)?.record.finished !== false) month.addAll(countedOf(counted));
      }
      if (page.length < pageSize) return month;
      after = page.at(-1)?.run_id as string;
    }
  }

  /** Stores the contributions to a run together with the new totals, if this is the primary. */
  async #store(fence: number, run: CountedRun, now: Contributions): Promise<void> {
    const database = this.#database;
    const before = countedOf(run.counted);
    const names = new Set([...now.byUser.keys(), ...before.map(([name]) => name)]);
    const known = await database.kysely
      .selectFrom('contributors')
      .selectAll()
      .where('username', 'in', [...names])
      .execute();
    const old = new Map(known.map((row) => [row.username, contributorOf(row)]));
    const totals = new Contributions();
    totals.addAll(old);
    totals.addAll(now.byUser);
    totals.addAll(before, -1);
    const rows = [...totals.byUser].map(([username, total]) => {
      return rowOf({ username, games_per_hour: old.get(username)?.games_per_hour ?? 0, ...total });
    });
    const { id: run_id, start_time, last_updated, bad_tasks } = run;
    const counted = JSON.stringify([...now.byUser]);
    const delta = { run_id, start_time, last_updated, bad_tasks, counted };
    await database.batch([
      fenceQuery({ database, fence }),
      ...upserts(database.kind, 'deltas', [delta]),
      ...upserts(database.kind, 'contributors', rows),
    ]);
  }

  /** Replaces the month, and updates the games per hour in the totals. */
  async #setMonth(
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

async function addUnfinished(
  run: Run,
  month: Contributions,
  rates: Map<string, number>,
): Promise<void> {
  const { args } = run;
  month.addTest(args.username);
  for (let at = 0; at < run.tasks.length; at += turnMax) {
    if (at > 0) await new Promise<void>(nextTurn);
    for (const task of run.tasks.slice(at, at + turnMax)) {
      month.addTask(args, task.record);
      if (!task.active) continue;
      const { username } = task.record.worker_info;
      rates.set(username, (rates.get(username) ?? 0) + run.gamesPerHourOf(task));
    }
  }
}

/** Parses the counted sums of a run, by user. */
function countedOf(counted: string | null): [string, Contribution][] {
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
