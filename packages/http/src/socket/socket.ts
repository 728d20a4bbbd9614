import type { Socket } from 'node:net';
import type { WebSocket } from '@fastify/websocket';
import type { FastifyRequest } from 'fastify';
import { Bucket } from 'spillway';
import { untilAborted } from 'spillway/internal';
import { type SocketMessage, socketFrame } from './broadcast.ts';
import type { HubLimits } from './limits.ts';

/**
 * Reason for which a socket closed: its peer (`client`), a handler (`server`) or the end of the
 * server (`shutdown`) closed it; the connection broke (`lost`); a handler threw (`failed`) or took
 * too long (`late`); the peer did not answer a ping (`idle`), read too slowly (`slow`), sent too
 * much (`rate`), too long a message (`size`) or no WebSocket frames (`protocol`).
 */
export type SocketEnd =
  | 'client'
  | 'failed'
  | 'idle'
  | 'late'
  | 'lost'
  | 'protocol'
  | 'rate'
  | 'server'
  | 'shutdown'
  | 'size'
  | 'slow';

/** Handlers of a route; one that throws or rejects closes its socket with 1011. */
export interface SocketHandlers<Data> {
  /** Called first; messages wait until it is done. */
  open?(socket: HubSocket<Data>, request: FastifyRequest): void | Promise<void>;
  /** Called for one message after the other; nothing is read while it has not resolved. */
  message?(socket: HubSocket<Data>, message: string | Buffer): void | Promise<void>;
  /** Called last. */
  close?(socket: HubSocket<Data>, end: SocketEnd): void;
}

/** State that all sockets of a hub share. */
export interface HubContext {
  readonly limits: HubLimits;
  readonly counts: { messagesIn: number; messagesOut: number; dropped: number };
  readonly onClose: (socket: HubSocket, end: SocketEnd) => void;
  readonly onError: (error: unknown) => void;
}

const openState = 1;
/** Milliseconds for which a peer that sent too much may read why it is closed. */
const rateCloseMs = 1_000;

