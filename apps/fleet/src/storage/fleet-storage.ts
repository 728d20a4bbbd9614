import { randomBytes } from 'node:crypto';
import type { Database } from 'spillway-sql';
import type { StoredWorld } from '../world/manage.ts';
import type { Action, RunRecord, TaskRecord } from '../world/records.ts';
import { Run } from '../world/run.ts';
import type { BlockedWorker } from '../world/world.ts';
import type { FleetSchema, RunRow, TaskRow } from './fleet-schema.ts';
import { fleetMigrations } from './migrations.ts';
import { actionRow, badTaskRecord, runRecord, taskRecord } from './rows.ts';

/** Tasks that are read and parsed in one turn of the event loop: a few milliseconds of work. */
const pageSize = 500;

/** Reads and writes the fleet's tables. */
export class FleetStorage {
  readonly database: Database<FleetSchema>;

  constructor(database: Database<FleetSchema>) {
    this.database = database;
  }

  migrate(signal?: AbortSignal): Promise<number> {
    return this.database.migrate(fleetMigrations, { program: 'fleet', signal });
  }

  /** Loads all unfinished runs with their tasks, and blocked workers. */
  async load(): Promise<StoredWorld> {
    const { kysely } = this.database;
    const rows = await kysely
      .selectFrom('runs')
      .selectAll()
      .where('finished', '=', 0)
      .orderBy('id')
      .execute();
    const runs: Run[] = [];
    for (const row of rows) runs.push(await this.#runOf(row));
    return { runs, blocked: await this.blocked() };
  }

  /** Blocked workers by their short names. */
  async blocked(): Promise<Map<string, BlockedWorker>> {
    const rows = await this.database.kysely.selectFrom('blocked_workers').selectAll().execute();
    return new Map(rows.map(({ worker_name, ...worker }) => [worker_name, worker]));
  }

  /** The greatest number that a primary instance has written with; 0 if none has yet. */
  async fence(): Promise<number> {
    const { kysely } = this.database;
    const row = await kysely.selectFrom('primary_instance').select('fence').executeTakeFirst();
    return row?.fence ?? 0;
  }

  /** A run with all its tasks; the id may have capital letters. */
  async run(id: string, signal?: AbortSignal): Promise<Run | undefined> {
    const row = await this.database.kysely
      .selectFrom('runs')
      .selectAll()
      .where('id', '=', id.toLowerCase())
      .executeTakeFirst({ signal });
    return row === undefined ? undefined : this.#runOf(row, signal);
  }

  /** The record of a run, without the history of a tuning; the id is in small letters. */
  async record(id: string, signal?: AbortSignal): Promise<RunRecord | undefined> {
    const row = await this.database.kysely
      .selectFrom('runs')
      .select('record')
      .where('id', '=', id)
      .executeTakeFirst({ signal });
    return row && (JSON.parse(row.record) as RunRecord);
  }

  /** One task; the id of its run is in small letters. */
  async task(runId: string, id: number): Promise<TaskRecord | undefined> {
    const row = await this.database.kysely
      .selectFrom('tasks')
      .innerJoin('runs', 'runs.id', 'tasks.run_id')
      .select(['tasks.run_id', 'tasks.id', 'tasks.record', 'runs.finished'])
      .where('tasks.run_id', '=', runId)
      .where('tasks.id', '=', Math.min(id, taskIdMax))
      .executeTakeFirst();
    if (row === undefined) return undefined;
    const record = taskRecord(row);
    // The records of an ended run may still say that they are active.
    return { ...record, active: record.active && row.finished === 0 };
  }

  /** Writes a log entry that is not part of a decision. */
  async log(entry: Action): Promise<void> {
    await this.database.kysely.insertInto('actions').values(actionRow(entry)).execute();
  }

  /** CPU hours of a user's workers so far; undefined if they were never counted. */
  async cpuHours(username: string): Promise<number | undefined> {
    const row = await this.database.kysely
      .selectFrom('contributors')
      .select('cpu_hours')
      .where('username', '=', username)
      .executeTakeFirst();
    return row?.cpu_hours;
  }

  /** A JSON value that is kept under a name. */
  async document(name: string): Promise<unknown> {
    const row = await this.database.kysely
      .selectFrom('documents')
      .select('value')
      .where('name', '=', name)
      .executeTakeFirst();
    return row === undefined ? undefined : JSON.parse(row.value);
  }

  /** The key that signs sessions and links: the same after a restart, and on all instances. */
  async secretKey(): Promise<string> {
    const name = 'session_key';
    await this.database.kysely
      .insertInto('documents')
      .values({ name, value: JSON.stringify(randomBytes(32).toString('base64url')) })
      .onConflict((conflict) => conflict.column('name').doNothing())
      .execute();
    return (await this.document(name)) as string;
  }

  async setDocument(name: string, document: unknown): Promise<void> {
    const value = JSON.stringify(document);
    await this.database.kysely
      .insertInto('documents')
      .values({ name, value })
      .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
      .execute();
  }

  async #runOf(row: RunRow, signal?: AbortSignal): Promise<Run> {
    const run = new Run(runRecord(row));
    for await (const page of this.pagesOf('bad_tasks', row.id, signal)) {
      for (const bad of page) run.badTasks.push(badTaskRecord(bad));
    }
    for await (const page of this.pagesOf('tasks', row.id, signal)) {
      run.adopt(page.map(taskRecord));
    }
    return run;
  }

  /** The tasks of a run, or those that were set aside, a page at a time. */
  async *pagesOf(
    table: 'tasks' | 'bad_tasks',
    runId: string,
    signal?: AbortSignal,
  ): AsyncGenerator<TaskRow[]> {
    for (let next = 0; ; next += pageSize) {
      const page = await this.database.kysely
        .selectFrom(table)
        .selectAll()
        .where('run_id', '=', runId)
        .where('id', '>=', next)
        .orderBy('id')
        .limit(pageSize)
        .execute({ signal });
      yield page;
      if (page.length < pageSize) return;
    }
  }
}

/** The greatest number that the column holds in both databases. */
const taskIdMax = 2 ** 31 - 1;
