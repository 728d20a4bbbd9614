import type { Action } from './actions.ts';
import type { Run } from './run.ts';
import type { BadTaskRecord } from './run-record.ts';
import type { Task } from './task.ts';

/** A task that was set aside; `id` is its place in the run's list of bad tasks. */
export interface PurgedTask {
  readonly run: Run;
  readonly id: number;
  readonly record: BadTaskRecord;
}

/** All that one decision changed, and nothing else: what must be stored before it is told. */
export class Changes {
  readonly runs: Set<Run> = new Set();
  readonly tasks: Set<Task> = new Set();
  readonly purged: PurgedTask[] = [];
  readonly actions: Action[] = [];
  /** Blocked workers that asked again. */
  readonly blocked: Set<string> = new Set();
  /** Tasks that only said they are alive: a loss harms nothing, so these may be stored later. */
  readonly beats: Set<Task> = new Set();
}

/** An answer, and what it changed. */
export interface Decision<Reply> {
  readonly reply: Reply;
  readonly changes: Changes;
}