/** One client. A failure of it or of its handlers reaches no other client. */
export class HubSocket<Data = unknown> {
  /** For the handlers: whatever they want to remember of this client. */
  data: Data | undefined;
  /** Rooms that it is in; kept by the hub. */
  readonly rooms: Set<string> = new Set();
  readonly #context: HubContext;
  readonly #handlers: SocketHandlers<Data>;
  readonly #ws: WebSocket;
  readonly #raw: Socket;
  /** Made with the first message: most sockets only listen. */
  #bucket: Bucket | undefined;
  /** Messages that were read while a handler is busy; the bucket's burst bounds them. */
  readonly #pending: (string | Buffer)[] = [];
  #busySince: number | undefined;
  #end: SocketEnd | undefined;
  #isClosed = false;
  #controller: AbortController | undefined;
  /** True if the peer has sent anything since the last ping. */
  #isHeard = true;

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
    ws.on('ping', this.#answerPing);
    ws.on('pong', () => this.#admit());
    ws.on('error', this.#noteError);
    ws.on('close', this.#finish);
  }

  get isOpen(): boolean {
    return this.#ws.readyState === openState && this.#raw.writable;
  }

  get bufferedBytes(): number {
    return this.#raw.writableLength;
  }

  /** Aborts when the socket has closed. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#isClosed) this.#controller.abort();
    return this.#controller.signal;
  }

  /** Sends a message; false when it was dropped: the socket is closed, or its buffer is full. */
  send(message: SocketMessage): boolean {
    return this.sendFrame(socketFrame(message));
  }

  /** Sends a frame that {@link socketFrame} made, which may be sent to many sockets. */
  sendFrame(frame: Buffer): boolean {
    if (!this.#hasRoom(frame.length)) return false;
    this.#context.counts.messagesOut += 1;
    // Not by ws, which would frame the message for each socket and write it in two pieces.
    this.#raw.write(frame);
    return true;
  }

  /** Resolves when the peer has taken all that was sent so far, or the socket has closed. */
  async drained(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    const { signal } = options;
    signal?.throwIfAborted();
    if (!this.isOpen || this.#raw.writableLength === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    // The callback of an empty write comes after all earlier writes, or when the socket closes.
    this.#raw.write('', () => resolve());
    await untilAborted(promise, signal);
  }

  /** Says goodbye; the peer has `closeMsMax` to answer. */
  close(code = 1000, reason = ''): void {
    this.closeFor('server', code, reason);
  }

  /** Closes with a code, for one of the hub's own reasons; the first of them counts. */
  closeFor(end: SocketEnd, code: number, reason = ''): void {
    this.#end ??= end;
    this.#pending.length = 0;
    this.#ws.close(code, reason);
    // The peer's answer could not be heard while reading is paused.
    this.#ws.resume();
  }

  terminate(end: SocketEnd): void {
    this.#end ??= end;
    this.#ws.terminate();
  }

  open(request: FastifyRequest): void {
    this.#run(() => this.#handlers.open?.(this, request));
  }

  /** Pings the peer, or ends the socket if the last ping was not answered. */
  checkAlive(now: number): void {
    if (!this.isOpen) return;
    if (this.#busySince !== undefined) {
      // Nothing is read while a handler works, so silence says nothing.
      const isLate = now - this.#busySince >= this.#context.limits.handlerMsMax;
      if (isLate) this.closeFor('late', 1011);
    } else if (this.#isHeard) {
      this.#isHeard = false;
      this.#ws.ping();
    } else {
      this.terminate('idle');
    }
  }

  #hasRoom(bytes: number): boolean {
    if (!this.isOpen) return false;
    const { limits, counts } = this.#context;
    const buffered = this.#raw.writableLength;
    if (buffered === 0 || buffered + bytes <= limits.bufferedBytesMax) return true;
    counts.dropped += 1;
    // A close frame would wait behind all that is buffered, so the connection is ended.
    if (limits.slow === 'close') this.terminate('slow');
    return false;
  }

  /** Counts something that came against the rate; false when the socket is closed or closing. */
  #admit(): boolean {
    if (!this.isOpen) return false;
    const { messagesPerSecond, messageBurst, clock } = this.#context.limits;
    this.#isHeard = true;
    this.#bucket ??= new Bucket({
      ratePerSecond: messagesPerSecond,
      burst: messageBurst,
      queueMax: 0,
      clock,
    });
    if (this.#bucket.tryTake()) return true;
    this.closeFor('rate', 1008, 'too many messages');
    // Reading on, to hear the peer's answer, would cost as much as the flood does.
    this.#ws.pause();
    const timer = clock.after(rateCloseMs, () => this.#ws.terminate());
    this.#ws.once('close', () => timer[Symbol.dispose]());
    return false;
  }

  readonly #receive = (data: unknown, isBinary: boolean): void => {
    if (this.isOpen) this.#context.counts.messagesIn += 1;
    if (!this.#admit()) return;
    const message = isBinary ? (data as Buffer) : String(data);
    if (this.#busySince === undefined) this.#handle(message);
    else this.#pending.push(message);
  };

  /** Answers if the buffer has room: ws by itself would buffer its answers without bound. */
  readonly #answerPing = (data: Buffer): void => {
    if (this.#admit() && this.#hasRoom(data.length)) this.#ws.pong(data);
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
      working.then(this.#continue, this.#fail);
    } catch (error) {
      this.#fail(error);
    }
  }

  readonly #continue = (): void => {
    this.#busySince = undefined;
    while (this.#pending.length > 0 && this.#busySince === undefined && this.isOpen) {
      this.#handle(this.#pending.shift() as string | Buffer);
    }
    if (this.#busySince === undefined && this.isOpen) this.#ws.resume();
  };

  readonly #fail = (error: unknown): void => {
    this.#busySince = undefined;
    this.#context.onError(error);
    this.closeFor('failed', 1011);
  };

  /** Notes the reason; ws closes the connection by itself and says why to the peer. */
  readonly #noteError = (error: Error & { readonly code?: string }): void => {
    const { code = '' } = error;
    if (/^WS_ERR_UNSUPPORTED_\w+_LENGTH$/.test(code)) this.#end ??= 'size';
    else this.#end ??= code.startsWith('WS_ERR_') ? 'protocol' : 'lost';
    if (this.isOpen) this.#ws.terminate();
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
