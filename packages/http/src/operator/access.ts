import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import { check } from 'spillway/internal';

export interface OperatorAccessOptions {
  /** Lets in whoever sends it as `Authorization: Bearer`; 16 to 1024 characters. @default none */
  readonly token?: string | undefined;
  /**
   * Whether this machine's own requests need no token. Turn it off where a proxy on the same
   * machine passes requests on without any header that says so. @default true
   */
  readonly loopback?: boolean | undefined;
}

/** Says why a request may not see what is for the operator; undefined when it may. */
export type OperatorAccess = (request: IncomingMessage) => string | undefined;

const loopbackNet = new BlockList();
loopbackNet.addSubnet('127.0.0.0', 8, 'ipv4');
loopbackNet.addAddress('::1', 'ipv6');

/** What proxies add when they pass a request on for somebody else. */
const forwarding = /forwarded|^via$|^x-real-ip$|(client|connecting)-ip$|^x-envoy-/;

/**
 * Lets in who shows the token, from anywhere, and without one only a program or a browser tab of
 * this very machine that nobody else can be behind.
 */
export function operatorAccess(options: OperatorAccessOptions): OperatorAccess {
  const { token, loopback = true } = options;
  const isLong = token === undefined || (token.length >= 16 && token.length <= 1024);
  check(isLong, 'token', 'a word of 16 to 1024 characters', token?.length);
  // Only the hash is kept and compared: equally long whatever is sent, and of no use if read.
  const expected = token === undefined ? undefined : sha256(token);
  return (request) => {
    const { authorization } = request.headers;
    // Who shows a token is judged by it, so that a wrong one is noticed on this machine too.
    if (authorization !== undefined) {
      const [, sent = ''] = /^bearer +(\S+) *$/i.exec(authorization) ?? [];
      const isRight = expected !== undefined && timingSafeEqual(sha256(sent), expected);
      return isRight ? undefined : 'the token is not the right one';
    }
    return loopback ? strangeness(request) : 'a token is needed';
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** What makes a request without a token look like that of a stranger. */
function strangeness(request: IncomingMessage): string | undefined {
  const { headers, socket, httpVersionMajor, httpVersionMinor } = request;
  // The peer of the socket, since any header may be made up.
  if (!isLoopback(socket.remoteAddress)) return 'it comes from another machine';
  if (Object.keys(headers).some((name) => forwarding.test(name))) {
    return 'a proxy passed it on for somebody else';
  }
  // nginx passes requests on as HTTP/1.0 without any header of its own unless it is told otherwise.
  if (httpVersionMajor === 1 && httpVersionMinor === 0) return 'a proxy may have passed it on';
  // HTTP/2 has another name for the host.
  const { origin, ':authority': authority, host = authority } = headers;
  // A stranger's page can make its own name point to this machine, but it cannot change the name.
  if (!isLoopbackHost(host)) return 'the host it asks for is not this machine';
  const site = headers['sec-fetch-site'];
  const isOwnPage = site === undefined || site === 'same-origin' || site === 'none';
  if (!isOwnPage) return 'a page of another site sent it';
  const isOwnOrigin = origin === undefined || /^https?:\/\/(.*)$/.exec(origin)?.[1] === host;
  return isOwnOrigin ? undefined : 'a page of another origin sent it';
}

function isLoopback(address: string | undefined): boolean {
  // A Unix socket has no address; it is mostly a proxy's.
  if (address === undefined) return false;
  const plain = address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
  const version = isIP(plain);
  return version !== 0 && loopbackNet.check(plain, version === 4 ? 'ipv4' : 'ipv6');
}

function isLoopbackHost(host: unknown): boolean {
  const [, name = ''] = /^(\[[^\]]*\]|[^:]*)(?::\d{1,5})?$/.exec(String(host ?? '')) ?? [];
  const lower = name.toLowerCase();
  return lower === 'localhost' || isLoopback(lower.replace(/^\[(.*)\]$/, '$1'));
}
