import { hash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';

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
    return user === undefined ? `@${addressKey(request.ip)}` : `=${user}`;
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

/**
 * Whom an address belongs to. One customer has at least a /64 of IPv6, so that is one key; an IPv4
 * address is the same whether or not it is written as IPv6.
 */
export function addressKey(ip: string | undefined): string {
  if (!ip?.includes(':')) return ip ?? '';
  // As a server for both kinds sees every IPv4 client: worth a way of its own.
  const ipv4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip);
  if (ipv4 !== null) return ipv4[1] as string;
  const groups = ipv6Groups(ip.replace(/%.*/, ''));
  if (groups === undefined) return ip;
  const [high = 0, low = 0] = groups.slice(6);
  const isIpv4 = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (isIpv4) return [high >> 8, high & 255, low >> 8, low & 255].join('.');
  const network = groups.slice(0, 4).map((group) => group.toString(16));
  return `${network.join(':')}::/64`;
}

/** The eight groups of an address, or undefined if it is none. */
function ipv6Groups(ip: string): readonly number[] | undefined {
  const dotted = /(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(ip);
  const [a = 0, b = 0, c = 0, d = 0] = dotted?.slice(1).map(Number) ?? [];
  const hex = (high: number, low: number) => (high * 256 + low).toString(16);
  const plain = dotted ? `${ip.slice(0, dotted.index)}${hex(a, b)}:${hex(c, d)}` : ip;
  const [head = '', tail, ...more] = plain.split('::');
  const parse = (text = '') =>
    text === '' ? [] : text.split(':').map((x) => Number.parseInt(x, 16));
  const left = parse(head);
  const right = parse(tail);
  const missing = 8 - left.length - right.length;
  const isWhole = tail === undefined ? missing === 0 : missing > 0;
  if (!isWhole || more.length > 0) return undefined;
  const groups = [...left, ...Array<number>(missing).fill(0), ...right];
  return groups.every((group) => group >= 0 && group <= 0xffff) ? groups : undefined;
}
