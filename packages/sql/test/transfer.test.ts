import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { sql } from 'kysely';
import { cannotMount, mountSmallDisk } from 'spillway-fixtures/mount';
import { PostgresServer } from 'spillway-fixtures/postgres';
import {
  Database,
  exportTables,
  importTables,
  type Migration,
  type MovedTables,
  type TableRow,
} from 'spillway-sql';

interface Schema {
  readonly person: { id?: number; name: string; boss: number | null; photo: Uint8Array | null };
  readonly letter: { id?: number; person_id: number; cents: number };
}

/** `letter` refers to `person`, which comes behind it in the alphabet. */
const migrations: readonly Migration[] = [
  {
    number: 1,
    name: 'all',
    statements: {
      sqlite: [
        `create table person (id integer primary key autoincrement, name text not null,
         boss integer references person (id), photo blob)`,
        `create table letter (id integer primary key autoincrement,
         person_id integer not null references person (id), cents double precision not null)`,
      ],
      postgres: [
        `create table person (id integer generated always as identity primary key,
         name text not null, boss integer references person (id), photo bytea)`,
        `create table letter (id serial primary key,
         person_id integer not null references person (id), cents double precision not null)`,
      ],
    },
  },
];
const tables: MovedTables = { program: 'post', migrations };

async function open(url: string): Promise<Database<Schema>> {
  const database = await Database.open<Schema>({ url, deadlineMs: Infinity });
  await database.migrate(migrations);
  return database;
}

async function exported(url: string, moved = tables): Promise<string> {
  let text = '';
  for await (const line of exportTables({ url, tables: moved })) text += line;
  return text;
}

async function* chunks(text: string): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += 1_009) yield bytes.subarray(at, at + 1_009);
}

async function imported(url: string, text: string, replace = false): Promise<number> {
  await using database = await open(url);
  return await importTables({ database, tables, source: chunks(text), replace });
}

/** Without the first line, which has a time, and the last, which has a checksum. */
const content = (text: string): string[] => text.trimEnd().split('\n').slice(1, -1);

