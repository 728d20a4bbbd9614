import { shortName } from '../protocol/worker-info.ts';
import { Recent } from './recency.ts';
import type { Run } from './run.ts';
import type { TaskRecord } from './run-record.ts';
import { gamesOf } from './stats.ts';

/** A share of a run's games that was given to one worker. */
export class Task extends Recent {
  readonly run: Run;
  readonly id: number;
  readonly record: TaskRecord;
  /** The worker's short name when it got the task. */
  readonly name: string;

  constructor(run: Run, id: number, record: TaskRecord) {
    super();
    this.run = run;
    this.id = id;
    this.record = record;
    this.name = shortName(record.worker_info);
  }

  get active(): boolean {
    return this.record.active;
  }

  /** Games played. */
  get games(): number {
    return gamesOf(this.record.stats);
  }
}
