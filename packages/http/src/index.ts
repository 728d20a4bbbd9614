export { type HttpErrorCode, httpError, httpErrorCodes } from './errors.ts';
export { type RateGuardOptions, rateGuard } from './rate-guard.ts';
export { addressKey, type RateKeyPart, type UserOf } from './rate-key.ts';
export {
  type RateClaim,
  type RateDecision,
  RateLimiter,
  type RateLimiterOptions,
} from './rate-limiter.ts';
export type { RateVerdict } from './rate-memory.ts';
export { type NamedRule, namedRule, type RateMode, type RateRule } from './rate-rule.ts';
