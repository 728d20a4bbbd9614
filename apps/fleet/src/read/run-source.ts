import type { BadTaskRecord, RunRecord, TaskRecord } from '../scheduling/run-record.ts';
import type { FinishedQuery } from './finished-query.ts';

/** Where the read API finds runs and their log; ids are in small letters. */
export interface RunSource {
  unfinished(signal?: AbortSignal): Promise<Iterable<RunRecord>>;
  run(id: string, signal?: AbortSignal): Promise<RunRecord | undefined>;
  task(id: string, number: number, signal?: AbortSignal): Promise<TaskRecord | undefined>;
  badTask(id: string, number: number, signal?: AbortSignal): Promise<BadTaskRecord | undefined>;
  /** One page, the newest first. */
  finished(query: FinishedQuery, signal?: AbortSignal): Promise<Iterable<RunRecord>>;
  /** What fits a query like those of MongoDB, the newest first; throws for what it cannot do. */
  actions(query: unknown, signal?: AbortSignal): Promise<readonly object[]>;
}
