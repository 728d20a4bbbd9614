import type { Changes, PurgedTask } from '../world/records.ts';
import type { Run, Task } from '../world/run.ts';
import { actionRow } from './actions-log.ts';
import type { ActionRow } from './fleet-schema.ts';

/** Records that the next transaction writes. */
export class Pending {
  readonly runs: Set<Run> = new Set();
  readonly tasks: Set<Task> = new Set();
  readonly bad: PurgedTask[] = [];
  readonly actions: ActionRow[] = [];
  readonly blocked: Set<string> = new Set();
  decisions = 0;
  readonly done: PromiseWithResolvers<void> = Promise.withResolvers<void>();

  get size(): number {
    const { runs, tasks, bad, actions, blocked } = this;
    return runs.size + tasks.size + bad.length + actions.length + blocked.size;
  }

  add(changes: Changes): void {
    for (const run of changes.runs) this.runs.add(run);
    for (const task of changes.tasks) this.tasks.add(task);
    for (const name of changes.blocked) this.blocked.add(name);
    for (const entry of changes.actions) this.actions.push(actionRow(entry));
    for (const bad of changes.purged) this.bad.push(bad);
    this.decisions += 1;
  }

  /** Takes back what could not be written; it is older than what is here. */
  takeBack(older: Pending): void {
    for (const run of older.runs) this.runs.add(run);
    for (const task of older.tasks) this.tasks.add(task);
    for (const name of older.blocked) this.blocked.add(name);
    // They are written by their places, so that their order does not matter.
    for (const bad of older.bad) this.bad.push(bad);
    this.actions.unshift(...older.actions);
  }
}
