// A SQLite file on threads of its own: many callers share one fsync, and readers never wait.
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SqliteFile } from 'spillway';

await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-example-'));
await using file = await SqliteFile.open({ path: join(folder.path, 'votes.db') });
const statement = (sql: string, ...parameters: readonly (string | number)[]) => ({
  sql,
  parameters,
});

await file.write([statement('create table vote (name text primary key, count integer)')]);
const upsert = 'insert into vote values (?, 1) on conflict (name) do update set count = count + 1';
const votes = Array.from({ length: 300 }, (_, at) => (at % 3 === 0 ? 'tea' : 'coffee'));
// Each promise resolves when its own vote is on the disk.
await Promise.all(votes.map((name) => file.write([statement(upsert, name)])));

const { rows } = await file.read(statement('select name, count from vote order by count'));
console.log(rows);

// A transaction that reads before it writes blocks all other writes meanwhile: keep it short.
await file.transaction(async (transaction) => {
  const before = await transaction.run(statement('select count from vote where name = ?', 'tea'));
  await transaction.run(statement('update vote set count = 0'));
  console.log('tea had', before.rows);
});
const { transactions, groups } = file.stats;
console.log(groups < transactions ? 'fewer fsyncs than transactions' : file.stats);
