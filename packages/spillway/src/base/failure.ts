// Reads errors of any library: status, `Retry-After`, and whether to try again.

/** The HTTP status an error carries, as `status` or `statusCode`. */
export function statusOf(error: unknown): number | undefined {
  const status = field(error, 'status') ?? field(error, 'statusCode');
  return typeof status === 'number' ? status : undefined;
}

/** Milliseconds to wait before another attempt, by `retryAfterMs` or a `retry-after` header. */
export function retryAfterMsOf(error: unknown): number | undefined {
  const ms = field(error, 'retryAfterMs');
  if (typeof ms === 'number') return ms >= 0 ? ms : undefined;
  return retryAfterMsIn(field(error, 'headers'));
}

/** Milliseconds to wait by a `retry-after` header, which has seconds or a date. */
export function retryAfterMsIn(headers: unknown): number | undefined {
  const asked = header(headers, 'retry-after');
  if (asked === undefined) return undefined;
  // Whole seconds by the standard; some servers send fractions.
  if (/^\d+(\.\d+)?$/.test(asked)) return Number(asked) * 1000;
  // A date is compared with the server's own `date`, so that clocks need not agree.
  const waitMs = Date.parse(asked) - Date.parse(header(headers, 'date') ?? '');
  return Number.isNaN(waitMs) ? undefined : Math.max(0, waitMs);
}

/** True if the caller gave up on purpose, which says nothing about the dependency. */
export function isAbort(error: unknown): boolean {
  return field(error, 'name') === 'AbortError';
}

/** True if the call took too long, which does say something about the dependency. */
export function isTimeout(error: unknown): boolean {
  return field(error, 'name') === 'TimeoutError' || field(error, 'code') === 'DEADLINE';
}

/** True if the same call would fail again: 4xx other than 408 and 429, or it says so. */
export function isFinal(error: unknown): boolean {
  const retryable = field(error, 'retryable');
  if (typeof retryable === 'boolean') return !retryable;
  const status = statusOf(error) ?? 500;
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

const networkCodes: ReadonlySet<unknown> = new Set(
  `EAI_AGAIN ECONNABORTED ECONNREFUSED ECONNRESET EHOSTUNREACH ENETUNREACH ENOTFOUND EPIPE ETIMEDOUT
  UND_ERR_BODY_TIMEOUT UND_ERR_CONNECT_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_SOCKET`.split(/\s+/),
);

/** True if no answer came: no connection, or too late. `fetch` puts the code into the cause. */
export function isNetworkError(error: unknown): boolean {
  return (
    isTimeout(error) ||
    networkCodes.has(field(error, 'code')) ||
    networkCodes.has(field(field(error, 'cause'), 'code'))
  );
}

/** One property of a value that may be anything. */
export function field(value: unknown, name: string): unknown {
  return typeof value === 'object' ? (value as Record<string, unknown> | null)?.[name] : undefined;
}

function header(headers: unknown, name: string): string | undefined {
  const value = headers instanceof Headers ? headers.get(name) : field(headers, name);
  return typeof value === 'string' ? value : undefined;
}
