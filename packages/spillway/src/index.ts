export {
  type BreakRule,
  consecutiveFailures,
  type FailureShareOptions,
  failureShare,
} from './break-rule.ts';
export { Breaker, type BreakerOptions, type BreakerStats } from './breaker.ts';
export type { BreakerStatus } from './breaker-state.ts';
export { Bucket, type BucketOptions, type BucketStats } from './bucket.ts';
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
export { type RetryOptions, retry } from './retry.ts';
export { RetryBudget, type RetryBudgetOptions, type RetryBudgetStats } from './retry-budget.ts';
export type { Task } from './task.ts';
export { Throttle, type ThrottleOptions, type ThrottleStats } from './throttle.ts';
