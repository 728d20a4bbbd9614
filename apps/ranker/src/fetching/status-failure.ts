import type { IncomingHttpHeaders } from 'node:http';
import { UnavailableError, type UnavailableReason } from './unavailable.ts';

/** A host is never left alone for longer than this on its own word. */
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

/** Why an answer with that status is of no use; undefined if it may be of use. */
export function statusFailure(
  status: number,
  headers: IncomingHttpHeaders,
): UnavailableError | undefined {
  if (status >= 200 && status < 300) return undefined;
  // Those who challenge browsers say 503 where others would say 403.
  const isChallenge = status === 503 && 'cf-mitigated' in headers;
  const reason = isChallenge ? 'blocked' : reasonOf(status);
  const isPassing = [502, 503, 504].includes(status) && headers['retry-after'] === undefined;
  return new UnavailableError(reason, `answers ${status}`, isPassing && !isChallenge);
}

function reasonOf(status: number): UnavailableReason {
  return reasons[status] ?? (status >= 400 && status < 500 ? 'blocked' : 'server_error');
}

/** How long a host asked to be left alone; undefined if it did not say. */
export function retryAfterMs(headers: IncomingHttpHeaders): number | undefined {
  const asked = headers['retry-after'];
  if (asked === undefined) return undefined;
  // A date is compared with the server's own, so that no two clocks have to agree.
  const ms = /^\d+$/.test(asked)
    ? Number(asked) * 1000
    : Date.parse(asked) - Date.parse(headers.date ?? '');
  return ms >= 0 ? Math.min(ms, retryAfterMsMax) : undefined;
}

/** What a broken connection, name or certificate means. */
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
