export { type HttpErrorCode, httpError, httpErrorCodes } from './errors.ts';
export { type RecentError, RecentErrors, type RecentErrorsOptions } from './recent-errors.ts';
