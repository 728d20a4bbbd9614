import { parentPort, workerData } from 'node:worker_threads';
import { type PackedTransactions, packOutcomes, unpackTransactions } from '../pack.ts';
import type { ToSqlite } from '../wire.ts';
import { SqliteHost } from './host.ts';

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
