import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import websocket, { type WebSocket } from '@fastify/websocket';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyPluginAsync,
  FastifyRequest,
} from 'fastify';
import { fastifyPlugin } from 'fastify-plugin';
import { httpError } from '../base/errors.ts';
import { BroadcastQueue, type BroadcastResult, inSlices } from './broadcast.ts';
import { HubDoor } from './connection-limit.ts';
import { FanOut, type FanOutStats } from './fan-out.ts';
import { type SocketMessage, socketFrame } from './frame.ts';
import { type HubLimits, hubLimits, type WebSocketHubOptions } from './options.ts';
import { type HubContext, HubSocket, type SocketEnd, type SocketHandlers } from './socket.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True for the routes of a WebSocketHub: all others refuse an upgrade. */
    readonly socket?: boolean;
  }
}

export interface SocketRoute<Data> extends SocketHandlers<Data> {
  /** The route's config, such as its lane, whose permit is held during the handshake only. */
  readonly config?: Readonly<Record<string, unknown>> | undefined;
}

export interface WebSocketHubStats {
  readonly open: number;
  readonly rooms: number;
  readonly messagesIn: number;
  /** Messages handed to sockets, each counted for each of them. */
  readonly messagesOut: number;
  /** Messages that a socket's buffer had no room for, and broadcasts that were refused. */
  readonly dropped: number;
  /** Broadcasts under way or waiting. */
  readonly broadcasting: number;
  /** How many upgrades were refused, by reason. */
  readonly refused: { readonly full: number; readonly origin: number };
  /** How many sockets have closed, by reason. */
  readonly closed: Readonly<Partial<Record<SocketEnd, number>>>;
  readonly fanOut: FanOutStats;
}

/**
 * WebSockets with rooms, for one Fastify instance: `app.register(hub.plugin)`, then
 * `hub.route(app, path, handlers)`.
 */
export class WebSocketHub implements AsyncDisposable {
  readonly #limits: HubLimits;
  readonly #door: HubDoor;
  readonly #sockets = new Set<HubSocket>();
  /** No empty ones; each socket is in `roomsPerSocketMax` at most. */
  readonly #rooms = new Map<string, Set<HubSocket>>();
  readonly #broadcasts = new BroadcastQueue();
  readonly #counts = { messagesIn: 0, messagesOut: 0, dropped: 0 };
  readonly #closed: Partial<Record<SocketEnd, number>> = {};
  readonly #fanOut: FanOut;
  readonly #context: HubContext;
  #log: FastifyBaseLogger | undefined;
  #timer: Disposable | undefined;
  #closing: Promise<void> | undefined;
  #empty: PromiseWithResolvers<void> | undefined;

