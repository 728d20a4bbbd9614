import type { Context } from '../context.ts';
import { fleetError } from '../errors.ts';
import { sprtElo } from '../statistics/sprt.ts';
import { ltcFrom } from '../statistics/time-control.ts';
import type { RunRow } from '../storage/fleet-schema.ts';
import type { FleetStorage } from '../storage/fleet-storage.ts';
import { badTaskRecord } from '../storage/rows.ts';
import {
  type BadTaskRecord,
  type RunRecord,
  type TaskRecord,
  withoutHistory,
} from '../world/records.ts';
import type { World } from '../world/world.ts';
import { dateText, type QueryTexts } from './answers.ts';

/** Reads runs from memory on the primary, elsewhere from the database; ids are in small letters. */
export class StoredRuns {
  readonly #options: Pick<Context, 'primary' | 'storage'>;

  constructor(options: Pick<Context, 'primary' | 'storage'>) {
    this.#options = options;
  }

  async unfinished(signal?: AbortSignal): Promise<Iterable<RunRecord>> {
    const fleet = this.#fleet();
    if (fleet !== undefined) return [...fleet.unfinished].map(({ record }) => record);
    const rows = await this.#kysely
      .selectFrom('runs')
      .select('record')
      .where('finished', '=', 0)
      .orderBy('id')
      .execute({ signal });
    return records(rows);
  }

  async run(id: string, signal?: AbortSignal): Promise<RunRecord | undefined> {
    return this.#fleet()?.run(id)?.record ?? (await this.#options.storage.record(id, signal));
  }

  async task(id: string, number: number): Promise<TaskRecord | undefined> {
    const known = this.#fleet()?.run(id);
    const task = known?.tasks[number];
    if (known !== undefined) return task && { ...task.record, active: task.active };
    return this.#options.storage.task(id, number);
  }

  async badTask(
    id: string,
    number: number,
    signal?: AbortSignal,
  ): Promise<BadTaskRecord | undefined> {
    const known = this.#fleet()?.run(id);
    if (known !== undefined) return known.badTasks[number];
    const row = await this.#kysely
      .selectFrom('bad_tasks')
      .selectAll()
      .where('run_id', '=', id)
      .where('id', '=', number)
      .executeTakeFirst({ signal });
    return row && badTaskRecord(row);
  }

  /** One page, the newest first. */
  async finished(query: FinishedQuery, signal?: AbortSignal): Promise<Iterable<RunRecord>> {
    const { page = 0, pageSize } = query;
    const rows = this.#finished(query)
      .select('record')
      .orderBy('last_updated', 'desc')
      .orderBy('id', 'desc')
      .offset(page * pageSize)
      .limit(pageSize);
    return records(await rows.execute({ signal }));
  }

  /** Number of finished runs for a query, on all its pages. */
  async countFinished(
    query: Omit<FinishedQuery, 'pageSize'>,
    signal?: AbortSignal,
  ): Promise<number> {
    const row = await this.#finished(query)
      .select(({ fn }) => fn.countAll<number | string>().as('count'))
      .executeTakeFirstOrThrow({ signal });
    return Number(row.count);
  }

  #finished({ username, since, ...only }: Omit<FinishedQuery, 'pageSize'>) {
    let rows = this.#kysely.selectFrom('runs').where('finished', '=', 1).where('deleted', '=', 0);
    if (username !== undefined) rows = rows.where('username', '=', username);
    if (only.successOnly) rows = rows.where('is_green', '=', 1);
    if (only.yellowOnly) rows = rows.where('is_yellow', '=', 1);
    if (only.ltcOnly) rows = rows.where('tc_base', '>=', ltcFrom);
    if (since !== undefined) rows = rows.where('last_updated', '>=', since);
    return rows;
  }

  get #kysely(): FleetStorage['database']['kysely'] {
    return this.#options.storage.database.kysely;
  }

  #fleet(): World | undefined {
    const { primary } = this.#options;
    return primary.isPrimary ? primary.world : undefined;
  }
}

