import { inspect } from 'node:util';
import { errorCodes, SpillwayError } from '../base/errors.ts';
import { field, isNetworkError, isTimeout, statusOf } from '../base/failure.ts';

/** The parts of a failure that a client may see. */
export interface Failure {
  readonly code: string;
  readonly status: number;
  /** About the request, or a fixed sentence; never a detail of the server. */
  readonly message: string;
  /** The part of the request that breaks a rule, like `body.user.name`. */
  readonly field?: string | undefined;
  /** True for an error that nobody threw on purpose: its details belong in the log. */
  readonly isUnexpected: boolean;
  readonly headers: Readonly<Record<string, string>>;
}

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

/**
 * The failure that a client sees for an error. Deliberate errors keep their code: `SpillwayError`s,
 * and errors with a status of 4xx and `expose: true`. The message is passed on if it is about the
 * request (4xx) or has `expose: true`; otherwise the client gets a fixed sentence for the status.
 */
export function failureOf(error: unknown): Failure {
  if (error instanceof SpillwayError) return toldFailure(error);
  const status = statusOf(error) ?? 500;
  const code = field(error, 'code');
  if (status >= 400 && status < 500 && field(error, 'expose') === true) {
    const name = typeof code === 'string' ? code : 'REQUEST_INVALID';
    return { code: name, status, message: textOf(error), headers: {}, isUnexpected: false };
  }
  const upstream = isTimeout(error) ? 'UPSTREAM_SLOW' : 'UPSTREAM_UNREACHABLE';
  const kind = isNetworkError(error) ? upstream : 'UNEXPECTED';
  return { ...toldFailure(new SpillwayError(kind, textOf(error))), isUnexpected: true };
}

/** The message of an error of any make, for the log and the operator. */
export function textOf(error: unknown): string {
  const message = field(error, 'message');
  return typeof message === 'string' ? message : inspect(error);
}

/** The failure of a deliberate error. */
export function toldFailure(error: SpillwayError): Failure {
  const { code, status, headers } = error;
  const isExposed = field(error, 'expose') === true;
  const isAboutRequest = isExposed || (status < 500 && !runtimeCodes.has(code));
  const sentence = sentences[status] ?? 'the server failed';
  const message = isAboutRequest ? error.message : sentence;
  return { code, status, message, headers, isUnexpected: false };
}

/** The JSON body of a failure, the same in every framework; `id` is that of the request. */
export function failureBody({ code, message, field }: Failure, id?: string): string {
  return JSON.stringify({ ok: false, error: { code, message, field, id } });
}

export const failureType = 'application/json; charset=utf-8';
