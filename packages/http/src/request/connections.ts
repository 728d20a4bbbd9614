import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from 'spillway';
import { addressKey } from '../base/address-key.ts';
import { httpError } from '../base/errors.ts';
import { repeat } from '../base/repeat.ts';
import type { Guard } from './guard.ts';

export interface ConnectionsOptions {
  /** Open connections of one address. */
  readonly perAddressMax: number;
  /** Milliseconds that running requests may go on once the server closes. */
  readonly closeMsMax: number;
  /** Milliseconds for which a closing server reports that it is not ready but still answers. */
  readonly lameDuckMs: number;
  readonly clock: Clock;
}

/** Milliseconds between two checks for connections that have become idle. */
const checkMs = 20;
/** Requests of one connection that may wait behind the one that is answered. */
const pipelinedMax = 16;

/**
 * Counts the connections of a server by address and the requests that wait on each, and ends them.
 * A closing server first reports that it is not ready but still answers; then it refuses new
 * requests, ends idle connections, and at the time limit cuts those that are busy.
 */
export class Connections implements Disposable {
  readonly #server: Server;
  readonly #options: ConnectionsOptions;
  readonly #sockets = new Set<Socket>();
  readonly #byAddress = new Map<string, number>();
  readonly #pipelined = new WeakMap<Socket, number>();
  #timer: Disposable | undefined;
  #state: 'open' | 'fading' | 'closing' = 'open';

  constructor(server: Server, options: ConnectionsOptions) {
    this.#server = server;
    this.#options = options;
    server.on('connection', (socket: Socket) => this.#keep(socket));
  }

  /** True if load balancers should send new requests elsewhere. */
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
      return httpError('SERVER_STOPPING', 'the server is stopping', { retryAfterMs: 1_000 });
    }
    if (hasTwoHosts(rawHeaders)) {
      return httpError('REQUEST_INVALID', 'the request names two hosts');
    }
    // An answer without a socket waits behind earlier ones of its connection.
    if (raw.socket !== null) return;
    const count = (this.#pipelined.get(socket) ?? 0) + 1;
    if (count > pipelinedMax) {
      return httpError('PIPELINE_FULL', `a connection may have ${pipelinedMax} requests waiting`);
    }
    this.#pipelined.set(socket, count);
    raw.once('close', () => this.#pipelined.set(socket, (this.#pipelined.get(socket) ?? 1) - 1));
  };

  /** Marks the server as not ready; resolves when load balancers have had time to notice. */
  async fade(signal: AbortSignal): Promise<void> {
    if (this.#state === 'open') this.#state = 'fading';
    const { lameDuckMs, clock } = this.#options;
    if (lameDuckMs === 0 || this.#sockets.size === 0 || signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    using _timer = clock.after(lameDuckMs, resolve);
    signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
  }

  /** Refuses new requests from now on, and ends connections as they fall idle. */
  close(): void {
    if (this.#state === 'closing') return;
    this.#state = 'closing';
    const { clock, closeMsMax } = this.#options;
    const cutAt = clock.now() + closeMsMax;
    const check = (): void => {
      this.#server.closeIdleConnections();
      // Node takes a connection that has sent nothing yet for one in the middle of a request.
      for (const socket of this.#sockets) if (socket.bytesRead === 0) socket.destroy();
      if (clock.now() >= cutAt) this.cut();
    };
    check();
    this.#timer = repeat(clock, checkMs, check);
  }

  /** Ends all connections now. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
  }

  #keep(socket: Socket): void {
    const address = addressKey(socket.remoteAddress);
    const count = (this.#byAddress.get(address) ?? 0) + 1;
    if (count > this.#options.perAddressMax) {
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
