import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { type Duplex, pipeline } from 'node:stream';
import type { AddressGuard } from './address-guard.ts';
import { webUrl } from './canonical-url.ts';

const connectionsMax = 256;
/** The idle time after which a connection is closed, in milliseconds. */
const idleMsMax = 30_000;

/**
 * The proxy on this machine through which the browser makes all its connections, also those of
 * scripts, sockets and redirects. It connects only to addresses that the guard permits.
 */
export class GuardProxy {
  readonly #guard: AddressGuard;
  readonly #server: Server;
  /** Both sides of all connections; the server bounds how many it accepts. */
  readonly #sockets = new Set<Duplex>();

  static async open(guard: AddressGuard): Promise<GuardProxy> {
    const proxy = new GuardProxy(guard);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  private constructor(guard: AddressGuard) {
    this.#guard = guard;
    this.#server = createServer((incoming, answer) => this.#forward(incoming, answer));
    this.#server.maxConnections = connectionsMax;
    this.#server.on('connect', (incoming, socket, head) => this.#tunnel(incoming, socket, head));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.closeAllConnections();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, 'close');
  }

  #tunnel({ url: authority = '' }: IncomingMessage, socket: Duplex, head: Buffer): void {
    const refuse = () => socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    this.#keep(socket);
    const target = webUrl(`http://${authority}`);
    if (target === undefined) {
      refuse();
      return;
    }
    const outward = this.#connect(target.hostname, Number(target.port || 80));
    outward?.once('error', refuse).once('connect', () => {
      outward.off('error', refuse);
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      outward.write(head);
      // When one side ends, the other is closed, too.
      pipeline(socket, outward, () => outward.destroy());
      pipeline(outward, socket, () => socket.destroy());
    });
    if (outward === undefined) refuse();
    else socket.once('close', () => outward.destroy());
  }

  #forward(incoming: IncomingMessage, answer: ServerResponse): void {
    const target = webUrl(incoming.url ?? '');
    const refuse = () => {
      if (!answer.headersSent) answer.writeHead(403);
      answer.end();
    };
    // A request with a bare path is not meant for a proxy: another program found the port.
    if (target?.protocol !== 'http:') {
      refuse();
      return;
    }
    const socket = this.#connect(target.hostname, Number(target.port || 80));
    if (socket === undefined) {
      refuse();
      return;
    }
    const { method, headers: sent } = incoming;
    const own = /^(connection|proxy-.*)$/;
    const headers = Object.fromEntries(Object.entries(sent).filter(([name]) => !own.test(name)));
    // With any agent, even `false`, Node would open its own connection and not use this one.
    const outward = request(target, { method, headers, createConnection: () => socket });
    outward.once('error', refuse).once('response', (response) => {
      answer.writeHead(response.statusCode ?? 502, response.headers);
      pipeline(response, answer, () => {});
    });
    pipeline(incoming, outward, () => {});
  }

  #connect(host: string, port: number): Socket | undefined {
    try {
      this.#guard.check(host);
    } catch {
      return undefined;
    }
    const { lookup } = this.#guard;
    const socket = connect({ host: host.replace(/^\[(.*)\]$/, '$1'), port, lookup });
    return this.#keep(socket.setTimeout(idleMsMax, () => socket.destroy()));
  }

  #keep<S extends Duplex>(socket: S): S {
    this.#sockets.add(socket);
    socket.on('error', () => {}).once('close', () => this.#sockets.delete(socket));
    return socket;
  }
}
