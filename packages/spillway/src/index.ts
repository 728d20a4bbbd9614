export { type Clock, systemClock } from './clock.ts';
export { type Deadline, deadline } from './deadline.ts';
export {
  type ErrorCode,
  errorCodes,
  type Fault,
  SpillwayError,
  type SpillwayErrorOptions,
} from './errors.ts';
export {
  FixedLimit,
  type Limit,
  type LimitOptions,
  type Outcome,
  type Sample,
} from './limit.ts';
export { AimdLimit, type AimdLimitOptions, type AimdLimitStats } from './limit-aimd.ts';
export { GradientLimit, type GradientLimitStats } from './limit-gradient.ts';
export { type Random, seededRandom, systemRandom } from './random.ts';
export type { Task } from './task.ts';
