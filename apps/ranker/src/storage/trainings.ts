import type { CrossValidatedErrors } from '../learn/choice.ts';
import type { TrainingRecord } from '../learn/training-queue.ts';
import type { TrainingRow } from './ranker-schema.ts';
import { counted, Records } from './records.ts';

/** One run of the trainer, as it is kept. */
export interface LoggedTraining extends Omit<TrainingRecord, 'progress' | 'status'> {
  readonly id: number;
  readonly status: TrainingRecord['status'] | 'interrupted';
}

/** The number of trainings kept of a user; older ones go. */
const keptMax = 200;

/** The log of trainings and their results. */
export class Trainings extends Records {
  /** Notes a training that has begun; gives its number. */
  async begin(training: TrainingRecord): Promise<number> {
    const { kysely } = this;
    const row = await kysely
      .insertInto('trainings')
      .values(rowOf(training) as TrainingRow)
      .returning('id')
      .executeTakeFirstOrThrow();
    await kysely
      .deleteFrom('trainings')
      .where('user_id', '=', training.user)
      .where('id', 'in', ({ selectFrom }) =>
        selectFrom('trainings')
          .select('id')
          .where('user_id', '=', training.user)
          .orderBy('id', 'desc')
          .limit(keptMax)
          .offset(keptMax),
      )
      .execute();
    return row.id;
  }

  /** Notes how a training has ended. */
  async end(id: number, training: TrainingRecord): Promise<void> {
    await this.kysely.updateTable('trainings').set(rowOf(training)).where('id', '=', id).execute();
  }

  /** Notes that what ran when the last process ended was cut off; gives whose it was. */
  async interrupt(): Promise<string[]> {
    const rows = await this.kysely
      .updateTable('trainings')
      .set({ status: 'interrupted' })
      .where('status', '=', 'running')
      .returning('user_id')
      .execute();
    return [...new Set(rows.map(({ user_id }) => user_id))];
  }

  /** Newest first. */
  async list(userId: string, limit: number, signal?: AbortSignal): Promise<LoggedTraining[]> {
    const rows = await this.kysely
      .selectFrom('trainings')
      .selectAll()
      .where('user_id', '=', userId)
      .orderBy('id', 'desc')
      .limit(limit)
      .execute({ signal });
    return rows.map(trainingOf);
  }

  async count(userId: string): Promise<number> {
    const row = await this.kysely
      .selectFrom('trainings')
      .select(counted)
      .where('user_id', '=', userId)
      .executeTakeFirstOrThrow();
    return row.count;
  }
}

function rowOf(training: TrainingRecord): Omit<TrainingRow, 'id'> {
  const { user, kind, status, startedAt, endedAt, samples, errors } = training;
  return {
    user_id: user,
    kind,
    status,
    samples,
    epochs: 0,
    started_at: startedAt,
    ended_at: endedAt ?? null,
    errors: errors === undefined ? null : JSON.stringify(errors),
    version: training.version ?? null,
    error: training.error ?? null,
  };
}

function trainingOf(row: TrainingRow): LoggedTraining {
  return {
    id: row.id,
    user: row.user_id,
    kind: row.kind as LoggedTraining['kind'],
    status: row.status as LoggedTraining['status'],
    startedAt: row.started_at,
    endedAt: row.ended_at ?? undefined,
    samples: row.samples,
    errors: row.errors === null ? undefined : errorsOf(row.errors),
    version: row.version ?? undefined,
    error: row.error ?? undefined,
  };
}

/** JSON has no NaN, which stands for what was not measured. */
function errorsOf(text: string): CrossValidatedErrors {
  return JSON.parse(text, (_name, value: unknown) => value ?? Number.NaN) as CrossValidatedErrors;
}
