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
  FST_ERR_CTP_BODY_TOO_LARGE: 'BODY_TOO_LARGE',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'BODY_INVALID',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'BODY_INVALID',
  FST_ERR_CTP_INVALID_JSON_BODY: 'BODY_INVALID',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'BODY_TYPE',
  FST_ERR_NOT_FOUND: 'NOT_FOUND',
  FST_ERR_ROUTE_MISSING_CONTENT_TYPE: 'BODY_TYPE',
};

/** The sentences for failures whose message is about the server and not about the request. */
const sentences: Readonly<Record<number, string>> = {
  409: 'the request conflicts with what is there',
  429: 'there are too many requests: try again later',
  502: 'a service behind this one failed',
  503: 'the server cannot do this now: try again later',
  504: 'the server could not answer in time',
  507: 'the server has no room left',
};

/** Messages of the runtime name lanes, addresses, files and columns, whatever their status. */
const runtimeCodes: ReadonlySet<string> = new Set(errorCodes);

/** The properties that an error of any library may have. */
interface Thrown {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly statusCode?: unknown;
  readonly status?: unknown;
  readonly expose?: unknown;
  readonly validation?: readonly {
    readonly instancePath?: string;
    readonly message?: string;
    readonly params?: Readonly<Record<string, unknown>>;
  }[];
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
  const text = textOf(error);
  const code = String(thrown.code ?? '');
  const status = Number(thrown.statusCode ?? thrown.status);
  const isClients = status >= 400 && status < 500;
  const isFastifys = code.startsWith('FST_') && isClients;
  const known = (Object.hasOwn(codes, code) && codes[code]) || (isFastifys && 'REQUEST_INVALID');
  if (known === 'BODY_TOO_LARGE' && bodyLimit !== undefined) {
    return told(httpError(known, `the body may have ${bodyLimit} bytes at most`));
  }
  if (known) return told(httpError(known, text));
  if (isClients && thrown.expose === true) {
    const own = { code: code || 'REQUEST_INVALID', status, message: text, headers: {} };
    return { ...own, isUnexpected: false };
  }
  const upstream = isTimeout(error) ? 'UPSTREAM_SLOW' : 'UPSTREAM_UNREACHABLE';
  const failed = isNetworkError(error) ? upstream : 'UNEXPECTED';
  return { ...told(httpError(failed, text)), isUnexpected: true };
}

/** The message of an error of any make, for the log and the operator. */
export function textOf(error: unknown): string {
  const { message }: Thrown = Object(error);
  return typeof message === 'string' ? message : inspect(error);
}

/** True if the client wants a page: it names HTML and prefers nothing else to it. */
export function wantsPage(accept: string | undefined): boolean {
  if (accept === undefined) return false;
  const liking = preference(accept, 'text/html');
  return liking > 0 && liking >= preference(accept, 'application/json');
}

function preference(accept: string, type: string): number {
  for (const part of accept.split(',')) {
    const [name, ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
    if (name !== type) continue;
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    return weight === undefined ? 1 : Number(weight.slice(2));
  }
  return 0;
}

function told(error: SpillwayError): Failure {
  const { code, status, headers } = error;
  const { expose }: Thrown = Object(error);
  const isAboutRequest = expose === true || (status < 500 && !runtimeCodes.has(code));
  const message = isAboutRequest ? error.message : (sentences[status] ?? 'the server failed');
  return { code, status, message, headers, isUnexpected: false };
}

function brokenRule({ validation = [], validationContext = 'body' }: Thrown): Failure {
  const { params = {}, instancePath = '', message = 'is invalid' } = validation[0] ?? {};
  const { missingProperty, additionalProperty, unevaluatedProperty } = params;
  const steps = instancePath.split('/').slice(1);
  const names = steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  const last = missingProperty ?? additionalProperty ?? unevaluatedProperty;
  if (typeof last === 'string') names.push(last);
  const field = [validationContext, ...names].join('.');
  const why = typeof missingProperty === 'string' ? 'is missing' : message;
  return { ...told(httpError('INPUT_INVALID', `${field}: ${why}`)), field };
}
