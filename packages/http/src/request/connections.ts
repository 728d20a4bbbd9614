import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { type Clock, systemClock } from 'spillway';
import { checkInteger, checkNumber } from 'spillway/internal';
import { addressKey } from '../base/address-key.ts';
import { httpError } from '../base/errors.ts';
import type { Guard } from './guard.ts';

export interface ConnectionsOptions {
  /** Open connections of one address, from 1. @default unlimited */
  readonly perAddressMax?: number | undefined;
  /** Milliseconds that running requests may go on once the server closes, from 0. @default 5_000 */
  readonly closeMsMax?: number | undefined;
  /** Milliseconds between the fall of readiness and the end of service, from 0. @default 0 */
  readonly lameDuckMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** Milliseconds between two looks for connections that have fallen idle. */
const lookMs = 20;
/** Requests of one connection that may wait behind the one that is answered. */
const pipelinedMax = 16;

/**
 * The connections of a server: their number by address, the requests that wait on each, and their
 * end. A server that closes first says that it is not ready and goes on; then it refuses new
 * requests, ends idle connections, and cuts those that are busy at the limit.
 */
export class Connections implements Disposable {
  readonly #server: Server;
  readonly #clock: Clock;
  readonly #perAddressMax: number;
  readonly #closeMsMax: number;
  readonly #lameDuckMs: number;
  readonly #sockets = new Set<Socket>();
  readonly #byAddress = new Map<string, number>();
  readonly #pipelined = new WeakMap<Socket, number>();
  #timer: Disposable | undefined;
  #state: 'open' | 'fading' | 'closing' = 'open';
  #cutAt = Infinity;

  constructor(server: Server, options: ConnectionsOptions) {
    const { perAddressMax = Infinity, closeMsMax = 5_000, lameDuckMs = 0 } = options;
    if (perAddressMax !== Infinity) checkInteger('connectionsPerAddressMax', perAddressMax, 1);
    checkNumber('closeMsMax', closeMsMax, 0);
    checkNumber('lameDuckMs', lameDuckMs, 0);
    this.#server = server;
    this.#perAddressMax = perAddressMax;
    this.#closeMsMax = closeMsMax;
    this.#lameDuckMs = lameDuckMs;
    this.#clock = options.clock ?? systemClock;
    server.on('connection', (socket: Socket) => this.#keep(socket));
  }

  /** True if new requests are refused. */
  get isClosing(): boolean {
    return this.#state === 'closing';
  }

  /** True if balancers should send new requests elsewhere. */
  get isFading(): boolean {
    return this.#state !== 'open';
  }

  /** The number of open connections, those of WebSockets included. */
  get count(): number {
    return this.#sockets.size;
  }

  /** Refuses requests while the server closes, with two hosts, or pipelined beyond the limit. */
  readonly guard: Guard = ({ raw: { socket, rawHeaders } }, { raw }) => {
    if (this.#state === 'closing') {
      throw httpError('SERVER_STOPPING', 'the server is stopping', { retryAfterMs: 1_000 });
    }
    if (hasTwoHosts(rawHeaders)) {
      throw httpError('REQUEST_INVALID', 'the request names two hosts');
    }
    // An answer that has no socket yet waits for others of its connection.
    if (raw.socket !== null) return;
    const count = (this.#pipelined.get(socket) ?? 0) + 1;
    if (count > pipelinedMax) {
      throw httpError('PIPELINE_FULL', `a connection may have ${pipelinedMax} requests waiting`);
    }
    this.#pipelined.set(socket, count);
    raw.once('close', () => this.#pipelined.set(socket, (this.#pipelined.get(socket) ?? 1) - 1));
  };

  /** Says that the server is not ready, and resolves when balancers had time to notice. */
  async fade(signal: AbortSignal): Promise<void> {
    if (this.#state === 'open') this.#state = 'fading';
    if (this.#lameDuckMs === 0 || this.#sockets.size === 0 || signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    using _timer = this.#clock.after(this.#lameDuckMs, resolve);
    signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
  }

  /** Refuses new requests from now on, and ends connections as they fall idle. */
  close(): void {
    if (this.#state === 'closing') return;
    this.#state = 'closing';
    this.#cutAt = Math.min(this.#clock.now() + this.#closeMsMax, Number.MAX_VALUE);
    this.#look();
  }

  /** Ends all connections now. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }

  #keep(socket: Socket): void {
    const address = addressKey(socket.remoteAddress);
    const count = (this.#byAddress.get(address) ?? 0) + 1;
    if (count > this.#perAddressMax) {
      socket.destroy();
      return;
    }
    this.#byAddress.set(address, count);
    this.#sockets.add(socket);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      const left = (this.#byAddress.get(address) ?? 1) - 1;
      if (left === 0) this.#byAddress.delete(address);
      else this.#byAddress.set(address, left);
    });
  }

  readonly #look = (): void => {
    this.#server.closeIdleConnections();
    // Node takes a connection that has sent nothing yet for one in the middle of a request.
    for (const socket of this.#sockets) if (socket.bytesRead === 0) socket.destroy();
    if (this.#clock.now() >= this.#cutAt) this.cut();
    this.#timer = this.#clock.after(lookMs, this.#look);
  };
}

/** True for a second Host header: Node uses the first, a proxy may have used the other. */
function hasTwoHosts(rawHeaders: readonly string[]): boolean {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') count += 1;
  }
  return count > 1;
}
