import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { onceAborted } from '../base/abort.ts';
import { check } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { clockRule, integer, or, settle, word } from '../base/options.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import { tracing } from '../base/trace.ts';
import { nextTurn } from '../wait/turn-budget.ts';

export interface ListenOptions {
  /** Name of the part. @default 'http' */
  readonly name?: string | undefined;
  /** Address to listen at. @default '127.0.0.1' */
  readonly host?: string | undefined;
  /** Port to listen at; 0 takes a free one. An integer from 0 to 65,535. @default 0 */
  readonly port?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** Milliseconds that a client has to finish its body once it has been answered. */
const lingerMs = 5_000;

/**
 * Ends a request that was answered before its body had come. Node tells the reader of the body
 * nothing more, even when the client leaves: a handler that reads would hold its permit for ever.
 */
export function endUnread(req: IncomingMessage, clock: Clock): void {
  if (req.complete || req.destroyed) return;
  const timer = clock.after(lingerMs, () => req.destroy());
  req.once('close', () => timer[Symbol.dispose]());
}

/**
 * A server of `node:http` as a part, whatever framework answers its requests. Closing it ends idle
 * connections, lets requests under way finish, and cuts them at the limit.
 * `new Service({ parts: [pool, new Listener(createServer(app), { port: 8080 })] })`
 */
export class Listener implements Part, AsyncDisposable {
  readonly name: string;
  readonly #server: Server;
  readonly #host: string;
  readonly #port: number;
  readonly #sockets = new Set<Socket>();
  readonly #closing: Closing;
  #listening: Promise<unknown> | undefined = undefined;

  constructor(server: Server, options: ListenOptions = {}) {
    const { name, host, port, clock } = settle('Listener', options, {
      name: or(word, 'http'),
      host: or(word, '127.0.0.1'),
      port: or(integer(0, 65_535), 0),
      clock: or(clockRule, systemClock),
    });
    check(typeof Object(server).listen === 'function', 'Listener: server', 'a Server', server);
    this.name = name;
    this.#server = server;
    this.#host = host;
    this.#port = port;
    this.#closing = new Closing(clock, this.#finish);
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    server.prependListener('request', (req: IncomingMessage, res: ServerResponse) => {
      if (this.#closing.hasBegun) res.setHeader('connection', 'close');
      res.once('close', () => {
        endUnread(req, clock);
        if (this.#closing.hasBegun) nextTurn(() => server.closeIdleConnections());
      });
    });
  }

  get ready(): boolean {
    return this.#server.listening && !this.#closing.hasBegun;
  }

  /** The address at which it listens: `http://127.0.0.1:8080`. */
  get url(): string {
    const bound = this.#server.address();
    if (typeof bound !== 'object' || bound === null) return '';
    const host = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
    return `http://${host}:${bound.port}`;
  }

  /** Listens; rejects with an `AbortError` if `close` has been called before, or is meanwhile. */
  async start(): Promise<void> {
    if (this.#closing.hasBegun) throw closedError();
    tracing.tracer?.listen(this.#server);
    this.#listening = once(this.#server, 'listening');
    this.#server.listen(this.#port, this.#host);
    await this.#listening;
    if (!this.#closing.hasBegun) return;
    this.#server.close();
    throw closedError();
  }

  close(options: CloseOptions = {}): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  readonly #finish = async (limit: AbortSignal): Promise<void> => {
    const server = this.#server;
    // A server that does not listen yet cannot be closed; `start` closes it if the time is over.
    await Promise.race([this.#listening, onceAborted(limit)]).catch(() => {});
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    // Node takes a connection that has sent nothing yet for one in the middle of a request.
    for (const socket of this.#sockets) if (socket.bytesRead === 0) socket.destroy();
    await Promise.race([closed, onceAborted(limit)]);
    server.closeAllConnections();
  };
}

function closedError(): DOMException {
  return new DOMException('the listener is closed', 'AbortError');
}
