import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Certificate } from 'spillway-fixtures/certificates';

/** Gives what the client shall get instead of a piece of the answer; `end` closes after it. */
type Alter = (chunk: Buffer, end: () => void) => Buffer;

export interface ProxyOptions {
  readonly alter?: Alter | undefined;
  /** Makes the proxy speak TLS to clients that ask for it. */
  readonly certificate?: Certificate | undefined;
  /** A startup parameter that it refuses, as PgBouncer does. */
  readonly refuses?: string | undefined;
}

const sslRequestCode = 80_877_103;

/** The error of PgBouncer 1.18 for a parameter that it does not know. */
function refusal(parameter: string): Buffer {
  const message = `unsupported startup parameter: ${parameter}`;
  const fields = Buffer.from(`SFATAL\0C08P01\0M${message}\0\0`);
  const head = Buffer.from('E\0\0\0\0');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

/** Stands between a client and the server, and can misbehave. */
export class PostgresProxy implements AsyncDisposable {
  readonly #options: ProxyOptions;
  readonly #upstream: URL;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Connections that asked for TLS. */
  secure = 0;
  /** Connections that began without. */
  plain = 0;

  private constructor(url: string, options: ProxyOptions) {
    this.#upstream = new URL(url);
    this.#options = options;
    this.#server = createServer((client) => this.#accept(client));
  }

  static async start(url: string, options: ProxyOptions = {}): Promise<PostgresProxy> {
    const proxy = new PostgresProxy(url, options);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return this.#upstream.href.replace(/:\d+\//, `:${port}/`);
  }

  #accept(client: Socket): void {
    this.#sockets.add(client.on('error', () => {}));
    client.once('data', (first: Buffer) => {
      const asksForTls = first.length === 8 && first.readInt32BE(4) === sslRequestCode;
      const { certificate, refuses } = this.#options;
      if (refuses !== undefined && first.includes(refuses)) {
        client.end(refusal(refuses));
      } else if (asksForTls && certificate !== undefined) {
        this.secure += 1;
        client.write('S');
        const secured = new TLSSocket(client, { isServer: true, ...certificate });
        this.#join(secured.on('error', () => {}));
      } else {
        this.plain += 1;
        this.#join(client, first);
      }
    });
  }

  #join(client: Socket, first?: Buffer): void {
    const upstream = connect(Number(this.#upstream.port), '127.0.0.1');
    this.#sockets.add(upstream.on('error', () => {}));
    if (first !== undefined) upstream.write(first);
    client.pipe(upstream);
    const { alter = (chunk: Buffer) => chunk } = this.#options;
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
