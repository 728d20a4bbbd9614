import { isIPv6 } from 'node:net';

/**
 * What counts as one client: an IPv4 address, or the first 64 bits of an IPv6 one, since a single
 * customer is given all addresses that share them.
 */
export function addressKey(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address)) return address;
  const [head = '', tail] = (address.split('%', 1)[0] as string).split('::');
  const groups = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  // A dotted end stands for two groups.
  const known = groups.length + after.length + (address.includes('.') ? 1 : 0);
  const zeros = tail === undefined ? 0 : 8 - known;
  const all = [...groups, ...Array<string>(zeros).fill('0'), ...after];
  const network = all.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(':')}::/64`;
}
