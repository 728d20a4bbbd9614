import type { Database } from 'spillway-sql';
import type { FleetSchema } from './fleet-schema.ts';

export interface StoredPgn {
  readonly runId: string;
  readonly taskId: number;
  /** A gzip file. */
  readonly zip: Uint8Array;
  /** UNIX milliseconds. */
  readonly now: number;
}

/** Keeps the games of a task; those that were sent before are replaced. */
export async function storePgn(
  database: Database<FleetSchema>,
  { runId, taskId, zip, now }: StoredPgn,
): Promise<void> {
  const row = { size: zip.length, stored_at: now, pgn_zip: zip };
  await database.kysely
    .insertInto('pgns')
    .values({ run_id: runId.toLowerCase(), task_id: taskId, ...row })
    .onConflict((conflict) => conflict.columns(['run_id', 'task_id']).doUpdateSet(row))
    .execute();
}

/** The gzip file with the games of a task, if there are any. */
export async function readPgn(
  database: Database<FleetSchema>,
  runId: string,
  taskId: number,
): Promise<Uint8Array | undefined> {
  const row = await database.kysely
    .selectFrom('pgns')
    .select('pgn_zip')
    .where('run_id', '=', runId.toLowerCase())
    .where('task_id', '=', taskId)
    .executeTakeFirst();
  return row?.pgn_zip;
}
