import { parentPort, workerData } from 'node:worker_threads';
import { SqliteHost } from './sqlite-host.ts';
import type { ToSqlite } from './sqlite-wire.ts';

/** The file that a thread of a SQLite file runs. */
const port = parentPort;
if (port !== null) {
  const host = new SqliteHost(workerData);
  port.on('message', (message: ToSqlite) => {
    port.postMessage(host.receive(message));
    if (message.type === 'close') port.close();
  });
}
