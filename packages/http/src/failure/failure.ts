import { inspect } from 'node:util';
import { SpillwayError } from 'spillway';
import { errorCodes, isNetworkError, isTimeout } from 'spillway/internal';
import { type HttpErrorCode, httpError } from '../base/errors.ts';

/** The words of a failure that a client is told. */
export interface Failure {
  readonly code: string;
  readonly status: number;
  /** About the request, or a fixed sentence; never a detail of the server. */
  readonly message: string;
  /** The part of the request that breaks a rule, like `body.user.name`. */
  readonly field?: string | undefined;
  /** Nobody foresaw it: its details belong into the log. */
  readonly isUnexpected: boolean;
  readonly headers: Readonly<Record<string, string>>;
}

/** Codes of ours for those of Fastify. */
const codes: Readonly<Record<string, HttpErrorCode>> = {
  FST_ERR_BAD_URL: 'REQUEST_INVALID',
  FST_ERR_CTP_BODY_TOO_LARGE: 'BODY_TOO_LARGE',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'BODY_INVALID',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'BODY_INVALID',
  FST_ERR_CTP_INVALID_JSON_BODY: 'BODY_INVALID',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'BODY_TYPE',
  FST_ERR_MAX_PARAM_LENGTH: 'REQUEST_INVALID',
  FST_ERR_NOT_FOUND: 'NOT_FOUND',
  FST_ERR_ROUTE_MISSING_CONTENT_TYPE: 'BODY_TYPE',
};

/** The sentences for failures whose message is about the server and not about the request. */
const sentences: Readonly<Record<number, string>> = {
  409: 'the request conflicts with what is there',
  429: 'there are too many requests: try again later',
  500: 'the server failed',
  502: 'a service behind this one failed',
  503: 'the server cannot do this now: try again later',
  504: 'the server could not answer in time',
  507: 'the server has no room left',
};

/** Messages of the runtime name lanes, addresses, files and columns, whatever their status. */
const runtimeCodes: ReadonlySet<string> = new Set(errorCodes);

interface BrokenRule {
  readonly instancePath?: string;
  readonly message?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** The properties that an error of any library may have. */
interface Thrown {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly statusCode?: unknown;
  readonly status?: unknown;
  readonly expose?: unknown;
  readonly validation?: readonly BrokenRule[];
  readonly validationContext?: string;
}

/**
 * The failure that a client is told of an error. Deliberate errors keep their code: a
 * `SpillwayError`, Fastify's own, and errors with `expose`. A message is told if it is about the
 * request (4xx) or if the error has `expose: true`; other failures of the server have one fixed
 * sentence for each status. `bodyLimit` is that of the route.
 */
export function failureOf(error: unknown, bodyLimit?: number): Failure {
  if (error instanceof SpillwayError) return told(error);
  const thrown: Thrown = Object(error);
  if (Array.isArray(thrown.validation)) return brokenRule(thrown);
  const { code } = thrown;
  const status = Number(thrown.statusCode ?? thrown.status);
  const name = typeof code === 'string' ? code : '';
  const known = Object.hasOwn(codes, name) ? codes[name] : undefined;
  if (known === 'BODY_TOO_LARGE' && bodyLimit !== undefined) {
    return told(httpError(known, `the body may have ${bodyLimit} bytes at most`));
  }
  if (known !== undefined) return told(httpError(known, textOf(error)));
  const isClients = status >= 400 && status < 500;
  if (isClients && name.startsWith('FST_'))
    return told(httpError('REQUEST_INVALID', textOf(error)));
  if (isClients && thrown.expose === true) {
    const message = textOf(error);
    const told = { code: name || 'REQUEST_INVALID', status, message, headers: {} };
    return { ...told, isUnexpected: false };
  }
  if (isNetworkError(error)) {
    const upstream = isTimeout(error) ? 'UPSTREAM_SLOW' : 'UPSTREAM_UNREACHABLE';
    return { ...told(httpError(upstream, textOf(error))), isUnexpected: true };
  }
  return { ...told(httpError('UNEXPECTED', textOf(error))), isUnexpected: true };
}

/** The message of an error of any make, for the log and the operator. */
export function textOf(error: unknown): string {
  const { message }: Thrown = Object(error);
  return typeof message === 'string' ? message : inspect(error);
}

function told(error: SpillwayError): Failure {
  const { code, status, headers } = error;
  const { expose }: Thrown = Object(error);
  const isAboutRequest = expose === true || (status < 500 && !runtimeCodes.has(code));
  const sentence = sentences[status] ?? 'the server failed';
  const message = isAboutRequest ? error.message : sentence;
  return { code, status, message, headers, isUnexpected: false };
}

function brokenRule({ validation = [], validationContext = 'body' }: Thrown): Failure {
  const [rule] = validation;
  const { missingProperty, additionalProperty, unevaluatedProperty } = rule?.params ?? {};
  const steps = (rule?.instancePath ?? '').split('/').slice(1);
  const names = steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  const last = missingProperty ?? additionalProperty ?? unevaluatedProperty;
  if (typeof last === 'string') names.push(last);
  const field = [validationContext, ...names].join('.');
  const why = typeof missingProperty === 'string' ? 'is missing' : rule?.message;
  return { ...told(httpError('INPUT_INVALID', `${field}: ${why ?? 'is invalid'}`)), field };
}
