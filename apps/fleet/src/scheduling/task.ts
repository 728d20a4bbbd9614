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

  /** As its run has it: its record may say so a little later. */
  get active(): boolean {
    return this.run.activeTasks.has(this);
  }

  /** Writes into its record that it has ended. */
  close(now: number): void {
    this.record.last_updated = now;
    delete this.record.spsa_params;
    this.record.active = false;
  }

  /** Games played. */
  get games(): number {
    return gamesOf(this.record.stats);
  }
}
