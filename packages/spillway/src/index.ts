export {
  Backlog,
  type BacklogOptions,
  type BacklogStats,
  type DropReason,
} from './background/backlog.ts';
export { type Clock, systemClock, wallClock } from './base/clock.ts';
export { type Deadline, deadline } from './base/deadline.ts';
export {
  type ErrorCode,
  type Fault,
  SpillwayError,
  type SpillwayErrorOptions,
} from './base/errors.ts';
export type { Json } from './base/json.ts';
export type { CloseOptions, Part } from './base/part.ts';
export { type Random, seededRandom, systemRandom } from './base/random.ts';
export type { Runner, RunOptions, Task } from './base/task.ts';
export {
  type Change,
  Document,
  type DocumentOptions,
  type DocumentStats,
} from './document/document.ts';
export {
  FileLock,
  type FileLockOptions,
  type FileLockStats,
  type HeldLock,
} from './document/file-lock.ts';
export type { HarvestOptions } from './harvest/harvest.ts';
export { Harvest, type HarvestStats } from './harvest/harvest.ts';
export type { HarvestOutcome, HarvestSourceStats, HarvestStatus } from './harvest/run.ts';
export {
  type HarvestAnswer,
  type HarvestBatch,
  type HarvestCheckpoint,
  type HarvestFence,
  type HarvestGap,
  type HarvestPage,
  type HarvestSink,
  type HarvestSource,
  type RangeSourceOptions,
  rangeSource,
  storeSink,
} from './harvest/source.ts';
export { Gate, type GateOptions, type GateStats } from './lane/gate.ts';
export { Lane } from './lane/lane.ts';
export type { LaneOptions, LaneStats } from './lane/options.ts';
export type { Entry, Permit } from './lane/permit.ts';
export type { CodelOptions } from './lane/queue.ts';
export type { Limit, Outcome, Sample } from './limit/limit.ts';
export type { Quantiles } from './meter/histogram.ts';
export type { Ending, MeterStats, Refusal } from './meter/meter.ts';
export {
  type BreakRule,
  consecutiveFailures,
  type FailureShareOptions,
  failureShare,
} from './outbound/break-rule.ts';
export { Breaker, type BreakerOptions, type BreakerStats } from './outbound/breaker.ts';
export type { BreakerStatus } from './outbound/breaker-state.ts';
export { Bucket, type BucketOptions, type BucketStats } from './outbound/bucket.ts';
export {
  Outbound,
  type OutboundOptions,
  type OutboundStats,
  outbound,
} from './outbound/outbound.ts';
export { type Retried, Retry, type RetryOptions, type RetryStats } from './outbound/retry.ts';
export {
  RetryBudget,
  type RetryBudgetOptions,
  type RetryBudgetStats,
} from './outbound/retry-budget.ts';
export { type Stack, stack } from './outbound/stack.ts';
export type { PoolOptions, PoolStats, RecycleOptions } from './pool/options.ts';
export { Pool } from './pool/pool.ts';
export { Snapshot, type SnapshotOptions, type SnapshotStats, type View } from './pool/snapshot.ts';
export type { PoolRunOptions } from './pool/task.ts';
export {
  type SetupContext,
  type Transfer,
  transfer,
  type WorkerContext,
} from './pool/thread/worker-context.ts';
export type { Thread, ThreadEvents, ThreadOptions, Threads } from './pool/threads.ts';
export type { WorkerState, WorkerStats } from './pool/worker.ts';
export {
  type PartState,
  Service,
  type ServiceOptions,
  type ServiceState,
  type ServiceStats,
} from './service/service.ts';
export type { SharedGateStats, SharedPermit } from './shared/gate-record.ts';
export { fenced, Lease, type LeaseOptions, type LeaseStats } from './shared/lease.ts';
export {
  SharedBreaker,
  type SharedBreakerOptions,
  type SharedBreakerStats,
} from './shared/shared-breaker.ts';
export {
  SharedBucket,
  type SharedBucketOptions,
  type SharedBucketStats,
} from './shared/shared-bucket.ts';
export { SharedGate, type SharedGateOptions } from './shared/shared-gate.ts';
export type { SharedOptions } from './shared/store-link.ts';
export { SqliteFile, type SqliteFileOptions, type SqliteFileStats } from './sqlite/file.ts';
export type { SqlResult, SqlStatement, SqlValue } from './sqlite/message.ts';
export type { SqliteTransaction } from './sqlite/transaction.ts';
export {
  MemoryStore,
  type MemoryStoreOptions,
  type MemoryStoreStats,
} from './store/memory-store.ts';
export { type OpenStoreOptions, openStore } from './store/open-store.ts';
export {
  SqliteStore,
  type SqliteStoreOptions,
  type SqliteStoreStats,
} from './store/sqlite-store.ts';
export type {
  Decided,
  Durability,
  NamedRecord,
  Store,
  StoreApplied,
  StoreCallOptions,
  StoreChange,
  StoreCommit,
  StoreCommitOptions,
  StoreDecision,
  StoredRecord,
  StoreListOptions,
  StoreNews,
  StoreReading,
  StoreWatch,
} from './store/store.ts';
export {
  Batch,
  type BatchEntry,
  type BatchGroup,
  type BatchOptions,
  type BatchStats,
} from './wait/batch.ts';
export { BoundedMap, type BoundedMapOptions } from './wait/bounded-map.ts';
export { type Every, type EveryOptions, type EveryStats, every } from './wait/every.ts';
export { Keyed, type KeyedOptions, type KeyedStats } from './wait/keyed.ts';
export { type MapOptions, map } from './wait/map.ts';
export { SingleFlight } from './wait/single-flight.ts';
export {
  exposition,
  expositionType,
  type MetricFamily,
  type MetricSample,
} from './watch/exposition.ts';
export { metrics } from './watch/metrics.ts';
export { Panel, type Reading, type Watched } from './watch/panel.ts';
