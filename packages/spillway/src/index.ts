export { untilAborted } from './abort.ts';
export {
  Backlog,
  type BacklogOptions,
  type BacklogStats,
  type DropReason,
} from './backlog.ts';
export {
  type BreakRule,
  consecutiveFailures,
  type FailureShareOptions,
  failureShare,
} from './break-rule.ts';

export { Breaker, type BreakerOptions } from './breaker.ts';
export type { BreakerStats } from './breaker-line.ts';
export type { BreakerStatus } from './breaker-state.ts';
export { Bucket, type BucketOptions, type BucketStats } from './bucket.ts';
export { check, checkInteger, checkNumber } from './check.ts';
export { type Clock, systemClock, wallClock } from './clock.ts';
export type { CloseOptions } from './closing.ts';
export { type Deadline, deadline } from './deadline.ts';
export { type Change, Document, type DocumentOptions, type DocumentStats } from './document.ts';
export {
  type ErrorCode,
  type ErrorMaker,
  errorCodes,
  errorMaker,
  type Fault,
  SpillwayError,
  type SpillwayErrorOptions,
} from './errors.ts';
export { FileLock, type FileLockOptions, type FileLockStats } from './file-lock.ts';
export { Gate, type GateOptions, type GateStats } from './gate.ts';
export { Harvest, type HarvestStats } from './harvest.ts';
export { HarvestLimit } from './harvest-limit.ts';
export type { HarvestOptions } from './harvest-options.ts';
export type { HarvestOutcome, HarvestSourceStats, HarvestStatus } from './harvest-run.ts';
export {
  type HarvestBatch,
  type HarvestCheckpoint,
  type HarvestFence,
  type HarvestGap,
  type HarvestSink,
  storeSink,
} from './harvest-sink.ts';
export {
  type CursorSourceOptions,
  cursorSource,
  type HarvestAnswer,
  type HarvestPage,
  type HarvestSource,
  type RangeSourceOptions,
  rangeSource,
} from './harvest-source.ts';
export { Histogram, type Quantiles } from './histogram.ts';
export { inDoubt } from './in-doubt.ts';
export { Lane } from './lane.ts';
export type { LaneOptions } from './lane-options.ts';
export type { CodelOptions, Entry } from './lane-queue.ts';
export type { LaneStats } from './lane-stats.ts';
export { fenced, Lease, type LeaseOptions, type LeaseStats } from './lease.ts';
export {
  FixedLimit,
  type Limit,
  type LimitOptions,
  type Outcome,
  type Sample,
} from './limit.ts';
export { AimdLimit, type AimdLimitOptions, type AimdLimitStats } from './limit-aimd.ts';
export { GradientLimit, type GradientLimitStats } from './limit-gradient.ts';
export { MemoryStore } from './memory-store.ts';
export type { MeterStats, Refusal } from './meter.ts';
export type { Permit } from './permit.ts';
export { Pool, type PoolCloseOptions } from './pool.ts';
export type { WorkerState, WorkerStats } from './pool-member.ts';
export type { PoolOptions, PoolStats } from './pool-options.ts';
export type { RecycleOptions } from './pool-recycle.ts';
export type { RunOptions } from './pool-task.ts';
export type { Thread, ThreadEvents, Threads } from './pool-thread.ts';
export { type Random, seededRandom, systemRandom } from './random.ts';
export { type RetryOptions, retry } from './retry.ts';
export { RetryBudget, type RetryBudgetOptions, type RetryBudgetStats } from './retry-budget.ts';
export {
  type Part,
  type PartState,
  Service,
  type ServiceOptions,
  type ServiceState,
  type ServiceStats,
} from './service.ts';
export {
  SharedBreaker,
  type SharedBreakerOptions,
  type SharedBreakerStats,
} from './shared-breaker.ts';
export { SharedBucket, type SharedBucketOptions, type SharedBucketStats } from './shared-bucket.ts';
export { Snapshot, type SnapshotOptions, type SnapshotStats, type View } from './snapshot.ts';
export { SqliteFile, type SqliteFileOptions, type SqliteFileStats } from './sqlite-file.ts';
export { SqliteStore } from './sqlite-store.ts';
export type { SqliteTransaction } from './sqlite-transaction.ts';
export type { SqlResult, SqlStatement, SqlValue } from './sqlite-wire.ts';
export {
  checkStoreChanges,
  checkStoreNames,
  type Json,
  jsonText,
  type NamedRecord,
  type Store,
  type StoreChange,
  type StoreCommit,
  type StoredRecord,
  type StoreReading,
} from './store.ts';
export {
  type Committed,
  type Decision,
  type SharedOptions,
  type Sighting,
  StoreLink,
  type Updated,
} from './store-link.ts';
export type { Task } from './task.ts';
export { Throttle, type ThrottleOptions, type ThrottleStats } from './throttle.ts';
export { nextTurn } from './turn.ts';
export {
  type SetupContext,
  type Transfer,
  transfer,
  type WorkerContext,
} from './worker-context.ts';
export { WriteBehind } from './write-behind.ts';
export type {
  WriteBehindOptions,
  WriteBehindStats,
} from './write-behind-options.ts';
