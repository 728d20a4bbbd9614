import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { ErrorCode, Store } from 'spillway';
import { Database } from 'spillway-sql';

interface Schema {
  readonly item: { readonly id: number; readonly name: string };
}

const path = join(import.meta.dirname, 'consumer.db');
await using database: Database<Schema> = await Database.open<Schema>({ url: `sqlite:${path}` });
const statements = ['create table item (id integer primary key, name text)'];
assert.equal(await database.migrate([{ number: 1, name: 'items', statements }]), 1);
const { kysely } = database;
await kysely.insertInto('item').values({ id: 1, name: 'one' }).execute();
const names: { name: string }[] = await kysely.selectFrom('item').select('name').execute();
assert.deepEqual(names, [{ name: 'one' }]);
// @ts-expect-error: the types travel with the package, so a misspelled column is found.
await assert.rejects(kysely.selectFrom('item').select('nam').execute(), /no such column/);
const code: ErrorCode = 'DATABASE_MIGRATION';
await assert.rejects(database.migrate([]), { code });
await using store: Store = await database.store();
assert.equal((await store.commit([{ name: 'a', value: 1 }]))?.version, 1);
const hasDriver = () => {
  return Object.keys(createRequire(import.meta.url).cache).some((path) => /\bpg\b/.test(path));
};
assert.ok(!hasDriver(), 'the driver of Postgres is loaded for SQLite');
// Without a server it can only say so, but in our words, and that it may be tried again.
await using remote = await Database.open<Schema>({ url: 'postgres://u:p@127.0.0.1:1/none' });
const lost = { code: 'DATABASE_LOST', retryable: true };
await assert.rejects(remote.kysely.selectFrom('item').selectAll().execute(), lost);
assert.ok(hasDriver());
console.log('the packed database works');
