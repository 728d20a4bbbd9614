export { type BlockedUsersOptions, blockedUsers } from './blocked.ts';
export { type CsrfOptions, csrf } from './csrf.ts';
export { type HttpErrorCode, httpError, httpErrorCodes } from './errors.ts';
export { type IdempotencyOptions, idempotency } from './idempotency.ts';
export type { IdempotencyStats } from './idempotency-ledger.ts';
export { type PrimaryOnlyOptions, primaryOnly } from './primary-only.ts';
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
export { type SessionOptions, sessionOf, sessions } from './session.ts';
export { type FlashMessage, Session } from './session-data.ts';
export type { SigningKeys } from './signer.ts';
