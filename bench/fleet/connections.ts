import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** One request at a time on a connection that is kept. */
class Connection {
  readonly socket: Socket;
  #heard = '';
  #answer: PromiseWithResolvers<string> | undefined;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding('latin1').on('data', (chunk: string) => this.#hear(chunk));
    socket.on('close', () => this.#answer?.reject(new Error('the server closed the connection')));
  }

  /** False once the server has closed it, as it does when nothing comes for a while. */
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

/** Connections that are kept between requests, as a proxy in front of a server keeps them. */
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

  /** Opens as many as are needed for so many requests at the same moment. */
  async open(count: number): Promise<void> {
    const missing = Math.max(0, count - this.#idle.filter(({ isOpen }) => isOpen).length);
    // Some at a time: a server takes up only so many that have just come.
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
