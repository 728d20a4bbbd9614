import type { Socket } from 'node:net';
import type { WebSocket } from '@fastify/websocket';
import type { FastifyRequest } from 'fastify';
import { Bucket } from 'spillway';
import { untilAborted } from 'spillway/internal';
import { pingFrame, type SocketMessage, socketFrame } from './frame.ts';
import type { HubLimits } from './options.ts';

/** Why a socket was closed. */
export type SocketEnd =
  /** The peer closed it. */
  | 'client'
  /** A handler threw. */
  | 'failed'
  /** It was silent, and did not answer a ping. */
  | 'idle'
  /** A handler took too long. */
  | 'late'
  /** The connection broke. */
  | 'lost'
  /** What came was not a WebSocket frame. */
  | 'protocol'
  /** Too many messages came. */
  | 'rate'
  /** A handler closed it. */
  | 'server'
  /** The server stopped. */
  | 'shutdown'
  /** Too long a message came. */
  | 'size'
  /** The peer read too slowly. */
  | 'slow';

/** What a route does with its sockets; what throws or rejects here closes that socket with 1011. */
export interface SocketHandlers<Data> {
  /** The first thing that is called; messages wait until it is done. */
  open?(socket: HubSocket<Data>, request: FastifyRequest): void | Promise<void>;
  /** Called for one message after the other; nothing is read while it has not resolved. */
  message?(socket: HubSocket<Data>, message: string | Buffer): void | Promise<void>;
  /** The last thing that is called. */
  close?(socket: HubSocket<Data>, end: SocketEnd): void;
}

/** What all sockets of a hub share. */
export interface HubContext {
  readonly limits: HubLimits;
  readonly counts: { messagesIn: number; messagesOut: number; dropped: number };
  readonly onClose: (socket: HubSocket, end: SocketEnd) => void;
  readonly onError: (error: unknown) => void;
}

const openState = 1;

/** One client. Nothing that happens to it, in its handlers either, reaches another. */
export class HubSocket<Data = unknown> {
  /** Whatever the handlers want to know of this client. */
  data: Data | undefined;
  /** The rooms it is in; kept by the hub. */
  readonly rooms: Set<string> = new Set();
  readonly #context: HubContext;
  readonly #handlers: SocketHandlers<Data>;
  readonly #ws: WebSocket;
  readonly #raw: Socket;
  #bucket: Bucket | undefined;
  /** What had been read already when a handler began to lag; the bucket's burst bounds it. */
  readonly #pending: (string | Buffer)[] = [];
  #busySince: number | undefined;
  #end: SocketEnd | undefined;
  #isClosed = false;
  #controller: AbortController | undefined;
  #heard = true;
  #pinged = false;