/** Parses the records one by one, when they are sent. */
function records(rows: readonly Pick<RunRow, 'record'>[]): Iterable<RunRecord> {
  return rows.values().map(({ record }) => JSON.parse(record) as RunRecord);
}

/** Query for finished runs; deleted ones are never found. */
export interface FinishedQuery {
  /** Counted from 0. @default 0 */
  readonly page?: number | undefined;
  readonly pageSize: number;
  /** Submitter. @default all */
  readonly username?: string | undefined;
  readonly successOnly?: boolean | undefined;
  readonly yellowOnly?: boolean | undefined;
  /** Long time controls only. */
  readonly ltcOnly?: boolean | undefined;
  /** Last updated then or later, in UNIX milliseconds. @default at any time */
  readonly since?: number | undefined;
}

const pageSize = 50;
const pagesMax = 1_000_000;

/** Throws `REQUEST_REFUSED`. */
export function finishedQuery(query: QueryTexts): FinishedQuery {
  const { page, timestamp } = query;
  if (!/^0*[1-9]\d*$/.test(page ?? '') || Number(page) > pagesMax) {
    throw fleetError('REQUEST_REFUSED', 'Please provide a page number');
  }
  if (timestamp && !/^\d{10}(\.\d+)?$/.test(timestamp)) {
    throw fleetError('REQUEST_REFUSED', 'Please provide a valid UNIX timestamp');
  }
  // Postgres has no such character.
  if (query.username?.includes('\0')) throw fleetError('REQUEST_REFUSED', 'No such username');
  return {
    ...finishedFilters(query, query.username),
    page: Number(page) - 1,
    pageSize,
    since: timestamp ? Number(timestamp) * 1000 : undefined,
  };
}

/** The filters in an address, of one submitter if there is a name. */
export function finishedFilters(
  query: QueryTexts,
  username?: string,
): Omit<FinishedQuery, 'pageSize'> {
  return {
    username: username || undefined,
    successOnly: Boolean(query.success_only),
    yellowOnly: Boolean(query.yellow_only),
    ltcOnly: Boolean(query.ltc_only),
  };
}

/** A run as lists show it: without its tasks, and a tuning without its history. */
export function runInList(record: RunRecord): object {
  return withDates(record, withoutHistory(record.args));
}

/** A run as it is shown alone: the fields that lists leave out are empty. */
export function runAnswer(record: RunRecord): object {
  const run = withDates(record, withoutHistory(record.args, []));
  return { ...run, tasks: [], bad_tasks: [] };
}

/** A sequential test with its estimate of Elo; an empty object for other runs. */
export function eloAnswer(record: RunRecord): object {
  const { sprt } = record.args;
  if (sprt === undefined) return {};
  const { elo0, elo1, alpha, beta, elo_model = 'BayesElo' } = sprt;
  const elo = sprtElo(record.results, { elo0, elo1, alpha, beta, model: elo_model });
  const args = { ...record.args, sprt: { ...sprt, elo_model } };
  return { ...runAnswer({ ...record, args }), elo };
}

/** A task without the data that would identify its worker. */
export function taskAnswer(record: TaskRecord | BadTaskRecord): object {
  const { unique_key } = record.worker_info;
  const worker_info = {
    ...record.worker_info,
    unique_key: `${unique_key.slice(0, 8)}...`,
    remote_addr: '?.?.?.?',
  };
  const task = { ...record, worker_info, last_updated: dateText(record.last_updated) };
  return 'residual' in record && record.residual === Infinity ? { ...task, residual: 'inf' } : task;
}

function withDates(record: RunRecord, args: object): object {
  const { start_time, last_updated } = record;
  const dates = { start_time: dateText(start_time), last_updated: dateText(last_updated) };
  return { ...record, ...dates, args };
}
