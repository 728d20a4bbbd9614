import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** One request at a time on a connection that is kept. */
class Connection {
  readonly socket: Socket;
  #heard = '';
  #answered: ((body: string) => void) | undefined;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding('latin1').on('data', (chunk: string) => this.#hear(chunk));
  }

  /** False once the server has closed it, as it does when nothing comes for a while. */
  get isOpen(): boolean {
    return this.socket.readable && this.socket.writable;
  }

  post(path: string, body: string): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.#answered = resolve;
    this.socket.write(
      `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n` +
        `content-length: ${body.length}\r\n\r\n${body}`,
    );
    return promise;
  }

  #hear(chunk: string): void {
    this.#heard += chunk;
    const start = this.#heard.indexOf('\r\n\r\n') + 4;
    if (start < 4) return;
    const length = /\r\ncontent-length: (\d+)/i.exec(this.#heard)?.[1];
    if (this.#heard.length < start + Number(length)) return;
    const body = this.#heard.slice(start);
    if (!this.#heard.startsWith('HTTP/1.1 200 ')) throw new Error(this.#heard);
    this.#heard = '';
    this.#answered?.(body);
  }
}

/** Connections that are kept between requests, as a proxy in front of a server keeps them. */
export class Connections implements Disposable {
  readonly #port: number;
  readonly #idle: Connection[] = [];
  readonly #all: Connection[] = [];

  constructor(port: number) {
    this.#port = port;
  }

  /** The answer's text; throws if its status is not 200. */
  async post(path: string, body: string): Promise<string> {
    let connection = this.#idle.pop();
    while (connection?.isOpen === false) connection = this.#idle.pop();
    connection ??= await this.#open();
    const answer = await connection.post(path, body);
    this.#idle.push(connection);
    return answer;
  }

  async #open(): Promise<Connection> {
    const socket = connect({ port: this.#port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    const connection = new Connection(socket);
    this.#all.push(connection);
    return connection;
  }

  [Symbol.dispose](): void {
    for (const { socket } of this.#all) socket.destroy();
  }
}