  constructor(
    context: HubContext,
    handlers: SocketHandlers<Data>,
    ws: WebSocket,
    request: FastifyRequest,
  ) {
    this.#context = context;
    this.#handlers = handlers;
    this.#ws = ws;
    this.#raw = request.raw.socket;
    ws.on('message', this.#receive);
    ws.on('pong', this.#hear);
    ws.on('error', this.#break);
    ws.on('close', this.#finish);
  }

  get isOpen(): boolean {
    return this.#ws.readyState === openState && this.#raw.writable;
  }

  /** Bytes that the peer has not taken yet. */
  get bufferedBytes(): number {
    return this.#raw.writableLength;
  }

  /** Aborts when the socket has closed. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#isClosed) this.#controller.abort();
    return this.#controller.signal;
  }

  /** False when it was dropped: the socket is closed, or its buffer has no room. */
  send(message: SocketMessage): boolean {
    return this.sendFrame(socketFrame(message));
  }

  /** The same for what {@link socketFrame} made, which may be sent to many sockets. */
  sendFrame(frame: Buffer): boolean {
    if (!this.isOpen) return false;
    const { limits, counts } = this.#context;
    const buffered = this.#raw.writableLength;
    if (buffered > 0 && buffered + frame.length > limits.bufferedBytesMax) {
      counts.dropped += 1;
      // A close frame would wait behind all that is buffered: this peer is cut off.
      if (limits.slow === 'close') this.cut('slow');
      return false;
    }
    // ws frames every message anew in two writes; this way one write serves a whole broadcast.
    this.#raw.write(frame);
    counts.messagesOut += 1;
    return true;
  }

  /** Resolves when the peer has taken all that was sent so far, or the socket has closed. */
  async drained(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (!this.isOpen || this.#raw.writableLength === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    // Nothing, written behind all else: its callback comes when its turn has come, or at the end.
    this.#raw.write('', () => resolve());
    await untilAborted(promise, signal);
  }

  /** Says goodbye; the peer has `closeMsMax` to answer. */
  close(code = 1000, reason = ''): void {
    this.leave('server', code, reason);
  }

  /** Closes with a code, for the hub's own reasons; the first of them counts. */
  leave(end: SocketEnd, code: number, reason = ''): void {
    this.#end ??= end;
    this.#pending.length = 0;
    this.#ws.close(code, reason);
    // Its answer could not be heard while reading is paused.
    this.#ws.resume();
  }

  /** Ends the connection at once. */
  cut(end: SocketEnd): void {
    this.#end ??= end;
    this.#ws.terminate();
  }

  /** Calls the handler for the open socket. */
  open(request: FastifyRequest): void {
    this.#run(() => this.#handlers.open?.(this, request));
  }

  /** One beat of the hub's timer: pings who is silent, drops who did not answer the last ping. */
  beat(now: number): void {
    if (!this.isOpen) return;
    if (this.#busySince !== undefined) {
      // Nothing is read meanwhile, so its silence says nothing.
      if (now - this.#busySince >= this.#context.limits.handlerMsMax) this.leave('late', 1011);
    } else if (this.#heard) {
      this.#heard = false;
      this.#pinged = false;
    } else if (this.#pinged) {
      this.cut('idle');
    } else {
      this.#pinged = true;
      this.#raw.write(pingFrame);
    }
  }

  readonly #hear = (): void => {
    this.#heard = true;
  };

  readonly #receive = (data: unknown, isBinary: boolean): void => {
    if (!this.isOpen) return;
    const { limits, counts } = this.#context;
    this.#heard = true;
    counts.messagesIn += 1;
    this.#bucket ??= new Bucket({
      ratePerSecond: limits.messagesPerSecond,
      burst: limits.messageBurst,
      queueMax: 0,
      clock: limits.clock,
    });
    if (!this.#bucket.tryTake()) {
      this.leave('rate', 1008, 'too many messages');
      return;
    }
    const message = isBinary ? (data as Buffer) : String(data);
    if (this.#busySince === undefined) this.#handle(message);
    else this.#pending.push(message);
  };

  #handle(message: string | Buffer): void {
    this.#run(() => this.#handlers.message?.(this, message));
  }

  #run(task: () => void | Promise<void> | undefined): void {
    try {
      const working = task();
      if (working === undefined) return;
      this.#busySince = this.#context.limits.clock.now();
      this.#ws.pause();
      working.then(this.#goOn, this.#fail);
    } catch (error) {
      this.#fail(error);
    }
  }

  readonly #goOn = (): void => {
    this.#busySince = undefined;
    while (this.#pending.length > 0 && this.#busySince === undefined && this.isOpen) {
      this.#handle(this.#pending.shift() as string | Buffer);
    }
    if (this.#busySince === undefined && this.isOpen) this.#ws.resume();
  };

  readonly #fail = (error: unknown): void => {
    this.#busySince = undefined;
    this.#context.onError(error);
    this.leave('failed', 1011);
  };

  /** What ws complains of; it closes the connection by itself. */
  readonly #break = (error: Error & { readonly code?: string }): void => {
    if (error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') this.#end ??= 'size';
    else this.#end ??= error.code?.startsWith('WS_ERR_') ? 'protocol' : 'lost';
  };

  readonly #finish = (code: number): void => {
    const end = this.#end ?? (code === 1006 ? 'lost' : 'client');
    this.#isClosed = true;
    this.#pending.length = 0;
    this.#context.onClose(this as HubSocket, end);
    this.#controller?.abort();
    try {
      this.#handlers.close?.(this, end);
    } catch (error) {
      this.#context.onError(error);
    }
  };
}
