import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';

/**
 * The owner of an address. One customer has at least a /64 of IPv6, so that is one key; an IPv4
 * address is the same whether or not it is written as IPv6.
 */
export function addressKey(ip: string | undefined): string {
  if (!ip?.includes(':')) return ip ?? '';
  // A server for both kinds sees every IPv4 client like this.
  const ipv4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip);
  if (ipv4 !== null) return ipv4[1] as string;
  const groups = groupsOf(ip.replace(/%.*/, ''));
  if (groups === undefined) return ip;
  const [high = 0, low = 0] = groups.slice(6);
  const isIpv4 = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (isIpv4) return [high >> 8, high & 255, low >> 8, low & 255].join('.');
  const network = groups.slice(0, 4).map((group) => group.toString(16));
  return `${network.join(':')}::/64`;
}

/** The owner of the address that a request comes from; what is no address in a header is not. */
export function clientKey({ ip, socket }: FastifyRequest): string {
  return addressKey(isIP(ip) === 0 ? socket.remoteAddress : ip);
}

/** The eight groups of an IPv6 address, or undefined if it is none. */
function groupsOf(ip: string): readonly number[] | undefined {
  const written = URL.parse(`http://[${ip}]`)?.hostname.slice(1, -1);
  if (written === undefined) return undefined;
  const [head = '', tail = ''] = written.split('::');
  const parse = (text: string) =>
    text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
  const left = parse(head);
  const right = parse(tail);
  return [...left, ...Array<number>(8 - left.length - right.length).fill(0), ...right];
}
