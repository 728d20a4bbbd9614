import type { FastifyRequest } from 'fastify';
import { type Clock, systemClock } from 'spillway';
import {
  clockRule,
  type Filled,
  integer,
  maybe,
  nested,
  oneOf,
  or,
  positive,
  settle,
} from 'spillway/internal';
import { clientKey } from '../base/address-key.ts';
import { httpError } from '../base/errors.ts';
import { matching, origins } from '../base/rules.ts';
import type { Channel } from './channel.ts';

/** The fate of a message that a socket's buffer has no room for. */
export type SlowPolicy = 'close' | 'drop';

export interface WebSocketHubOptions {
  /** Name of the hub, the same in all its instances. 1 to 100 characters. @default 'sockets' */
  readonly name?: string | undefined;
  /**
   * Sockets that may be open, no more than the server's `connectionsMax`. An integer from 1.
   * @default 9_000
   */
  readonly socketsMax?: number | undefined;
  /** Sockets from one address (IPv6: one /64). An integer from 1. @default 100 */
  readonly socketsPerAddressMax?: number | undefined;
  /** Rooms that one socket may be in. An integer from 1. @default 100 */
  readonly roomsPerSocketMax?: number | undefined;
  /** Origins that may connect, as `https://a.example`. @default the host that was asked */
  readonly origins?: readonly string[] | undefined;
  /** Longest message taken from a client, in bytes. An integer from 1. @default 262_144 */
  readonly messageBytesMax?: number | undefined;
  /**
   * Messages, pings and pongs taken from one socket each second. A number above 0, up to 100,000.
   * @default 20
   */
  readonly messagesPerSecond?: number | undefined;
  /** Messages, pings and pongs that may come at once. An integer from 1. @default 40 */
  readonly messageBurst?: number | undefined;
  /** Milliseconds a handler may take for one message. An integer from 1. @default 30_000 */
  readonly handlerMsMax?: number | undefined;
  /**
   * Bytes that may wait for one socket's peer to read them, answers to its pings included; one
   * message alone may be longer. An integer from 1. @default 1_048_576
   */
  readonly bufferedBytesMax?: number | undefined;
  /** Treatment of a peer that reads too slowly: `close` it, or `drop` messages. @default 'close' */
  readonly slow?: SlowPolicy | undefined;
  /** Broadcasts that may wait for earlier ones. An integer from 1. @default 1_000 */
  readonly broadcastsMax?: number | undefined;
  /**
   * Milliseconds from one ping of a socket to the next; a peer that sends nothing in between, not
   * even the answer, is cut off. An integer from 1. @default 30_000
   */
  readonly idleMs?: number | undefined;
  /**
   * Milliseconds a peer has to answer a close; less than Fastify's `pluginTimeout`, which closing
   * must keep to. An integer from 1. @default 5_000
   */
  readonly closeMsMax?: number | undefined;
  /** Carries broadcasts to the other instances. @default none */
  readonly channel?: Channel | undefined;
  readonly clock?: Clock | undefined;
}

/** Options of a hub with their defaults filled in. */
export type HubLimits = Filled<Omit<WebSocketHubOptions, Optional>> &
  Pick<WebSocketHubOptions, Optional>;

type Optional = 'origins' | 'channel';

const rules = {
  name: or(matching(/^.{1,100}$/s, '1 to 100 characters'), 'sockets' as string),
  socketsMax: or(integer(1), 9_000),
  socketsPerAddressMax: or(integer(1), 100),
  roomsPerSocketMax: or(integer(1), 100),
  origins: maybe(origins),
  messageBytesMax: or(integer(1), 262_144),
  messagesPerSecond: or(positive(100_000), 20),
  messageBurst: or(integer(1), 40),
  handlerMsMax: or(integer(1), 30_000),
  bufferedBytesMax: or(integer(1), 1_048_576),
  slow: or(oneOf<SlowPolicy>('close', 'drop'), 'close'),
  broadcastsMax: or(integer(1), 1_000),
  idleMs: or(integer(1), 30_000),
  closeMsMax: or(integer(1), 5_000),
  channel: maybe(nested),
  clock: or(clockRule, systemClock),
};

/** Checks the options and fills in the defaults. */
export function hubLimits(options: WebSocketHubOptions): HubLimits {
  return settle('WebSocketHub', options, rules);
}

/** Retry-After if there is no room: sockets live long, so a second would be too short. */
const retryAfterMs = 5_000;

/** Admits upgrades by origin, by address and in all, and counts the sockets that are open. */
export class ConnectionLimit {
  readonly #limits: HubLimits;
  /** Open sockets of each address; never more entries than sockets. */
  readonly #perAddress = new Map<string, number>();
  #open = 0;
  #closed = false;
  readonly refused = { full: 0, origin: 0 };

  constructor(limits: HubLimits) {
    this.#limits = limits;
  }

  close(): void {
    this.#closed = true;
  }

  /** Counts the connection until it has closed; throws if it must not become a socket. */
  admit(request: FastifyRequest): void {
    if (this.#closed) throw httpError('SERVER_STOPPING', 'the server takes no more sockets');
    const { origin } = request.headers;
    if (origin !== undefined && !this.#isAllowed(origin, request)) {
      this.refused.origin += 1;
      throw httpError('SOCKET_ORIGIN', 'sockets from this origin are not allowed');
    }
    const { socket } = request.raw;
    // A connection that has closed may emit no other `close`, and would be counted for good.
    if (socket.destroyed) return;
    const key = clientKey(request);
    const same = this.#perAddress.get(key) ?? 0;
    const isFull = this.#open >= this.#limits.socketsMax;
    if (isFull || same >= this.#limits.socketsPerAddressMax) {
      this.refused.full += 1;
      const scope = isFull ? 'in all' : 'from this address';
      const count = isFull ? this.#open : same;
      throw httpError('SOCKETS_FULL', `${count} sockets are open ${scope}`, { retryAfterMs });
    }
    this.#open += 1;
    this.#perAddress.set(key, same + 1);
    socket.once('close', () => this.#release(key));
  }

  #release(key: string): void {
    this.#open -= 1;
    const left = (this.#perAddress.get(key) ?? 1) - 1;
    if (left === 0) this.#perAddress.delete(key);
    else this.#perAddress.set(key, left);
  }

  /** Only browsers send an origin, and only their users need protection from other sites. */
  #isAllowed(origin: string, request: FastifyRequest): boolean {
    const { origins } = this.#limits;
    if (origins !== undefined) return origins.includes(origin);
    return URL.parse(origin)?.host === request.host.toLowerCase();
  }
}
