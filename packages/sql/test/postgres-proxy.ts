import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Gives what the client shall get instead of a piece of the answer; `end` closes after it. */
type Alter = (chunk: Buffer, end: () => void) => Buffer;

/** Stands between a client and the server, and can misbehave. */
export class PostgresProxy implements AsyncDisposable {
  readonly url: string;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;

  private constructor(url: string, server: Server, sockets: Set<Socket>) {
    this.url = url;
    this.#server = server;
    this.#sockets = sockets;
  }

  static async start(url: string, alter: Alter = (chunk) => chunk): Promise<PostgresProxy> {
    const sockets = new Set<Socket>();
    const server = createServer((client) => {
      const upstream = connect(Number(new URL(url).port), '127.0.0.1');
      for (const one of [client, upstream]) sockets.add(one.on('error', () => {}));
      client.pipe(upstream);
      upstream.on('data', (chunk) => {
        let isOver = false;
        const altered = alter(chunk, () => {
          isOver = true;
        });
        client.write(altered);
        if (!isOver) return;
        client.end();
        upstream.destroy();
      });
      upstream.on('end', () => client.end());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    return new PostgresProxy(url.replace(/:\d+\//, `:${port}/`), server, sockets);
  }

  /** The connections of now stay open, but nothing comes through any more. */
  fallSilent(): void {
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}
