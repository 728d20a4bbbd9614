export { type HttpErrorCode, httpError, httpErrorCodes } from './errors.ts';
