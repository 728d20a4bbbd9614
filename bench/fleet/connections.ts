import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** A keep-alive connection with one request at a time. */
class Connection {
  readonly socket: Socket;
  #heard = '';
  #answer: PromiseWithResolvers<string> | undefined;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding('latin1').on('data', (chunk: string) => this.#hear(chunk));
    socket.on('close', () => this.#answer?.reject(new Error('the server closed the connection')));
  }

  /** False once the server has closed it, which it does after some idle time. */
  get isOpen(): boolean {
    return this.socket.readable && this.socket.writable;
  }

  /** The text of the answer; rejects if its status is not 200. */
  post(path: string, body: string): Promise<string> {
    this.#answer = Promise.withResolvers<string>();
    this.socket.write(
      `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n` +
        `content-length: ${body.length}\r\n\r\n${body}`,
    );
    return this.#answer.promise;
  }

  #hear(chunk: string): void {
    this.#heard += chunk;
    const start = this.#heard.indexOf('\r\n\r\n') + 4;
    if (start < 4) return;
    const length = /\r\ncontent-length: (\d+)/i.exec(this.#heard)?.[1];
    if (this.#heard.length < start + Number(length)) return;
    const heard = this.#heard;
    this.#heard = '';
    if (heard.startsWith('HTTP/1.1 200 ')) this.#answer?.resolve(heard.slice(start));
    else this.#answer?.reject(new Error(heard));
  }
}

const openedAtOnce = 100;

/** A pool of keep-alive connections, such as a proxy in front of a server has. */
export class Connections implements Disposable {
  readonly #port: number;
  readonly #idle: Connection[] = [];
  readonly #all: Connection[] = [];

  constructor(port: number) {
    this.#port = port;
  }

  async post(path: string, body: string): Promise<string> {
    let connection = this.#idle.pop();
    while (connection?.isOpen === false) connection = this.#idle.pop();
    const used = connection ?? (await this.#open());
    return await used.post(path, body).finally(() => this.#idle.push(used));
  }

  /** Opens enough connections for this many requests at the same moment. */
  async open(count: number): Promise<void> {
    const missing = Math.max(0, count - this.#idle.filter(({ isOpen }) => isOpen).length);
    // A few at a time: the server's backlog for new connections is bounded.
    for (let left = missing; left > 0; left -= openedAtOnce) {
      const some = Array.from({ length: Math.min(left, openedAtOnce) }, () => this.#open());
      this.#idle.push(...(await Promise.all(some)));
    }
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
