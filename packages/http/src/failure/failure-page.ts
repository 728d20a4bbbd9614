import { errorPage } from '../page/kit/error-page.ts';
import type { Failure } from './failure.ts';

/** Number of the request, to quote, and its method. */
export interface FailedRequest {
  readonly id: string;
  readonly method: string;
}

/**
 * A failure for a person who sees it in a browser. A request that only reads is tried again by the
 * page itself when `Retry-After` says so.
 */
export function failurePage(failure: Failure, request: FailedRequest): string {
  const { code, status, message: detail, headers } = failure;
  const seconds = Number(headers['retry-after']);
  const retrySeconds = request.method === 'GET' && seconds > 0 ? seconds : undefined;
  return String(errorPage({ status, code, detail, requestId: request.id, retrySeconds }));
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
