import { hash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { clientKey } from '../base/address-key.ts';

/**
 * What a count may be kept by: `client` is the user, or the address of one who is not known;
 * `route` is its method and pattern, and all paths that no route has are one.
 */
export type RateKeyPart = 'client' | 'address' | 'route';

/** Who sends the request, if that was proven; a name that anybody can claim evades every limit. */
export type UserOf = (request: FastifyRequest) => string | undefined;

const keyLengthMax = 128;

/** What the parts are for this request, in as many characters as a key may cost. */
export function rateKey(
  parts: readonly RateKeyPart[],
  request: FastifyRequest,
  userOf: UserOf | undefined,
): string {
  const values = parts.map((part) => {
    if (part === 'route') return routeOf(request);
    const user = part === 'client' ? userOf?.(request) : undefined;
    return user === undefined ? `@${clientKey(request)}` : `=${user}`;
  });
  return shortKey(values.length === 1 ? (values[0] as string) : JSON.stringify(values));
}

/** The same key for the same text, never longer than a database or a map should bear. */
export function shortKey(text: string): string {
  const isPlain = text.length <= keyLengthMax && text.isWellFormed() && !text.includes('\0');
  return isPlain ? text : `#${hash('sha256', text, 'base64url')}`;
}

/** Method and pattern; the empty string for all paths that no route has. */
export function routeOf({ method, routeOptions: { url } }: FastifyRequest): string {
  return url === undefined ? '' : routeName(method, url);
}

/** A HEAD counts as the GET that it is. */
export function routeName(method: string, url: string): string {
  return `${method === 'HEAD' ? 'GET' : method} ${url}`;
}
