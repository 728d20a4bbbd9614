import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';

/** Networks that IANA has reserved, and those of internal services of clouds. */
const reserved = blockList(
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
);

/** The only IPv6 network with globally routed addresses. */
const routed = blockList('2000::/3');

/** True for an address, or a network such as `192.168.1.0/24`. */
export function isNetwork(text: string): boolean {
  const [address = '', bits = '0', ...more] = text.split('/');
  const bitsMax = isIP(address) === 4 ? 32 : 128;
  const isWithin = /^\d{1,3}$/.test(bits) && Number(bits) <= bitsMax;
  return isIP(address) !== 0 && isWithin && more.length === 0;
}

/** Makes a test for addresses in any of these networks, such as `192.168.1.0/24`. */
export function inNetworks(networks: readonly string[]): (address: string) => boolean {
  const known = blockList(...networks.map((one) => (one.includes('/') ? one : wholeOf(one))));
  return (address) => known.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

function wholeOf(address: string): string {
  return `${address}/${isIPv6(address) ? 128 : 32}`;
}

/** True for an address of the public internet, as a resolver gives it. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !reserved.check(address, 'ipv4');
  if (!isIPv6(address) || address.includes('%')) return false;
  const inner = innerAddress(address);
  if (inner !== undefined) return isPublicAddress(inner);
  return routed.check(address, 'ipv6') && !reserved.check(address, 'ipv6');
}

/** The version 4 address that a mapped (`::ffff:`) or translated (NAT64) one leads to. */
function innerAddress(address: string): string | undefined {
  // Brings all spellings of an address into its canonical form.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [, groups] = /^(?:::ffff|64:ff9b:):([\da-f:]*)$/.exec(canonical) ?? [];
  if (groups === undefined) return undefined;
  const [low = 0, high = 0, ...more] = groups.split(':').map(hexadecimal).reverse();
  if (more.length > 0) return undefined;
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

function hexadecimal(digits: string): number {
  return Number.parseInt(digits || '0', 16);
}

function blockList(...networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', bits] = network.split('/');
    list.addSubnet(address, Number(bits), isIPv4(address) ? 'ipv4' : 'ipv6');
  }
  return list;
}
