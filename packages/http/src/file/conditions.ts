import type { IncomingHttpHeaders } from 'node:http';

/** What a client may have compared with: an `ETag` with its quotes, and a `Last-Modified`. */
export interface Validators {
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
}

/** Whether to send it, to say that the client has it already, or that it is not what is meant. */
export function evaluate(
  headers: IncomingHttpHeaders,
  { etag, lastModified }: Validators,
): 'failed' | 'send' | 'unchanged' {
  const modified = seconds(lastModified);
  const unmodifiedSince = seconds(headers['if-unmodified-since']);
  if (headers['if-match'] !== undefined) {
    if (!isListed(headers['if-match'], etag, false)) return 'failed';
  } else if (unmodifiedSince !== undefined && modified !== undefined) {
    if (modified > unmodifiedSince) return 'failed';
  }
  if (headers['if-none-match'] !== undefined) {
    return isListed(headers['if-none-match'], etag, true) ? 'unchanged' : 'send';
  }
  const modifiedSince = seconds(headers['if-modified-since']);
  if (modifiedSince === undefined || modified === undefined) return 'send';
  return modified <= modifiedSince ? 'unchanged' : 'send';
}

/** Whether a part may be sent: what `If-Range` names must be exactly what there is. */
export function isRangeFresh(header: unknown, { etag, lastModified }: Validators): boolean {
  if (header === undefined) return true;
  return header === etag || (lastModified !== undefined && header === lastModified);
}

/** A client's weak validator counts only where a weak comparison is enough. */
function isListed(list: string, etag: string | undefined, weakly: boolean): boolean {
  if (list.trim() === '*') return true;
  const tags = list.match(/(?:W\/)?"[^"]*"/g) ?? [];
  return tags.some((tag) => tag === etag || (weakly && tag === `W/${etag}`));
}

function seconds(date: string | undefined): number | undefined {
  const ms = Date.parse(date ?? '');
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1000);
}
