import { hash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { clientKey } from '../base/address-key.ts';

/**
 * Part of the key of a count. `client` is the user, or the address if the user is not known;
 * `route` is method and pattern, the same for all paths without a route.
 */
export type RateKeyPart = 'client' | 'address' | 'route';

/** Gives the proven user of a request; an unproven name would let clients evade every limit. */
export type UserOf = (request: FastifyRequest) => string | undefined;

const keyLengthMax = 128;

/** Makes the key of a request from the parts, in at most `keyLengthMax` characters. */
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

/** Makes a key of bounded length: the text itself, or its hash. */
export function shortKey(text: string): string {
  const isPlain = text.length <= keyLengthMax && text.isWellFormed() && !text.includes('\0');
  return isPlain ? text : `#${hash('sha256', text, 'base64url')}`;
}

/** Method and pattern of a route; the empty string for all paths without a route. */
export function routeOf({ method, routeOptions: { url } }: FastifyRequest): string {
  return url === undefined ? '' : routeName(method, url);
}

/** A HEAD counts as the GET that it is. */
export function routeName(method: string, url: string): string {
  return `${method === 'HEAD' ? 'GET' : method} ${url}`;
}
