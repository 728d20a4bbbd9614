import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import websocket, { type WebSocket } from '@fastify/websocket';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyPluginAsync,
  FastifyRequest,
} from 'fastify';
import { type CloseOptions, deadline } from 'spillway';
import { check } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { plugin } from '../base/plugin.ts';
import {
  BroadcastQueue,
  type BroadcastResult,
  inSlices,
  Relay,
  type RelayStats,
  type SocketMessage,
  socketFrame,
} from './broadcast.ts';
import { ConnectionLimit, type HubLimits, hubLimits, type WebSocketHubOptions } from './limits.ts';
import { type HubContext, HubSocket, type SocketEnd, type SocketHandlers } from './socket.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True if the route is one of a WebSocketHub; all others refuse an upgrade. */
    readonly socket?: boolean;
  }
}

/** A route that takes WebSockets. */
export interface SocketRoute<Data> extends SocketHandlers<Data> {
  /** Config of the route, such as its lane, whose permit is held during the handshake only. */
  readonly config?: Readonly<Record<string, unknown>> | undefined;
}

export interface WebSocketHubStats {
  readonly kind: 'hub';
  readonly open: number;
  readonly rooms: number;
  /** Messages that came, those above the rate included. */
  readonly messagesIn: number;
  /** Messages handed to sockets; a broadcast counts once for each of them. */
  readonly messagesOut: number;
  /** Messages that a socket's buffer had no room for, and broadcasts beyond `broadcastsMax`. */
  readonly dropped: number;
  readonly broadcasting: number;
  readonly refused: { readonly full: number; readonly origin: number };
  readonly closed: Readonly<Partial<Record<SocketEnd, number>>>;
  readonly relay: RelayStats;
}

const fragmentsMax = 1_024;

/**
 * WebSockets with rooms, for one Fastify instance: `app.register(hub.plugin)`, then
 * `hub.route(app, path, handlers)`.
 */
export class WebSocketHub implements AsyncDisposable {
  readonly name: string;
  readonly #limits: HubLimits;
  readonly #connections: ConnectionLimit;
  readonly #sockets = new Set<HubSocket>();
  /** Members by room, no empty ones; each socket is in `roomsPerSocketMax` at most. */
  readonly #rooms = new Map<string, Set<HubSocket>>();
  readonly #broadcasts = new BroadcastQueue();
  readonly #counts = { messagesIn: 0, messagesOut: 0, dropped: 0 };
  readonly #closed: Partial<Record<SocketEnd, number>> = {};
  readonly #relay: Relay;
  readonly #context: HubContext;
  #log: FastifyBaseLogger | undefined;
  #timer: Disposable | undefined;
  #closing: Promise<void> | undefined;
  #empty: PromiseWithResolvers<void> | undefined;

