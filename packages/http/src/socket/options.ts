import { type Clock, systemClock } from 'spillway';
import { check, checkInteger } from 'spillway/internal';
import type { Channel } from './channel.ts';

/** What happens to a message that a socket's buffer has no room for. */
export type SlowPolicy = 'close' | 'drop';

export interface WebSocketHubOptions {
  /** Names the hub to its other instances. 1 to 100 characters. @default 'sockets' */
  readonly name?: string | undefined;
  /** How many sockets may be open. An integer from 1. @default 20_000 */
  readonly socketsMax?: number | undefined;
  /** How many from one address (IPv6: one /64). An integer from 1. @default 100 */
  readonly socketsPerAddressMax?: number | undefined;
  /** How many rooms a socket may be in. An integer from 1. @default 100 */
  readonly roomsPerSocketMax?: number | undefined;
  /** Origins that may connect, as `https://a.example`. @default the host that was asked */
  readonly origins?: readonly string[] | undefined;
  /** The longest message taken from a client, in bytes. An integer from 1. @default 262_144 */
  readonly messageBytesMax?: number | undefined;
  /** Messages taken from one socket each second; above 0, up to 100,000. @default 20 */
  readonly messagesPerSecond?: number | undefined;
  /** Messages that may come at once. An integer from 1. @default 40 */
  readonly messageBurst?: number | undefined;
  /** Milliseconds a handler may take for one message. An integer from 1. @default 30_000 */
  readonly handlerMsMax?: number | undefined;
  /**
   * Bytes that may wait for one socket's peer to read them; one message alone may be longer.
   * An integer from 1. @default 1_048_576
   */
  readonly bufferedBytesMax?: number | undefined;
  /** @default 'close' */
  readonly slow?: SlowPolicy | undefined;
  /** How many broadcasts may wait for earlier ones. An integer from 1. @default 1_000 */
  readonly broadcastsMax?: number | undefined;
  /**
   * Milliseconds of silence after which a socket is pinged, and after as many more cut off.
   * An integer from 1. @default 30_000
   */
  readonly idleMs?: number | undefined;
  /**
   * Milliseconds a peer has to answer a close; less than Fastify's `pluginTimeout`, which closing
   * must keep to. An integer from 1. @default 5_000
   */
  readonly closeMsMax?: number | undefined;
  /** Carries broadcasts to the other instances. @default none */
  readonly channel?: Channel | undefined;
  /** Told when messages of other instances were lost, and how many if that is known. */
  readonly onLost?: ((count: number | undefined) => void) | undefined;
  readonly clock?: Clock | undefined;
}

/** The same, with nothing left open. */
export type HubLimits = { readonly [Key in keyof typeof defaults]: (typeof defaults)[Key] } & {
  readonly slow: SlowPolicy;
  readonly clock: Clock;
};

const defaults = {
  socketsMax: 20_000 as number,
  socketsPerAddressMax: 100 as number,
  roomsPerSocketMax: 100 as number,
  messageBytesMax: 262_144 as number,
  messagesPerSecond: 20 as number,
  messageBurst: 40 as number,
  handlerMsMax: 30_000 as number,
  bufferedBytesMax: 1_048_576 as number,
  broadcastsMax: 1_000 as number,
  idleMs: 30_000 as number,
  closeMsMax: 5_000 as number,
};

/** Checks what was given and fills in the rest. */
export function hubLimits(options: WebSocketHubOptions): HubLimits {
  const limits = { ...defaults };
  for (const key of Object.keys(defaults) as (keyof typeof defaults)[]) {
    limits[key] = options[key] ?? defaults[key];
    if (key !== 'messagesPerSecond') checkInteger(key, limits[key], 1);
  }
  const rate = limits.messagesPerSecond;
  const isRate = rate > 0 && rate <= 100_000;
  check(isRate, 'messagesPerSecond', 'a number above 0, up to 100000', rate);
  const { slow = 'close', clock = systemClock, origins = [] } = options;
  check(slow === 'close' || slow === 'drop', 'slow', "'close' or 'drop'", slow);
  for (const origin of origins) {
    const isOrigin = URL.canParse(origin) && new URL(origin).origin === origin;
    check(isOrigin, 'origins', 'origins such as https://a.example', origin);
  }
  return { ...limits, slow, clock };
}
