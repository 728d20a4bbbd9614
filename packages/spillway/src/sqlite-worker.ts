import { parentPort, workerData } from 'node:worker_threads';
import { SqliteHost } from './sqlite-host.ts';
import { type PackedTransactions, packOutcomes, unpackTransactions } from './sqlite-pack.ts';
import type { ToSqlite } from './sqlite-wire.ts';

/** The file that a thread of a SQLite file runs. */
const port = parentPort;
if (port !== null) {
  const host = new SqliteHost(workerData);
  port.on('message', ({ type, texts, parts }: Pick<ToSqlite, 'type'> & PackedTransactions) => {
    const transactions = unpackTransactions({ texts, parts });
    port.postMessage(packOutcomes(host.receive({ type, transactions })));
    if (type === 'close') port.close();
  });
}