  constructor(options: WebSocketHubOptions = {}) {
    this.#limits = hubLimits(options);
    this.name = this.#limits.name;
    this.#connections = new ConnectionLimit(this.#limits);
    this.#context = {
      limits: this.#limits,
      counts: this.#counts,
      onClose: (socket, end) => this.#remove(socket, end),
      onError: (error) => this.#log?.error({ err: error }, 'a socket handler failed'),
    };
    this.#relay = new Relay(this.#limits, (room, frame) => void this.#deliver(room, frame));
  }

  /** True if sockets are taken and, if there is a channel, other instances are heard. */
  get ready(): boolean {
    return this.#closing === undefined && this.#relay.ready;
  }

  get stats(): WebSocketHubStats {
    return {
      kind: 'hub',
      open: this.#sockets.size,
      rooms: this.#rooms.size,
      ...this.#counts,
      broadcasting: this.#broadcasts.size,
      refused: { ...this.#connections.refused },
      closed: { ...this.#closed },
      relay: this.#relay.stats,
    };
  }

  /** Registered once, before the routes. */
  readonly plugin: FastifyPluginAsync = plugin('sockets', async (app) => {
    this.#log = app.log;
    const { messageBytesMax, closeMsMax, socketsMax } = this.#limits;
    const { maxConnections = Number.POSITIVE_INFINITY } = app.server;
    const rule = `at most connectionsMax of the server, ${maxConnections}`;
    check(socketsMax <= maxConnections, 'socketsMax', rule, socketsMax);
    const limits = {
      maxPayload: messageBytesMax,
      maxFragments: fragmentsMax,
      closeTimeout: closeMsMax,
      autoPong: false,
      clientTracking: false,
    };
    await app.register(websocket, { options: limits, preClose: () => this.close() });
    refuseOtherUpgrades(app.server);
    app.addHook('onRequest', async (request) => {
      if (request.ws && request.routeOptions.config.socket !== true) {
        throw httpError('NOT_FOUND', 'there is no socket at this path');
      }
    });
    app.addHook('onReady', () => this.#relay.start());
  });

  route<Data = unknown>(app: FastifyInstance, path: string, route: SocketRoute<Data>): void {
    const { config, ...handlers } = route;
    app.route({
      method: 'GET',
      url: path,
      websocket: true,
      config: { ...config, socket: true },
      onRequest: async (request) => {
        if (request.ws) this.#connections.admit(request);
      },
      handler: (ws, request) => this.#open(handlers, ws, request),
    });
  }

  /** Puts a socket into a room; false when it is in too many rooms, or has closed. */
  join(socket: HubSocket, room: string): boolean {
    if (!this.#sockets.has(socket)) return false;
    if (socket.rooms.has(room)) return true;
    if (socket.rooms.size >= this.#limits.roomsPerSocketMax) return false;
    socket.rooms.add(room);
    const members = this.#rooms.get(room);
    if (members === undefined) this.#rooms.set(room, new Set([socket]));
    else members.add(socket);
    return true;
  }

  leave(socket: HubSocket, room: string): void {
    if (!socket.rooms.delete(room)) return;
    const members = this.#rooms.get(room);
    members?.delete(socket);
    if (members?.size === 0) this.#rooms.delete(room);
  }

  count(room: string): number {
    return this.#rooms.get(room)?.size ?? 0;
  }

  /**
   * Sends to all sockets that are in the room now, here and on the other instances. Never rejects:
   * messages that could not be sent are counted. Broadcasts reach a socket in order of their calls.
   */
  async broadcast(room: string, message: SocketMessage): Promise<BroadcastResult> {
    const frame = socketFrame(message);
    this.#relay.publish(room, frame);
    return this.#deliver(room, frame);
  }

  /** Closes all sockets with 1001; a peer that does not answer in time is cut off. */
  close(options: CloseOptions = {}): Promise<void> {
    this.#closing ??= this.#closeAll(options);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #open<Data>(handlers: SocketHandlers<Data>, ws: WebSocket, request: FastifyRequest): void {
    // The listener of the plugin would keep request and reply for as long as the socket lives.
    ws.removeAllListeners('error');
    const socket = new HubSocket<Data>(this.#context, handlers, ws, request);
    this.#sockets.add(socket as HubSocket);
    this.#timer ??= this.#limits.clock.after(this.#limits.idleMs, this.#checkAlive);
    if (this.#closing === undefined) socket.open(request);
    else socket.closeFor('shutdown', 1001);
    // The connection would keep request and answer for as long as the socket lives.
    (request.raw.socket as AnsweringSocket)._httpMessage?.detachSocket(request.raw.socket);
  }

  #remove(socket: HubSocket, end: SocketEnd): void {
    this.#sockets.delete(socket);
    for (const room of socket.rooms) this.leave(socket, room);
    this.#closed[end] = (this.#closed[end] ?? 0) + 1;
    if (this.#sockets.size === 0) this.#empty?.resolve();
  }

  async #deliver(room: string, frame: Buffer): Promise<BroadcastResult> {
    const members = this.#rooms.get(room);
    if (members === undefined) return { sent: 0, dropped: 0 };
    if (this.#broadcasts.size >= this.#limits.broadcastsMax) {
      this.#counts.dropped += members.size;
      return { sent: 0, dropped: members.size };
    }
    return this.#broadcasts.push(room, [...members], frame);
  }

  /** One timer for all sockets; there is none while there are no sockets. */
  readonly #checkAlive = (): void => {
    const { clock, idleMs } = this.#limits;
    void inSlices([...this.#sockets], (socket) => socket.checkAlive(clock.now())).then(() => {
      const isNeeded = this.#sockets.size > 0 && this.#closing === undefined;
      this.#timer = isNeeded ? clock.after(idleMs, this.#checkAlive) : undefined;
    });
  };

  async #closeAll({ withinMs = this.#limits.closeMsMax, signal }: CloseOptions): Promise<void> {
    this.#connections.close();
    this.#timer?.[Symbol.dispose]();
    this.#empty = Promise.withResolvers<void>();
    const terminateAll = (): void => {
      for (const socket of this.#sockets) socket.terminate('shutdown');
    };
    using late = deadline(this.#limits.clock, withinMs, signal);
    late.signal.addEventListener('abort', terminateAll, { once: true });
    await inSlices([...this.#sockets], (socket) => socket.closeFor('shutdown', 1001));
    if (late.signal.aborted) terminateAll();
    if (this.#sockets.size === 0) this.#empty.resolve();
    await this.#empty.promise;
    this.#relay.close();
  }
}

type AnsweringSocket = Duplex & { readonly _httpMessage?: ServerResponse | null };

/**
 * Lets Node answer in HTTP/1.1, as always, a request for another protocol, such as HTTP/2, and one
 * for a socket that comes behind requests that are not answered yet.
 */
function refuseOtherUpgrades(server: Server): void {
  const shouldUpgradeCallback = ({ headers, method, socket }: IncomingMessage): boolean => {
    const isSocket = method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
    return isSocket && !(socket as AnsweringSocket)._httpMessage;
  };
  Object.assign(server, { shouldUpgradeCallback });
  server.on('upgrade', (_request, socket: AnsweringSocket) => {
    // Node reads no further after a request to upgrade: if a guard answers it instead, the
    // connection is of no more use.
    socket._httpMessage?.once('finish', () => socket.end(() => socket.destroy()));
  });
}
