import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { sql } from 'kysely';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { Database } from 'spillway-sql';
import { backup, restore } from '../src/storage/backup.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { temporaryFolder } from './fixtures/stored-ranker.ts';

async function written(database: string): Promise<Buffer[]> {
  const lines: Buffer[] = [];
  for await (const line of backup(database)) lines.push(Buffer.from(line));
  return lines;
}

async function* all(lines: readonly Buffer[]): AsyncGenerator<Uint8Array> {
  yield* lines;
}

const textOf = (number: number) => `The compiler keeps database ${number} in one file.`;

describe('a backup of a ranker', () => {
  it('is not restored into the database of another program, which is told', async () => {
    await using stack = new AsyncDisposableStack();
    const url = `sqlite:${join(await temporaryFolder(stack), 'other.db')}`;
    {
      await using other = await Database.open({ url });
      const statements = ['create table runs (id integer)'];
      await other.migrate([{ number: 1, name: 'runs', statements }], { program: 'fleet' });
    }
    await assert.rejects(restore({ database: url, source: all([]) }), {
      message: 'the database belongs to fleet: ranker needs another one',
    });
  });

  it('is whole though readers vote meanwhile, and serves on Postgres and on SQLite', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const database = `sqlite:${join(folder, 'ranker.db')}`;
    let lines: Buffer[] = [];
    let voted = 0;
    let told = 0;
    {
      await using site = await RankerSite.open({ database });
      const vote = async (): Promise<void> => {
        const number = voted;
        voted += 1;
        const body = { text: textOf(number), score: 1 + (number % 10) };
        assert.equal((await site.ask('/correct_rank', { body })).status, 200);
      };
      for (let i = 0; i < 10; i += 1) await vote();
      told = voted;
      let isDone = false;
      const voting = (async () => {
        while (!isDone) await vote();
      })();
      lines = await written(database);
      isDone = true;
      await voting;
      await assert.rejects(restore({ database, source: all(lines), replace: true }), {
        code: 'DATABASE_TAKEN',
      });
    }
    const postgres = await postgresUrl(stack);
    const rows = await restore({ database: postgres, source: all(lines) });
    assert.equal(rows, lines.length - 2);
    await assert.rejects(restore({ database: postgres, source: all(lines) }), /is not empty/);
    const back = `sqlite:${join(folder, 'back.db')}`;
    assert.equal(await restore({ database: back, source: all(await written(postgres)) }), rows);
    for (const url of [postgres, back]) {
      await using site = await RankerSite.open({ database: url });
      const { ratings } = site.ranker.storage;
      assert.ok((await ratings.list(site.userId)).length >= told, 'all that was acknowledged');
      const index = sql`select 1 from article_words where article_words match 'compiler'`;
      const { kysely } = site.ranker.storage.database;
      if (url === back) assert.ok((await index.execute(kysely)).rows.length >= told);
      const rank = await site.ask('/rank', { body: { text: textOf(9) } });
      assert.equal(rank.json.rank, 10);
      assert.equal(
        (await site.ask('/correct_rank', { body: { text: 'New.', score: 3 } })).status,
        200,
      );
    }
  });
});
