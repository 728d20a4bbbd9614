import type { Primary } from '../primary.ts';
import type { Fleet } from '../scheduling/fleet.ts';
import type { BadTaskRecord, RunRecord, TaskRecord } from '../scheduling/run-record.ts';
import type { ActionRow, RunRow } from '../storage/fleet-schema.ts';
import type { FleetStorage } from '../storage/fleet-storage.ts';
import { badTaskRecord } from '../storage/rows.ts';
import { actionFilter } from './action-filter.ts';
import type { Entry } from './entry-match.ts';
import { type FinishedQuery, ltcFrom } from './finished-query.ts';
import { type LogSearch, splitQuery } from './log-search.ts';
import type { RunSource } from './run-source.ts';

export interface StoredRunsOptions {
  readonly primary: Primary;
  readonly storage: FleetStorage;
  readonly search: LogSearch;
}

const actionsMax = 200;
/** Entries that are searched at once. */
const searchedMax = 500;

/** Runs as they are in memory, on the primary instance; else as they are stored. */
export class StoredRuns implements RunSource {
  readonly #options: StoredRunsOptions;

  constructor(options: StoredRunsOptions) {
    this.#options = options;
  }

  async unfinished(signal?: AbortSignal): Promise<Iterable<RunRecord>> {
    const fleet = this.#fleet();
    if (fleet !== undefined) return [...fleet.unfinishedRuns].map(({ record }) => record);
    const rows = await this.#kysely
      .selectFrom('runs')
      .select('record')
      .where('finished', '=', 0)
      .orderBy('id')
      .execute({ signal });
    return records(rows);
  }

  async run(id: string, signal?: AbortSignal): Promise<RunRecord | undefined> {
    const known = this.#fleet()?.run(id);
    if (known !== undefined) return known.record;
    const row = await this.#kysely
      .selectFrom('runs')
      .select('record')
      .where('id', '=', id)
      .executeTakeFirst({ signal });
    return row && (JSON.parse(row.record) as RunRecord);
  }

  async task(id: string, number: number): Promise<TaskRecord | undefined> {
    const known = this.#fleet()?.run(id);
    const task = known?.tasks[number];
    if (known !== undefined) return task && { ...task.record, active: task.active };
    return (await this.#options.storage.task(id, number)) ?? undefined;
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

  async finished(query: FinishedQuery, signal?: AbortSignal): Promise<Iterable<RunRecord>> {
    const { page, pageSize, username, since } = query;
    let rows = this.#kysely
      .selectFrom('runs')
      .select('record')
      .where('finished', '=', 1)
      .where('deleted', '=', 0)
      .orderBy('last_updated', 'desc')
      .orderBy('id', 'desc')
      .offset(page * pageSize)
      .limit(pageSize);
    if (username !== undefined) rows = rows.where('username', '=', username);
    if (query.successOnly) rows = rows.where('is_green', '=', 1);
    if (query.yellowOnly) rows = rows.where('is_yellow', '=', 1);
    if (query.ltcOnly) rows = rows.where('tc_base', '>=', ltcFrom);
    if (since !== undefined) rows = rows.where('last_updated', '>=', since);
    return records(await rows.execute({ signal }));
  }

  async actions(query: unknown, signal?: AbortSignal): Promise<readonly object[]> {
    const { plain, rest } = splitQuery(query);
    if (rest === undefined) return (await this.#page(plain, actionsMax, signal)).map(entryOf);
    let last: ActionRow | undefined;
    const next = async () => {
      const page = await this.#page(plain, searchedMax, signal, last);
      last = page.at(-1) ?? last;
      return page.map(entryOf);
    };
    return this.#options.search.search(rest, next, signal);
  }

  /** Entries of the log, the newest first, from what comes after `last`. */
  async #page(
    query: unknown,
    limit: number,
    signal?: AbortSignal,
    last?: ActionRow,
  ): Promise<ActionRow[]> {
    let rows = this.#kysely.selectFrom('actions').selectAll().where(actionFilter(query));
    if (last !== undefined) {
      const { time, id } = last;
      rows = rows.where((build) =>
        build.or([
          build('time', '<', time),
          build.and([build('time', '=', time), build('id', '<', id)]),
        ]),
      );
    }
    return rows.orderBy('time', 'desc').orderBy('id', 'desc').limit(limit).execute({ signal });
  }

  get #kysely(): FleetStorage['database']['kysely'] {
    return this.#options.storage.database.kysely;
  }

  #fleet(): Fleet | undefined {
    const { primary } = this.#options;
    return primary.isPrimary ? primary.fleet : undefined;
  }
}

/** Read one by one, when they are written. */
function records(rows: readonly Pick<RunRow, 'record'>[]): Iterable<RunRecord> {
  return rows.values().map(({ record }) => JSON.parse(record) as RunRecord);
}

function entryOf({ id, ...row }: ActionRow): Entry {
  const present = Object.entries(row).filter(([, value]) => value !== null);
  return { _id: id, ...Object.fromEntries(present) };
}