  constructor(options: WebSocketHubOptions = {}) {
    this.#limits = hubLimits(options);
    this.#door = new HubDoor(this.#limits, options.origins);
    this.#context = {
      limits: this.#limits,
      counts: this.#counts,
      onClose: (socket, end) => this.#remove(socket, end),
      onError: (error) => this.#log?.error({ err: error }, 'a socket handler failed'),
    };
    this.#fanOut = new FanOut(options, (room, frame) => void this.#deliver(room, frame));
  }

  get stats(): WebSocketHubStats {
    return {
      open: this.#sockets.size,
      rooms: this.#rooms.size,
      ...this.#counts,
      broadcasting: this.#broadcasts.size,
      refused: { ...this.#door.refused },
      closed: { ...this.#closed },
      fanOut: this.#fanOut.stats,
    };
  }

  /** To be registered once, before the routes. */
  readonly plugin: FastifyPluginAsync = fastifyPlugin(
    async (app: FastifyInstance) => {
      this.#log = app.log;
      const { messageBytesMax, closeMsMax } = this.#limits;
      const limits = { maxPayload: messageBytesMax, closeTimeout: closeMsMax };
      await app.register(websocket, {
        options: { ...limits, clientTracking: false },
        // ws closes what it complains of by itself, and says why to the peer.
        errorHandler: (_error, socket) => {
          if (socket.readyState === socket.OPEN) socket.terminate();
        },
        preClose: () => this.close(),
      });
      takeOnlySockets(app.server);
      app.addHook('onRequest', async (request) => {
        if (request.ws && request.routeOptions.config.socket !== true) {
          throw httpError('NOT_FOUND', 'there is no socket at this path');
        }
      });
      app.addHook('onReady', () => this.#fanOut.start());
    },
    { name: 'spillway-sockets', fastify: '5.x' },
  );

  /** Takes sockets at this path. */
  route<Data = unknown>(app: FastifyInstance, path: string, route: SocketRoute<Data>): void {
    const { config, ...handlers } = route;
    app.route({
      method: 'GET',
      url: path,
      websocket: true,
      config: { ...config, socket: true },
      onRequest: async (request) => {
        if (request.ws) this.#door.enter(request);
      },
      handler: (ws, request) => this.#open(handlers, ws, request),
    });
  }

  /** False when it is in as many rooms as it may be, or has closed. */
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

  /** How many sockets of this instance are in the room. */
  count(room: string): number {
    return this.#rooms.get(room)?.size ?? 0;
  }

  /**
   * Sends to all who are in the room now, here and on the other instances. Never rejects: what
   * could not be sent is counted. Broadcasts reach a socket in the order of their calls.
   */
  async broadcast(room: string, message: SocketMessage): Promise<BroadcastResult> {
    const frame = socketFrame(message);
    this.#fanOut.publish(room, frame);
    return this.#deliver(room, frame);
  }

  /** Closes all sockets with 1001; those that do not answer in time are cut. */
  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #open<Data>(handlers: SocketHandlers<Data>, ws: WebSocket, request: FastifyRequest): void {
    const socket = new HubSocket<Data>(this.#context, handlers, ws, request);
    releasePermit(request);
    this.#sockets.add(socket as HubSocket);
    this.#timer ??= this.#limits.clock.after(this.#limits.idleMs, this.#beat);
    if (this.#closing === undefined) socket.open(request);
    else socket.leave('shutdown', 1001);
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
  readonly #beat = (): void => {
    const { clock, idleMs } = this.#limits;
    void inSlices([...this.#sockets], (socket) => socket.beat(clock.now())).then(() => {
      const isNeeded = this.#sockets.size > 0 && this.#closing === undefined;
      this.#timer = isNeeded ? clock.after(idleMs, this.#beat) : undefined;
    });
  };

  async #closeAll(): Promise<void> {
    this.#door.close();
    this.#timer?.[Symbol.dispose]();
    this.#empty = Promise.withResolvers<void>();
    const late = this.#limits.clock.after(this.#limits.closeMsMax, () => {
      for (const socket of this.#sockets) socket.cut('shutdown');
    });
    await inSlices([...this.#sockets], (socket) => socket.leave('shutdown', 1001));
    if (this.#sockets.size === 0) this.#empty.resolve();
    await this.#empty.promise;
    late[Symbol.dispose]();
    this.#fanOut.stop();
  }
}

/** A connection, and the answer that it carries now. */
type Carrier = Duplex & { readonly _httpMessage?: ServerResponse | null };

/**
 * Who would like to speak something else, such as HTTP/2, is answered in HTTP/1.1 as always, and so
 * is who asks for a socket behind requests that are not answered yet.
 */
function takeOnlySockets(server: Server): void {
  const shouldUpgradeCallback = ({ headers, method, socket }: IncomingMessage): boolean => {
    const isSocket = method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
    return isSocket && !(socket as Carrier)._httpMessage;
  };
  Object.assign(server, { shouldUpgradeCallback });
  server.on('upgrade', (_request, socket: Carrier) => {
    // Nobody reads what comes after a request to upgrade: if it is answered, by whatever guard,
    // instead of upgraded, its connection is of no more use.
    socket._httpMessage?.once('finish', () => socket.end(() => socket.destroy()));
  });
}

/** A lane's permit is for the handshake: a socket may stay open for days. */
function releasePermit(request: FastifyRequest): void {
  const { permit } = request as { readonly permit?: Disposable | undefined };
  permit?.[Symbol.dispose]?.();
}