describe('tables that are moved', () => {
  const resources = new AsyncDisposableStack();
  let folder = '';
  let postgres: PostgresServer;

  before(async () => {
    folder = resources.use(await mkdtempDisposable(join(tmpdir(), 'spillway-move-'))).path;
    postgres = resources.use(await PostgresServer.start());
  });

  after(() => resources.disposeAsync());

  const file = (name: string) => `sqlite:${join(folder, `${name}.db`)}`;

  it('come to Postgres and back as they were, and their numbers go on', async () => {
    const from = file('from');
    {
      await using database = await open(from);
      const photo = Uint8Array.of(0, 255, 10, 13);
      const people = [
        { name: 'Ann "A" Ö\n', boss: null, photo },
        { name: '', boss: 1, photo: null },
      ];
      await database.kysely.insertInto('person').values(people).execute();
      const letters = Array.from({ length: 1_234 }, (_, at) => ({
        person_id: 1 + (at % 2),
        cents: at / 3,
      }));
      await database.kysely.insertInto('letter').values(letters).execute();
    }
    const text = await exported(from);
    const server = await postgres.createDatabase('moved');
    assert.equal(await imported(server, text), 1_236);
    const back = file('back');
    assert.equal(await imported(back, await exported(server)), 1_236);
    assert.deepEqual(content(await exported(back)), content(text));
    for (const url of [server, back]) {
      await using database = await open(url);
      const added = await database.kysely
        .insertInto('letter')
        .values({ person_id: 1, cents: 1 })
        .returning('id')
        .executeTakeFirstOrThrow();
      assert.equal(added.id, 1_235);
    }
  });

  it('replace what is there only if that is asked for, whole or not at all', async () => {
    for (const url of [file('full'), await postgres.createDatabase('filled')]) {
      {
        await using database = await open(url);
        await database.kysely
          .insertInto('person')
          .values([
            { name: 'old', boss: null, photo: null },
            { name: 'older', boss: 1, photo: null },
          ])
          .execute();
        await database.kysely.insertInto('letter').values({ person_id: 2, cents: 0 }).execute();
      }
      const text = await exported(url);
      await assert.rejects(imported(url, text), /database: is not empty \(letter\); --replace/);
      const lines = text.trimEnd().split('\n');
      const damaged: readonly [RegExp, string[]][] = [
        [/it ends after 3 lines, without the last one/, lines.slice(0, 3)],
        [/the checksum is wrong/, lines.toSpliced(3, 1)],
        [/line 1: this is not what post has written/, ['{"export":"other"}']],
        [
          /line 1: this is version 1 of tables 7/,
          [`${lines[0]}`.replace('"schema":1', '"schema":7')],
        ],
        [/there is no table spillway_migrations/, lines.with(1, '{"table":"spillway_migrations"}')],
        [/line 2: is no row/, lines.with(1, '{"file":"x"}')],
        [/line 6: follows the end/, [...lines, '{}']],
      ];
      for (const [words, broken] of damaged) {
        await assert.rejects(imported(url, broken.join('\n'), true), words);
        assert.deepEqual(content(await exported(url)), content(text), 'nothing has changed');
      }
      assert.equal(await imported(url, text, true), 3);
      assert.deepEqual(content(await exported(url)), content(text));
    }
  });

  it('are not overwritten where they stand behind hundreds of rows that stay', async () => {
    const moved = { ...tables, isRowMoved: (_: string, row: TableRow) => row.name !== 'stays' };
    for (const url of [file('behind'), await postgres.createDatabase('behind')]) {
      await using database = await open(url);
      const stays = { name: 'stays', boss: null, photo: null };
      const insert = (rows: Schema['person'][]) =>
        database.kysely.insertInto('person').values(rows).execute();
      await insert(Array.from({ length: 600 }, () => stays));
      const text = await exported(url, moved);
      const read = () => importTables({ database, tables: moved, source: chunks(text) });
      assert.equal(await read(), 0);
      await insert([{ ...stays, name: 'moves' }]);
      await assert.rejects(read(), /database: is not empty \(person\)/);
    }
  });

  it('are those of one moment, while others go on writing', async () => {
    for (const url of [file('live'), await postgres.createDatabase('live')]) {
      await using database = await open(url);
      const person = { name: 'Ann', boss: null, photo: null };
      await database.kysely.insertInto('person').values(person).execute();
      // Two rows at once, whose sum is zero.
      const pair = [5, -5].map((cents) => ({ person_id: 1, cents }));
      let written = 0;
      const write = async (stop: AbortSignal): Promise<void> => {
        while (!stop.aborted) {
          await database.transaction(async (tx) => {
            for (const letter of pair) await tx.insertInto('letter').values(letter).execute();
          });
          written += 1;
        }
      };
      for (let copies = 0; copies < 3; copies += 1) {
        const stop = new AbortController();
        const writers = [write(stop.signal), write(stop.signal)];
        const seen = written;
        while (written < seen + 5) await new Promise((resolve) => setImmediate(resolve));
        const acknowledged = written;
        const text = await exported(url);
        stop.abort();
        await Promise.all(writers);
        const copy = file(`copy-${database.kind}-${copies}`);
        assert.ok((await imported(copy, text)) > 2 * acknowledged);
        await using copied = await open(copy);
        const { sum } = await copied.kysely
          .selectFrom('letter')
          .select(sql<number>`sum(cents)`.as('sum'))
          .executeTakeFirstOrThrow();
        assert.equal(sum, 0, 'no half of a transaction');
      }
    }
  });

  it('come back when the disk is too small for those that replace them', async (test) => {
    const disk = join(folder, 'disk');
    using mounted = mountSmallDisk(disk, 2_000_000);
    if (mounted === undefined) return test.skip(cannotMount);
    const large = file('large');
    {
      await using database = await open(large);
      const photo = new Uint8Array(1_000_000);
      const people = ['Ann', 'Bob', 'Eve'].map((name) => ({ name, boss: null, photo }));
      await database.kysely.insertInto('person').values(people).execute();
    }
    const url = `sqlite:${join(disk, 'small.db')}`;
    {
      await using database = await open(url);
      await database.kysely
        .insertInto('person')
        .values({ name: 'kept', boss: null, photo: null })
        .execute();
    }
    const before = content(await exported(url));
    const text = await exported(large);
    await assert.rejects(imported(url, text, true), { code: 'DATABASE_FULL', status: 507 });
    assert.deepEqual(content(await exported(url)), before);
  });

  it('are not written where nothing is, or tables of another version are', async () => {
    await assert.rejects(exported(file('none')), /there is no file .*none\.db/);
    const url = await postgres.createDatabase('none');
    await assert.rejects(exported(url), /database: there is nothing in it/);
    const other = file('other');
    await using database = await Database.open<Schema>({ url: other });
    const next = { number: 2, name: 'more', statements: ['create table more (id integer)'] };
    await database.migrate([...migrations, next]);
    await assert.rejects(exported(other), /has tables of version 2, and this is version 1/);
  });
});
