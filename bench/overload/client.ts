import { connect, type Socket } from 'node:net';

/** End of a request: its status, or 0 when the client gave up or could not connect. */
export interface Ended {
  readonly status: number;
  readonly ms: number;
}

/** A connection with one request at a time, and only the HTTP that these servers need. */
class Connection {
  readonly #socket: Socket;
  #text = '';
  #answered: ((status: number) => void) | undefined;

  constructor(
    port: number,
    localAddress: string | undefined,
    gone: (connection: Connection) => void,
  ) {
    // A client address of its own costs a port, which stays taken for a minute.
    const from = localAddress === undefined ? {} : { localAddress };
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true, ...from });
    this.#socket.setEncoding('latin1');
    this.#socket.on('data', (chunk) => this.#read(String(chunk)));
    this.#socket.on('error', () => {});
    this.#socket.on('close', () => {
      this.#end(0);
      gone(this);
    });
  }

  ask(request: string, answered: (status: number) => void): void {
    this.#answered = answered;
    this.#text = '';
    this.#socket.write(request);
  }

  /** Closes the connection of a client that gave up: its late answer must not pass for another. */
  destroy(): void {
    this.#answered = undefined;
    this.#socket.destroy();
  }

  #read(chunk: string): void {
    this.#text += chunk;
    const head = this.#text.indexOf('\r\n\r\n');
    if (head === -1) return;
    const [, length = '0'] = /content-length: (\d+)/i.exec(this.#text) ?? [];
    if (this.#text.length >= head + 4 + Number(length)) this.#end(Number(this.#text.slice(9, 12)));
  }

  #end(status: number): void {
    const answered = this.#answered;
    this.#answered = undefined;
    answered?.(status);
  }
}

/** Sends requests over a bounded number of connections, each with a time limit. */
export class Client {
  readonly #port: number;
  readonly #connectionsMax: number;
  readonly #patienceMs: number;
  readonly #address: string | undefined;
  readonly #idle: Connection[] = [];
  readonly #all = new Set<Connection>();

  constructor(port: number, connectionsMax: number, patienceMs: number, address?: string) {
    this.#port = port;
    this.#connectionsMax = connectionsMax;
    this.#patienceMs = patienceMs;
    this.#address = address;
  }

  get(path: string): Promise<Ended> {
    const { promise, resolve } = Promise.withResolvers<Ended>();
    const connection = this.#idle.pop() ?? this.#open();
    const startedAt = performance.now();
    if (connection === undefined) {
      resolve({ status: 0, ms: this.#patienceMs });
      return promise;
    }
    const timer = setTimeout(() => {
      connection.destroy();
      resolve({ status: 0, ms: this.#patienceMs });
    }, this.#patienceMs);
    connection.ask(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`, (status) => {
      clearTimeout(timer);
      if (status !== 0) this.#idle.push(connection);
      resolve({ status, ms: performance.now() - startedAt });
    });
    return promise;
  }

  close(): void {
    for (const connection of this.#all) connection.destroy();
  }

  #open(): Connection | undefined {
    if (this.#all.size >= this.#connectionsMax) return undefined;
    const connection = new Connection(this.#port, this.#address, (gone) => {
      this.#all.delete(gone);
      const at = this.#idle.indexOf(gone);
      if (at !== -1) this.#idle.splice(at, 1);
    });
    this.#all.add(connection);
    return connection;
  }
}
