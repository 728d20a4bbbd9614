import type { Clock } from 'spillway';
import type { FieldReader } from '../field-reader.ts';
import type { Changes } from '../scheduling/changes.ts';
import type { Fleet } from '../scheduling/fleet.ts';
import type { FleetStorage } from '../storage/fleet-storage.ts';
import type { SubmissionContext } from '../submission/read-submission.ts';
import type { Users } from '../users/users.ts';

/** What an operator's wishes are fulfilled with; whoever has it is the only one who decides. */
export interface Desk {
  readonly fleet: Fleet;
  readonly storage: FleetStorage;
  readonly users: Users;
  /** UNIX milliseconds. */
  readonly clock: Pick<Clock, 'now'>;
  /** Resolves when the changes are durable. */
  store(changes: Changes): Promise<void>;
  /** The books and nets that a run may name. */
  known(): Promise<Pick<SubmissionContext, 'books' | 'nets'>>;
}

/** One thing that an operator can ask for; the answer is plain JSON. */
export type Operation = (desk: Desk, input: FieldReader) => Promise<unknown>;
