import type { ServerOptions as TlsOptions } from 'node:https';
import type { FastifyBaseLogger } from 'fastify';
import type { Clock, Lane } from 'spillway';
import type { RecentErrors } from './failure/recent-errors.ts';
import type { IdempotencyOptions } from './idempotency/idempotency.ts';
import type { OperatorOptions } from './operator/operator.ts';
import type { LiveOptions } from './page/live.ts';
import type { RateGuardOptions } from './rate/guard.ts';
import type { CsrfOptions } from './session/csrf.ts';
import type { PrimaryOnlyOptions } from './session/primary-only.ts';
import type { SessionOptions } from './session/session.ts';
import type { WebSocketHub } from './socket/hub.ts';

export interface ServerOptions {
  /** Name of the part in stats and messages. @default 'http' */
  readonly name?: string | undefined;
  /** Address to listen at. @default '127.0.0.1' */
  readonly host?: string | undefined;
  /** Port to listen at; 0 takes a free one. An integer from 0 to 65,535. @default 0 */
  readonly port?: number | undefined;
  /** Certificate and key for TLS. @default none: plain HTTP */
  readonly https?: TlsOptions | undefined;
  /**
   * One lane for all routes that name none. @default one for each route, inside one root: 256 at
   * once, 2,048 waiting, 20 s; clients are served in turn
   */
  readonly lane?: Lane | undefined;
  /** The interface for operators. @default it listens nowhere */
  readonly operator?: OperatorOptions | undefined;
  /** Rate limits of clients. @default none */
  readonly rate?: RateGuardOptions | undefined;
  /** Test for the instance that answers routes with `primaryOnly`. @default every instance */
  readonly primaryOnly?: PrimaryOnlyOptions | undefined;
  /** Sessions in signed cookies; they also turn on `csrf`. @default none */
  readonly sessions?: SessionOptions | undefined;
  /** Protection against forged changes; false for none. @default on with sessions, by their keys */
  readonly csrf?: CsrfOptions | false | undefined;
  /**
   * Handling of `Idempotency-Key`: the work of a key is done once. With sessions, each session has
   * keys of its own unless `user` is given. @default keys are ignored
   */
  readonly idempotency?: IdempotencyOptions | undefined;
  /** The WebSockets of the server. @default none */
  readonly hub?: WebSocketHub | undefined;
  /** Live pages, within these limits. @default none */
  readonly live?: LiveOptions | undefined;
  /** Longest body of a route without a `bodyLimit`, in bytes, from 1. @default 1_048_576 */
  readonly bodyBytesMax?: number | undefined;
  /** Media types of bodies that routes take. @default JSON, forms, multipart and plain text */
  readonly bodyTypes?: readonly string[] | undefined;
  /** Size of all headers of a request at most, in bytes, from 1. @default 16_384 */
  readonly headerBytesMax?: number | undefined;
  /** Connections that may be open; one more is closed at once. From 1. @default 10_000 */
  readonly connectionsMax?: number | undefined;
  /** Open connections of one address, from 1. @default half of all; behind a proxy all */
  readonly connectionsPerAddressMax?: number | undefined;
  /** Time in which the headers of a request must arrive, in ms, from 1. @default 10_000 */
  readonly headersMsMax?: number | undefined;
  /** Time in which a whole request must arrive, in ms, from `headersMsMax`. @default 300_000 */
  readonly requestMsMax?: number | undefined;
  /** Time that a connection stays open for its next request, in ms, from 1. @default 65_000 */
  readonly keepAliveMs?: number | undefined;
  /** Time that a connection in use may be silent, in ms, from 1. @default 120_000 */
  readonly silentMsMax?: number | undefined;
  /** Milliseconds that running requests may go on once the server closes. @default 5_000 */
  readonly closeMsMax?: number | undefined;
  /**
   * Milliseconds for which a closing server reports that it is not ready but still answers, so that
   * load balancers send new requests elsewhere, from 0. @default 0
   */
  readonly lameDuckMs?: number | undefined;
  /** Time that a handler may hold the event loop at a stretch, in milliseconds. @default 1 */
  readonly loopMsMax?: number | undefined;
  /** Milliseconds the event loop may be late before requests are refused. @default 1_000 */
  readonly loopDelayMsMax?: number | undefined;
  /** `Content-Security-Policy` header of every answer. @default "default-src 'self'" */
  readonly contentSecurityPolicy?: string | undefined;
  /**
   * Warnings and errors as lines of JSON on stderr, or a logger of your own; false for nothing at
   * all. @default unexpected failures and changes of state, as lines of JSON on stderr
   */
  readonly log?: boolean | FastifyBaseLogger | undefined;
  /** List of recent failures for the operator. @default a new one of 200 */
  readonly errors?: RecentErrors | undefined;
  /**
   * Proxies whose `X-Forwarded-*` headers are trusted: addresses, nets, or the number of them in a
   * row; true for one. Trust none if clients can reach the server without passing the proxy.
   * @default none
   */
  readonly trustProxy?: boolean | string | readonly string[] | number | undefined;
  readonly clock?: Clock | undefined;
}
