import { randomUUID } from 'node:crypto';
import { inspect } from 'node:util';
import { SpillwayError } from 'spillway';
import { type HttpErrorCode, httpError } from '../base/errors.ts';

/** What a client is told of a failure. */
export interface Failure {
  readonly code: string;
  readonly status: number;
  readonly message: string;
  /** Which part of the request breaks a rule, like `body.user.name`. */
  readonly field?: string | undefined;
  /** Names an unexpected failure, here and in the log. */
  readonly id?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

/** What Fastify says, in our words. */
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

interface BrokenRule {
  readonly instancePath?: string;
  readonly message?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** As much as is known of an error of whatever make. */
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
 * What to tell of an error. Those made to be told keep their code: a `SpillwayError`, Fastify's
 * own, and those that say so by `expose`. Of any other nothing is told but an id: its status and
 * its message may come from a service behind this one. `bodyLimit` is what the route takes.
 */
export function failureOf(error: unknown, bodyLimit?: number): Failure {
  if (error instanceof SpillwayError) return told(error);
  const thrown: Thrown = Object(error);
  if (Array.isArray(thrown.validation)) return brokenRule(thrown);
  const { code } = thrown;
  const status = Number(thrown.statusCode ?? thrown.status);
  const name = typeof code === 'string' ? code : 'REQUEST_REFUSED';
  const known = Object.hasOwn(codes, name) ? codes[name] : undefined;
  if (known === 'BODY_TOO_LARGE' && bodyLimit !== undefined) {
    return told(httpError(known, `the body may have ${bodyLimit} bytes at most`));
  }
  if (known !== undefined) return told(httpError(known, textOf(error)));
  const isMeant = name.startsWith('FST_') || thrown.expose === true;
  if (isMeant && status >= 400 && status < 500) {
    return { code: name, status, message: textOf(error), headers: {} };
  }
  const id = randomUUID();
  return { ...told(httpError('UNEXPECTED', `something went wrong: ${id}`)), id };
}

/** What an error of whatever make says, for the log and the operator. */
export function textOf(error: unknown): string {
  const { message }: Thrown = Object(error);
  return typeof message === 'string' ? message : inspect(error);
}

function told({ code, status, message, headers }: SpillwayError): Failure {
  return { code, status, message, headers };
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
