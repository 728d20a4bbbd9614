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
