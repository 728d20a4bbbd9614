// What the sibling packages and the services build on. Not part of the public interface: it may
// change in any release.

export {
  type Failure,
  failureBody,
  failureOf,
  failureType,
  textOf,
  toldFailure,
} from './adapter/failure.ts';
export { LastStretch, loopWatch } from './adapter/loop-watch.ts';
export { onceAborted, untilAborted } from './base/abort.ts';
export { check, checkInteger, checkNumber } from './base/check.ts';
export { type ErrorMaker, errorCodes, errorMaker, inDoubt } from './base/errors.ts';
export { isTimeout, retryAfterMsIn } from './base/failure.ts';
export { jsonText } from './base/json.ts';
export {
  anything,
  callback,
  clockRule,
  didYouMean,
  type Filled,
  flag,
  having,
  instance,
  integer,
  laneRule,
  type MaybeRule,
  maybe,
  nearest,
  nested,
  number,
  oneOf,
  or,
  positive,
  type Rule,
  type Rules,
  type Settled,
  settle,
  storeRule,
  word,
} from './base/options.ts';
export { Closing } from './base/part.ts';
export { callHook } from './base/tell.ts';
export { tracedCommit, tracing } from './base/trace.ts';
export {
  renameDurably,
  replaceFile,
  syncFolder,
} from './document/atomic-file.ts';
export { admit } from './lane/lane.ts';
export { Histogram } from './meter/histogram.ts';
export { Meter } from './meter/meter.ts';
export { StopSignal, type StopSignalOptions } from './service/stop-signal.ts';
export {
  chargeRate,
  type RateGrant,
  type RateState,
  SlidingWindow,
} from './shared/rate-record.ts';
export { type Decision, foreignForm, StoreLink, type TimedReading } from './shared/store-link.ts';
export { nodeSqlite } from './sqlite/node-sqlite.ts';
export { SeenTime } from './store/seen-time.ts';
export { commitStatements } from './store/sqlite-store.ts';
export { checkStoreChanges, checkStoreList, checkStoreNames } from './store/store.ts';
export { Watchers } from './store/watchers.ts';
export { Deadlines } from './wait/deadlines.ts';
export { Ring, type RingMember } from './wait/ring.ts';
export { nextTurn } from './wait/turn-budget.ts';
export { pause } from './wait/wait-queue.ts';
export { adviseLane } from './watch/advice.ts';
export { partMetrics } from './watch/metrics.ts';
export { plain } from './watch/plain.ts';
