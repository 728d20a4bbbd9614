// Runs on every Node that is supported, and from a bundle: so there is no `using` in it.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { Lane, outbound, Pool, SqliteFile, SqliteStore } from 'spillway';
import { admitted, Listener } from 'spillway/connect';

const module = new URL('./worker.ts', import.meta.url);
const settings = { module, workers: 1, queueMax: 1, deadlineMs: 10_000 };
const pool = await Pool.open<typeof import('./worker.ts')>(settings);
assert.equal(await pool.run('double', 21), 42);
assert.equal((await pool.run('zeros', 8)).byteLength, 8);
await pool.close();

if (process.version.startsWith('v22.')) {
  // Node 22 has no authorizer for SQLite, by which a transaction is kept whole.
  await assert.rejects(SqliteFile.open({ path: 'plain.db' }), /SqliteFile: Node: must be 24/);
} else {
  const store = await SqliteStore.open({ path: 'everywhere.db' });
  await store.commit([{ name: 'greeting', value: 'hello' }]);
  assert.equal((await store.read(['greeting'])).records[0]?.value, 'hello');
  await store.close();
}

const lane = new Lane({ name: 'all', limit: 4, queueMax: 4, deadlineMs: 5_000 });
const answer = admitted(lane, async (_req, res) => res.end('answered'));
const listener = new Listener(createServer(answer));
await listener.start();
const response = await outbound({ rate: 10 }).fetch(listener.url);
assert.equal(await response.text(), 'answered');
await listener.close();
console.log(`works on ${process.version}`);
