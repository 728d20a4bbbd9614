import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type Generated, sql } from 'kysely';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { Database, type DatabaseKind, type Migration } from 'spillway-sql';

interface Schema {
  readonly account: { id: number; owner: string; cents: number };
  readonly entry: { id: Generated<number>; account_id: number; note: string | null };
}

const migrations: readonly Migration[] = [
  {
    number: 1,
    name: 'accounts',
    statements: [
      'create table account (id integer primary key, owner text not null unique, ' +
        'cents integer not null check (cents >= 0))',
    ],
  },
  {
    number: 2,
    name: 'entries',
    statements: {
      sqlite: [
        'create table entry (id integer primary key autoincrement, ' +
          'account_id integer not null references account (id), note text)',
      ],
      postgres: [
        'create table entry (id integer generated always as identity primary key, ' +
          'account_id integer not null references account (id), note text)',
      ],
    },
  },
];

for (const kind of ['sqlite', 'postgres'] satisfies DatabaseKind[]) {
  describe(`a ${kind} database`, () => {
    const resources = new AsyncDisposableStack();
    let count = 0;
    let freshUrl: () => Promise<string>;

    before(async () => {
      if (kind === 'sqlite') {
        const folder = resources.use(await mkdtempDisposable(join(tmpdir(), 'spillway-sql-')));
        freshUrl = async () => `sqlite:${join(folder.path, `${count++}.db`)}`;
      } else {
        const server = resources.use(await PostgresServer.start());
        freshUrl = () => server.createDatabase(`test_${count++}`);
      }
    });

    after(() => resources.disposeAsync());

    const open = (url: string): Promise<Database<Schema>> => Database.open<Schema>({ url });

    async function openMigrated(): Promise<Database<Schema>> {
      const database = await open(await freshUrl());
      await database.migrate(migrations);
      return database;
    }

    const ada = { id: 1, owner: 'ada', cents: 100 };
    const bob = { id: 2, owner: 'bob', cents: 0 };

    it('gives back what was written, counts as numbers', async () => {
      await using database = await openMigrated();
      const { kysely } = database;
      await kysely.insertInto('account').values([ada, bob]).execute();
      assert.deepEqual(await kysely.selectFrom('account').selectAll().orderBy('id').execute(), [
        ada,
        bob,
      ]);
      const { n } = await kysely
        .selectFrom('account')
        .select(({ fn }) => fn.countAll().as('n'))
        .executeTakeFirstOrThrow();
      assert.equal(n, 2);
      const update = await kysely.updateTable('account').set({ cents: 7 }).executeTakeFirst();
      assert.equal(update.numUpdatedRows, 2n);
      const { rows } = await sql<{
        owner: string;
      }>`select owner from account where id = ${2}`.execute(kysely);
      assert.deepEqual({ ...rows[0] }, { owner: 'bob' });
    });

    it('commits a transaction whole, and rolls it back whole', async () => {
      await using database = await openMigrated();
      await database.transaction(async (tx) => {
        await tx.insertInto('account').values(ada).execute();
        const row = { account_id: 1, note: 'first' };
        const { id } = await tx
          .insertInto('entry')
          .values(row)
          .returning('id')
          .executeTakeFirstOrThrow();
        assert.equal(id, 1);
      });
      const failure = new Error('changed my mind');
      const rejected = database.transaction(async (tx) => {
        await tx.updateTable('account').set({ cents: 5 }).execute();
        throw failure;
      });
      await assert.rejects(rejected, failure);
      const { cents } = await database.kysely
        .selectFrom('account')
        .select('cents')
        .executeTakeFirstOrThrow();
      assert.equal(cents, 100);
      await database.kysely.transaction().execute((tx) => tx.deleteFrom('entry').execute());
      assert.deepEqual(await database.kysely.selectFrom('entry').selectAll().execute(), []);
    });

    it('makes a batch all or nothing', async () => {
      await using database = await openMigrated();
      const { kysely } = database;
      const [inserted, found] = await database.batch([
        kysely.insertInto('account').values([ada, bob]).compile(),
        kysely.selectFrom('account').select('owner').orderBy('id').compile(),
      ]);
      assert.equal(inserted.numAffectedRows, 2n);
      assert.deepEqual(
        found.rows.map(({ owner }) => owner),
        ['ada', 'bob'],
      );
      const broken = database.batch([
        kysely.updateTable('account').set({ cents: 1 }).compile(),
        kysely.insertInto('account').values(ada).compile(),
      ]);
      await assert.rejects(broken, { code: 'DATABASE_CONSTRAINT' });
      const rows = await kysely.selectFrom('account').select('cents').orderBy('id').execute();
      assert.deepEqual(
        rows.map(({ cents }) => cents),
        [100, 0],
      );
    });

    it('says which constraint was violated, and that a retry does not help', async () => {
      await using database = await openMigrated();
      const { kysely } = database;
      await kysely.insertInto('account').values(ada).execute();
      const constraint = { code: 'DATABASE_CONSTRAINT', status: 409, retryable: false };
      const twice = kysely.insertInto('account').values({ ...bob, owner: 'ada' });
      await assert.rejects(twice.execute(), constraint);
      await assert.rejects(kysely.updateTable('account').set({ cents: -1 }).execute(), constraint);
      const stray = kysely.insertInto('entry').values({ account_id: 9, note: null });
      await assert.rejects(stray.execute(), constraint);
      await assert.rejects(sql`select missing from nowhere`.execute(kysely), /nowhere/);
    });

    it('loses no update to concurrent transactions', async () => {
      await using database = await openMigrated();
      await database.kysely.insertInto('account').values(bob).execute();
      const add = () =>
        database.transaction(async (tx) => {
          const lock = tx.updateTable('account').set(({ eb }) => ({ cents: eb('cents', '+', 1) }));
          await lock.execute();
        });
      await Promise.all(Array.from({ length: 50 }, add));
      const { cents } = await database.kysely
        .selectFrom('account')
        .select('cents')
        .executeTakeFirstOrThrow();
      assert.equal(cents, 50);
    });

    it('refuses what was aborted before it began, and leaves nothing behind', async () => {
      await using database = await openMigrated();
      const signal = AbortSignal.abort(new Error('gone'));
      const { kysely } = database;
      const insert = kysely.insertInto('account').values(ada);
      await assert.rejects(insert.execute({ signal }), /gone/);
      await assert.rejects(
        database.transaction((tx) => tx.insertInto('account').values(ada).execute(), { signal }),
        /gone/,
      );
      await assert.rejects(database.batch([insert.compile()], { signal }), /gone/);
      assert.deepEqual(await kysely.selectFrom('account').selectAll().execute(), []);
      const { stats } = database;
      assert.equal('lane' in stats ? stats.lane.inside : stats.inside, 0);
    });

    it('rolls back a transaction whose caller has left, for good', async () => {
      await using database = await openMigrated();
      const controller = new AbortController();
      const held = Promise.withResolvers<void>();
      const inside = Promise.withResolvers<void>();
      const transaction = database.transaction(
        async (tx) => {
          await tx.insertInto('account').values(ada).execute();
          inside.resolve();
          await held.promise;
        },
        { signal: controller.signal },
      );
      await inside.promise;
      controller.abort(new Error('left'));
      await assert.rejects(transaction, /left/);
      held.resolve();
      await database.kysely.insertInto('account').values(bob).execute();
      const rows = await database.kysely.selectFrom('account').select('owner').execute();
      assert.deepEqual(
        rows.map(({ owner }) => owner),
        ['bob'],
      );
    });

    it('applies each migration once, and refuses a changed or a missing one', async () => {
      const url = await freshUrl();
      await using database = await open(url);
      assert.equal(await database.migrate(migrations.slice(0, 1)), 1);
      assert.equal(await database.migrate(migrations), 1);
      assert.equal(await database.migrate(migrations), 0);
      const [first, second] = migrations as [Migration, Migration];
      await assert.rejects(database.migrate([first]), {
        code: 'DATABASE_MIGRATION',
        message: 'migration 2 (entries) was applied but is not known here: start the newer version',
      });
      const changed = { ...first, statements: ['create table account (id integer)'] };
      await assert.rejects(database.migrate([changed, second]), {
        message: 'migration 1 (accounts) has changed since it was applied',
      });
      await assert.rejects(database.migrate([{ ...first, name: 'users' }, second]), {
        code: 'DATABASE_MIGRATION',
        message: 'the database is of another program, whose first tables are "accounts"',
      });
      await assert.rejects(database.migrate([first, { ...second, number: 3 }]), /without gaps/);
    });

    it('tells another program whose database it is', async () => {
      await using database = await open(await freshUrl());
      assert.equal(await database.migrate(migrations, { program: 'shop' }), 2);
      assert.equal(await database.migrate(migrations, { program: 'shop' }), 0);
      assert.equal(await database.migrate(migrations), 0, 'who has no name is believed');
      const [first] = migrations as [Migration];
      await assert.rejects(database.migrate([{ ...first, name: 'users' }], { program: 'mill' }), {
        code: 'DATABASE_MIGRATION',
        message: 'the database belongs to shop: mill needs another one',
      });
    });

    it('applies all of a migration or nothing', async () => {
      await using database = await open(await freshUrl());
      const broken = { ...(migrations[0] as Migration) };
      const statements = ['create table account (id integer)', 'create nonsense'];
      await assert.rejects(
        database.migrate([{ ...broken, statements }]),
        /migration 1 \(accounts\) failed: .*nonsense/,
      );
      assert.equal(await database.migrate(migrations), 2);
    });
  });
}

describe('Database.open', () => {
  it('refuses an address that it does not know', async () => {
    await assert.rejects(Database.open({ url: 'mysql://localhost' }), /sqlite: or postgres/);
    await assert.rejects(Database.open({ url: 'sqlite:' }), /sqlite: or postgres/);
    await assert.rejects(Database.open({ url: 'postgres://x', deadlineMs: 0 }), /deadlineMs/);
    await assert.rejects(
      Database.open({ url: 'postgres://x', connectionsMax: 0 }),
      /^AssertionError.*: connectionsMax: must be an integer from 1, got 0/,
    );
  });
});
