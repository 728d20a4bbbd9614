import type { ServerOptions as TlsOptions } from 'node:https';
import type { FastifyBaseLogger } from 'fastify';
import type { Clock, Lane } from 'spillway';
import { check, checkInteger } from 'spillway/internal';
import type { RecentErrors } from './failure/recent-errors.ts';
import type { IdempotencyOptions } from './idempotency/idempotency.ts';
import type { OperatorOptions } from './operator/operator.ts';
import type { LiveOptions } from './page/live.ts';
import type { Plugin } from './plugin/contract.ts';
import type { RateGuardOptions } from './rate/guard.ts';
import type { BlockedUsersOptions } from './session/blocked.ts';
import type { CsrfOptions } from './session/csrf.ts';
import type { PrimaryOnlyOptions } from './session/primary-only.ts';
import type { SessionOptions } from './session/session.ts';
import type { WebSocketHub } from './socket/hub.ts';

export interface ServerOptions {
  /** What the server is called as a part of a service. @default 'http' */
  readonly name?: string | undefined;
  /** The address to listen at. @default '127.0.0.1' */
  readonly host?: string | undefined;
  /** The port to listen at; 0, the default, takes a free one. */
  readonly port?: number | undefined;
  /** Certificate and key; without them the server speaks plain HTTP. */
  readonly https?: TlsOptions | undefined;
  /**
   * One lane for all routes that name none. @default one for each route, inside one root: 256 at
   * once, 2,048 waiting, 20 s; clients are served in turn
   */
  readonly lane?: Lane | undefined;
  /** The interface for operators. @default it listens nowhere */
  readonly operator?: OperatorOptions | undefined;
  /** How often who may ask. @default no limits */
  readonly rate?: RateGuardOptions | undefined;
  /** Which instance answers the routes with `primaryOnly`. @default every one */
  readonly primaryOnly?: PrimaryOnlyOptions | undefined;
  /** Keeps users in signed cookies, and checks that changes come from our own pages. */
  readonly sessions?: SessionOptions | undefined;
  /** How changes are checked. @default as they are, with the keys of the sessions; false: not */
  readonly csrf?: CsrfOptions | false | undefined;
  /** Whom to turn away. @default nobody */
  readonly blockedUsers?: BlockedUsersOptions | undefined;
  /**
   * Does what comes with an `Idempotency-Key` once; with sessions, each has keys of its own unless
   * `user` says more. @default takes no notice of keys
   */
  readonly idempotency?: IdempotencyOptions | undefined;
  /** The WebSockets of the server. @default none */
  readonly hub?: WebSocketHub | undefined;
  /** Live pages, within these limits. @default none */
  readonly live?: LiveOptions | undefined;
  /** Parts that bring routes of their own, in the order they need. @default none */
  readonly plugins?: readonly Plugin[] | undefined;
  /** The longest body of a route that states no `bodyLimit`, in bytes; 1 MiB by default. */
  readonly bodyBytesMax?: number | undefined;
  /** Which types of body routes take. @default JSON, forms, multipart and plain text */
  readonly bodyTypes?: readonly string[] | undefined;
  /** The most headers of one request, in bytes; 16,384 by default. */
  readonly headerBytesMax?: number | undefined;
  /** How many connections may be open; one more is closed at once. 10,000 by default. */
  readonly connectionsMax?: number | undefined;
  /** Open connections of one address, from 1. @default half of all; behind a proxy all */
  readonly connectionsPerAddressMax?: number | undefined;
  /** How long the headers of a request may take to arrive, in ms; 10,000 by default. */
  readonly headersMsMax?: number | undefined;
  /** How long all of a request may take to arrive, in ms; 300,000 by default. */
  readonly requestMsMax?: number | undefined;
  /** How long a connection waits for its next request, in ms; 65,000 by default. */
  readonly keepAliveMs?: number | undefined;
  /** How long a connection in use may be silent, in ms; 120,000 by default. */
  readonly silentMsMax?: number | undefined;
  /** Milliseconds that running requests may go on once the server closes. @default 5_000 */
  readonly closeMsMax?: number | undefined;
  /**
   * Milliseconds for which a server that closes says that it is not ready and still answers, so
   * that balancers send their requests elsewhere, from 0. @default 0
   */
  readonly lameDuckMs?: number | undefined;
  /** How long a handler may hold the event loop at a stretch, in ms; 1 by default. */
  readonly loopMsMax?: number | undefined;
  /** Milliseconds the event loop may be late before requests are refused. @default 1_000 */
  readonly loopDelayMsMax?: number | undefined;
  /** What pages may load. @default "default-src 'self'" */
  readonly contentSecurityPolicy?: string | undefined;
  /**
   * Warnings and errors as lines of JSON on stderr, or a logger of your own; false for nothing at
   * all. @default failures that nobody foresaw, as lines of JSON on stderr
   */
  readonly log?: boolean | FastifyBaseLogger | undefined;
  /** Where failures are kept for the operator. @default a new one of 200 */
  readonly errors?: RecentErrors | undefined;
  /**
   * The proxies whose `X-Forwarded-*` headers are believed: addresses, nets, or how many there are
   * in a row; true for one. A server that strangers reach past its proxy must believe nobody.
   * @default nobody
   */
  readonly trustProxy?: boolean | string | readonly string[] | number | undefined;
  readonly clock?: Clock | undefined;
}

/** The limits of a server, with their defaults. */
export interface ServerLimits {
  readonly bodyBytesMax: number;
  readonly headerBytesMax: number;
  readonly connectionsMax: number;
  readonly headersMsMax: number;
  readonly requestMsMax: number;
  readonly keepAliveMs: number;
  readonly silentMsMax: number;
}

/** Fails on the first option that breaks its rule; gives the limits. */
export function checkServerOptions(options: ServerOptions): ServerLimits {
  const limits: ServerLimits = {
    bodyBytesMax: options.bodyBytesMax ?? 1_048_576,
    headerBytesMax: options.headerBytesMax ?? 16_384,
    connectionsMax: options.connectionsMax ?? 10_000,
    headersMsMax: options.headersMsMax ?? 10_000,
    requestMsMax: options.requestMsMax ?? 300_000,
    keepAliveMs: options.keepAliveMs ?? 65_000,
    silentMsMax: options.silentMsMax ?? 120_000,
  };
  const { name = 'http' } = options;
  check(typeof name === 'string' && name !== '', 'name', 'a word', name);
  checkInteger('port', options.port ?? 0, 0, 65_535);
  for (const [option, value] of Object.entries(limits)) checkInteger(option, value, 1);
  const { headersMsMax, requestMsMax } = limits;
  check(requestMsMax >= headersMsMax, 'requestMsMax', 'no less than headersMsMax', requestMsMax);
  return limits;
}
