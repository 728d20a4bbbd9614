import { randomBytes } from 'node:crypto';
import { chmod, rename, stat, unlink } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type Clock, systemClock } from 'spillway';
import { check } from 'spillway/internal';

/** The longest path of a socket: macOS takes 103 bytes, and the temporary name has 7 more. */
const pathBytesMax = 96;
const retryMs = 1_000;
/** Connections at once, streams included: a few scrapers and a few people. */
const connectionsMax = 128;
const shutMsMax = 200;

/** The path of the operator's socket in the data folder of a service. */
export function operatorSocket(folder: string): string {
  return join(folder, 'operator.sock');
}

/** Starts a server at an address; resolves once it listens, rejects when it cannot. */
export async function listen(
  handler: RequestListener,
  address: { readonly path: string } | { readonly host: string; readonly port: number },
): Promise<Server> {
  const server = createServer({ headersTimeout: 10_000, requestTimeout: 60_000 }, handler);
  server.maxConnections = connectionsMax;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen(address, resolve);
  await promise;
  server.off('error', reject);
  return server;
}

/** Closes a server; answers that are under way have 200 ms to end. */
export async function shut(server: Server): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeIdleConnections();
  using _cut = systemClock.after(shutMsMax, () => server.closeAllConnections());
  await closed;
}

/**
 * A server on a Unix socket that only its own user may open (mode 0600). One left behind by a
 * crash is replaced. While another server listens there, this one tries again once a second, so
 * that the socket passes to the next instance.
 */
export class SocketListener {
  readonly #path: string;
  readonly #handler: RequestListener;
  readonly #clock: Clock;
  #server: Server | undefined;
  #inode: number | undefined;
  #timer: Disposable | undefined;
  #isClosed = false;

  constructor(path: string, handler: RequestListener, clock: Clock = systemClock) {
    const isShort = path !== '' && Buffer.byteLength(path) <= pathBytesMax;
    check(isShort, 'operator.socket', `a path of 1 to ${pathBytesMax} bytes`, path);
    this.#path = path;
    this.#handler = handler;
    this.#clock = clock;
  }

  async start(): Promise<void> {
    // Renamed from a temporary name, so that the socket has its final mode when it appears.
    const own = `${this.#path}.${randomBytes(3).toString('hex')}`;
    this.#server = await listen(this.#handler, { path: own });
    await chmod(own, 0o600);
    await this.#claim(own);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.[Symbol.dispose]();
    const found = await stat(this.#path).catch(() => undefined);
    const isMine = found !== undefined && found.ino === this.#inode;
    if (isMine) await unlink(this.#path).catch(() => {});
    this.#inode = undefined;
    if (this.#server !== undefined) await shut(this.#server);
  }

  async #claim(own: string): Promise<void> {
    if (await isAlive(this.#path)) {
      if (this.#isClosed) return;
      this.#timer = this.#clock.after(retryMs, () => void this.#claim(own).catch(() => {}));
      return;
    }
    if (this.#isClosed) return;
    const { ino } = await stat(own);
    await rename(own, this.#path);
    this.#inode = ino;
  }
}

async function isAlive(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(path);
  socket.once('connect', () => resolve(true));
  socket.once('error', () => resolve(false));
  const isAlive = await promise;
  socket.destroy();
  return isAlive;
}
