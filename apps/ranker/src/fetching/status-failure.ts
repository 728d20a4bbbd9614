import type { IncomingHttpHeaders } from 'node:http';
import { retryAfterMsIn } from 'spillway/internal';
import { UnavailableError, type UnavailableReason } from './unavailable.ts';

/** The longest pause that a host may ask for. */
const retryAfterMsMax = 3_600_000;

const reasons: Readonly<Record<number, UnavailableReason>> = {
  401: 'blocked',
  402: 'paywall',
  403: 'blocked',
  404: 'not_found',
  407: 'blocked',
  410: 'not_found',
  413: 'too_large',
  429: 'blocked',
  451: 'blocked',
};

/** The reason why an answer of this status has no text; undefined if it may have one. */
export function statusFailure(
  status: number,
  headers: IncomingHttpHeaders,
): UnavailableError | undefined {
  if (status >= 200 && status < 300) return undefined;
  // Services that challenge browsers answer 503 where others answer 403.
  const isChallenge = status === 503 && 'cf-mitigated' in headers;
  const reason = isChallenge ? 'blocked' : reasonOf(status);
  const isPassing = [502, 503, 504].includes(status) && headers['retry-after'] === undefined;
  return new UnavailableError(reason, `answers ${status}`, isPassing && !isChallenge);
}

function reasonOf(status: number): UnavailableReason {
  return reasons[status] ?? (status >= 400 && status < 500 ? 'blocked' : 'server_error');
}

/** The pause that a host asks for, in milliseconds; undefined if it asks for none. */
export function retryAfterMs(headers: IncomingHttpHeaders): number | undefined {
  const askedMs = retryAfterMsIn(headers);
  return askedMs === undefined ? undefined : Math.min(askedMs, retryAfterMsMax);
}

/** The failure for a broken connection, name or certificate. */
export function wireFailure(error: unknown): UnavailableError {
  const { code = '', message = String(error) } = Object(error);
  if (/^(Z_|ERR_.*BROTLI|ERR__ERROR)/.test(code)) {
    return new UnavailableError('server_error', `its compression is broken: ${message}`);
  }
  const isTimeout = /TIMEOUT|TIMEDOUT/.test(code);
  const isPassing = /^(ECONNRESET|ECONNREFUSED|EPIPE|UND_ERR_SOCKET)$/.test(code);
  const what = isTimeout ? 'does not answer' : 'cannot be reached';
  return new UnavailableError(
    isTimeout ? 'timeout' : 'server_error',
    `${what}: ${code || message}`,
    isPassing,
  );
}
