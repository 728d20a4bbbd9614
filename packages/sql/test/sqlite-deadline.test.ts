import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type Generated, sql } from 'kysely';
import { SqliteFile } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { Database } from 'spillway-sql';

interface Schema {
  readonly item: { id: Generated<number>; name: string };
}

describe('a SQLite database at the deadline', () => {
  it('says of each write whether it may have been done', async () => {
    const clock = new VirtualClock();
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-deadline-'));
    const path = join(folder.path, 'file.db');
    await using other = await SqliteFile.open({ path });
    await using database = await Database.open<Schema>({ url: `sqlite:${path}`, clock });
    const statements = ['create table item (id integer primary key, name text)'];
    await database.migrate([{ number: 1, name: 'items', statements }]);
    const { kysely } = database;
    const insert = (name: string) => kysely.insertInto('item').values({ name });
    const late = { code: 'DEADLINE', status: 504 };
    await other.transaction(async () => {
      const doubtful = { ...late, retryable: false, message: /is not known$/ };
      const first = assert.rejects(insert('begun').execute(), doubtful);
      // The thread has it now, and waits for the other process.
      for (let turn = 0; turn < 3; turn += 1) await setImmediate();
      const untouched = { ...late, retryable: true };
      const second = assert.rejects(insert('not begun').execute(), untouched);
      const third = assert.rejects(database.batch([insert('not begun').compile()]), untouched);
      await clock.advance(10_000);
      await Promise.all([first, second, third]);
    });
    await insert('last').execute();
    const names = await kysely.selectFrom('item').select('name').orderBy('id').execute();
    assert.deepEqual(
      names.map(({ name }) => name),
      ['begun', 'last'],
    );
  });

  it('reads on the readers whatever only reads, and writes what does not', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-deadline-'));
    const path = join(folder.path, 'file.db');
    await using database = await Database.open<Schema>({ url: `sqlite:${path}` });
    const statements = ['create table item (id integer primary key, name text)'];
    await database.migrate([{ number: 1, name: 'items', statements }]);
    const { kysely } = database;
    const selects = [
      sql`with one as (select 1 as n) select n from one`,
      sql`-- a comment
        /* and another */ values (1)`,
    ];
    // The writer is taken, so a statement that went there would wait until its deadline.
    await kysely.transaction().execute(async (tx) => {
      await tx.insertInto('item').values({ name: 'a' }).execute();
      for (const select of selects) assert.equal((await select.execute(kysely)).rows.length, 1);
    });
    const copy = sql`with known as (select name from item)
      insert into item (name) select name || '!' from known returning name`;
    assert.deepEqual((await copy.execute(kysely)).rows, [{ name: 'a!' }]);
  });
});
