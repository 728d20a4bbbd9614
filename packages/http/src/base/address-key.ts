import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';

/**
 * The owner of an address. One customer has at least a /64 of IPv6, so that is one key; an IPv4
 * address is the same whether or not it is written as IPv6.
 */
export function addressKey(ip: string | undefined): string {
  if (!ip?.includes(':')) return ip ?? '';
  // A server for both kinds sees every IPv4 client like this.
  if (/^::ffff:[\d.]+$/i.test(ip)) return ip.slice(7);
  const written = URL.parse(`http://[${ip.replace(/%.*/, '')}]`)?.hostname.slice(1, -1);
  if (written === undefined) return ip;
  const missing = 8 - (written.match(/[^:]+/g) ?? []).length;
  const groups = written.replace('::', `:${'0:'.repeat(missing)}`).match(/[^:]+/g) ?? [];
  if (!written.startsWith('::ffff:') || missing !== 5)
    return `${groups.slice(0, 4).join(':')}::/64`;
  const bytes = groups.slice(6).flatMap((group) => {
    const number = Number.parseInt(group, 16);
    return [number >> 8, number & 255];
  });
  return bytes.join('.');
}

/** The owner of a request's address; a forwarded header that holds no IP address is ignored. */
export function clientKey({ ip, socket }: FastifyRequest): string {
  return addressKey(isIP(ip) === 0 ? socket.remoteAddress : ip);
}
