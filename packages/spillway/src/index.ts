export {
  Backlog,
  type BacklogCloseOptions,
  type BacklogOptions,
  type BacklogStats,
  type DropReason,
} from './backlog.ts';
export { type Clock, systemClock } from './clock.ts';
export { type Deadline, deadline } from './deadline.ts';
export {
  type ErrorCode,
  errorCodes,
  type Fault,
  SpillwayError,
  type SpillwayErrorOptions,
} from './errors.ts';
export { type Random, seededRandom, systemRandom } from './random.ts';
export {
  type Part,
  type PartState,
  Service,
  type ServiceOptions,
  type ServiceState,
  type ServiceStats,
} from './service.ts';
export { Snapshot, type SnapshotOptions, type SnapshotStats, type View } from './snapshot.ts';
export type { Task } from './task.ts';
