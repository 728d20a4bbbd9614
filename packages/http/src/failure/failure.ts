import { SpillwayError } from 'spillway';
import { failureOf as anyFailureOf, type Failure, textOf, toldFailure } from 'spillway/internal';
import { type HttpErrorCode, httpError } from '../base/errors.ts';

const codes: Readonly<Record<string, HttpErrorCode>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'BODY_TOO_LARGE',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'BODY_INVALID',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'BODY_INVALID',
  FST_ERR_CTP_INVALID_JSON_BODY: 'BODY_INVALID',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'BODY_TYPE',
  FST_ERR_NOT_FOUND: 'NOT_FOUND',
  FST_ERR_ROUTE_MISSING_CONTENT_TYPE: 'BODY_TYPE',
  FST_FIELDS_LIMIT: 'BODY_TOO_LARGE',
  FST_FILES_LIMIT: 'BODY_TOO_LARGE',
  FST_INVALID_MULTIPART_CONTENT_TYPE: 'BODY_TYPE',
  FST_MP_PREMATURE_CLOSE: 'BODY_INVALID',
  FST_PARTS_LIMIT: 'BODY_TOO_LARGE',
  FST_REQ_FILE_TOO_LARGE: 'BODY_TOO_LARGE',
};

/** Messages of @fastify/busboy for a form that is malformed or cut short: they have no code. */
const brokenForm =
  /^(Multipart: Boundary not|The needle cannot|Unexpected end of multi|\w+ terminated early due)/;

interface Thrown {
  readonly code?: unknown;
  readonly statusCode?: unknown;
  readonly validation?: readonly {
    readonly instancePath?: string;
    readonly message?: string;
    readonly params?: Readonly<Record<string, unknown>>;
  }[];
  readonly validationContext?: string;
}

/** The failure as the client is told it, with a code of ours; `bodyLimit` is that of the route. */
export function failureOf(error: unknown, bodyLimit?: number): Failure {
  if (error instanceof SpillwayError) return toldFailure(error);
  const thrown: Thrown = Object(error);
  if (Array.isArray(thrown.validation)) return brokenRule(thrown);
  const text = textOf(error);
  const code = String(thrown.code ?? '');
  const status = Number(thrown.statusCode);
  const isFastifys = code.startsWith('FST_') && status >= 400 && status < 500;
  const isForm = code === '' && error instanceof Error && brokenForm.test(text);
  const other = isForm ? 'BODY_INVALID' : isFastifys && 'REQUEST_INVALID';
  const known = (Object.hasOwn(codes, code) && codes[code]) || other;
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE' && bodyLimit !== undefined) {
    const message = `the body may have ${bodyLimit} bytes at most`;
    return toldFailure(httpError('BODY_TOO_LARGE', message));
  }
  return known ? toldFailure(httpError(known, text)) : anyFailureOf(error);
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

function brokenRule({ validation = [], validationContext = 'body' }: Thrown): Failure {
  const { params = {}, instancePath = '', message = 'is invalid' } = validation[0] ?? {};
  const { missingProperty, additionalProperty, unevaluatedProperty } = params;
  const steps = instancePath.split('/').slice(1);
  const names = steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  const last = missingProperty ?? additionalProperty ?? unevaluatedProperty;
  if (typeof last === 'string') names.push(last);
  const field = [validationContext, ...names].join('.');
  const why = typeof missingProperty === 'string' ? 'is missing' : message;
  return { ...toldFailure(httpError('INPUT_INVALID', `${field}: ${why}`)), field };
}
