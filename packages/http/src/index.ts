export { type AdmissionOptions, admission } from './admission.ts';
export { type BodyGuardOptions, bodyGuard } from './body-guard.ts';
export {
  type Domain,
  type DomainsOptions,
  type DomainsStats,
  domains,
  type RouteStats,
} from './domain.ts';
export { type ErrorAnswersOptions, errorAnswers } from './error-answer.ts';
export { type HttpErrorCode, httpError, httpErrorCodes } from './errors.ts';
export { type Failure, failureOf } from './failure.ts';
export { failurePage, wantsPage } from './failure-page.ts';
export { methods } from './methods.ts';
export { type RecentError, RecentErrors, type RecentErrorsOptions } from './recent-errors.ts';
export type { RequestPermit } from './request-permit.ts';
export { buildValidator } from './schema.ts';
export { type SecurityHeadersOptions, securityHeaders } from './security-headers.ts';
export { createServer, HttpServer } from './server.ts';
export type { ServerOptions } from './server-options.ts';
export { type Stopper, type StoppingOptions, stopping } from './stopping.ts';
