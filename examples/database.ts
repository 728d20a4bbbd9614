// One typed database handle: a SQLite file on threads of its own here, postgres://… on a server.
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Database } from 'spillway-sql';

interface Schema {
  readonly account: { readonly owner: string; readonly cents: number };
}

await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-example-'));
const url = `sqlite:${join(folder.path, 'bank.db')}`;
await using database = await Database.open<Schema>({ url });
const create = 'create table account (owner text primary key, cents integer check (cents >= 0))';
await database.migrate([{ number: 1, name: 'accounts', statements: [create] }]);

const { kysely } = database;
// Writes that arrive during an fsync share the next one; each is durable when it resolves.
const open = (owner: string) => kysely.insertInto('account').values({ owner, cents: 100 });
await Promise.all(['ann', 'bob', 'cem'].map((owner) => open(owner).execute()));
await open('ann')
  .execute()
  .catch(({ code, status }) => console.log(code, status));

const pay = (from: string, to: string, cents: number) =>
  database.transaction(async (tx) => {
    const add = (owner: string, sum: number) =>
      tx
        .updateTable('account')
        .set(({ eb }) => ({ cents: eb('cents', '+', sum) }))
        .where('owner', '=', owner)
        .execute();
    await add(to, cents);
    await add(from, -cents);
  });

await pay('ann', 'bob', 60);
await pay('ann', 'cem', 60).catch(({ code }) => console.log('not enough:', code));
console.log(await kysely.selectFrom('account').selectAll().execute());
