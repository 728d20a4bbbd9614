import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { PostgresServer, postgresUrl } from 'spillway-fixtures/postgres';
import { RankerSite } from './fixtures/ranker-site.ts';
import { temporaryFolder } from './fixtures/stored-ranker.ts';
import { until } from './fixtures/until.ts';

const text = 'The compiler keeps the database in one file.';

for (const kind of ['sqlite', 'postgres'] as const) {
  describe(`the only ranker on a ${kind} database`, () => {
    const stack = new AsyncDisposableStack();
    let database = '';

    before(async () => {
      const folder = await temporaryFolder(stack);
      const isFile = kind === 'sqlite';
      database = isFile ? `sqlite:${join(folder, 'ranker.db')}` : await postgresUrl(stack);
    });

    after(() => stack.disposeAsync());

    it('refuses a second ranker while it runs, and makes way when it has closed', async () => {
      {
        await using first = await RankerSite.open({ database });
        await assert.rejects(RankerSite.open({ database, claimMs: 100 }), {
          code: 'DATABASE_TAKEN',
          message: /another ranker uses this database: stop that one/,
        });
        assert.equal((await first.ask('/articles')).status, 200, 'the first one goes on');
      }
      await using next = await RankerSite.open({ database });
      assert.equal((await next.ask('/articles')).status, 200);
    });

    it('takes no vote after another ranker has come, though it does not know of it', async () => {
      await using site = await RankerSite.open({ database });
      const { storage } = site.ranker;
      const vote = (score: number) => site.ask('/correct_rank', { body: { text, score } });
      const stored = () =>
        storage.database.kysely.selectFrom('corrections').select(['id', 'score']).execute();
      const before = await stored();
      await storage.database.kysely
        .updateTable('documents')
        .set({ value: 'another ranker' })
        .where('name', '=', 'ranker_instance')
        .execute();
      const refused = await vote(3);
      assert.deepEqual([refused.status, refused.json.error.code], [503, 'DATABASE_TAKEN']);
      assert.deepEqual(await stored(), before);
      // It claims the database again, which nobody else has.
      let last = await vote(4);
      while (last.status === 503) last = await vote(4);
      assert.equal(last.status, 200);
    });

    it('keeps no taste after another ranker has come', async () => {
      await using site = await RankerSite.open({ database });
      const { tastes, database: opened } = site.ranker.storage;
      const { model } = site.ranker.embedder;
      const first = await tastes.reserve(site.userId, 10);
      const choice = { topic: 1, words: 1, width: 2 };
      const writes = [
        () => tastes.save(site.userId, model, choice, 1),
        () => tastes.reserve(site.userId, 10),
      ];
      for (const write of writes) {
        await opened.kysely
          .updateTable('documents')
          .set({ value: 'another ranker' })
          .where('name', '=', 'ranker_instance')
          .execute();
        await assert.rejects(write(), { code: 'DATABASE_TAKEN' });
        // Nobody else has the database, so it is claimed again after each failure.
        await until('it is claimed again', async () => {
          return (await site.askOperator('/-/ready')).status === 200;
        });
      }
      assert.equal(await tastes.find(site.userId, model), undefined);
      const { reserved } = await opened.kysely
        .selectFrom('tastes')
        .select('reserved')
        .where('user_id', '=', site.userId)
        .executeTakeFirstOrThrow();
      assert.equal(reserved, first, 'the numbers are those of the other one');
    });

    // A file lock is lost only when somebody deletes its file.
    if (kind === 'sqlite') return;

    it('reads all tastes anew when it had lost its claim', async () => {
      await using site = await RankerSite.open({ database });
      const { storage } = site.ranker;
      const rated = await site.ask('/correct_rank', { body: { text, score: 9 } });
      const { id } = rated.json;
      const of = { userId: site.userId, articleId: id };
      await storage.ratings.record([{ ...of, score: 2, predicted: undefined, at: Date.now() }]);
      const rank = async () => await site.ask('/rank', { body: { text } });
      assert.equal((await rank()).json.rank, 9, 'a taste is kept in memory');
      await using store = await storage.database.store();
      const lease = 'lease/ranker';
      await store.commit([{ name: lease }, { name: `${lease}/fence`, value: 'another ranker' }]);
      let last = await rank();
      while (last.json.rank === 9 || last.status === 503) last = await rank();
      assert.equal(last.json.rank, 2);
    });
  });
}

describe('a ranker whose Postgres is away', () => {
  it('is not ready and says why, and is ready again by itself', async () => {
    await using server = await PostgresServer.start();
    await using site = await RankerSite.open({ database: server.url, log: false });
    const ready = async () => await site.askOperator('/-/ready');
    assert.equal((await ready()).status, 200);
    await server.stop();
    let told = await ready();
    while (told.json.reasons?.database === undefined) told = await ready();
    assert.equal(told.status, 503);
    assert.ok(told.json.unready.includes('database'));
    assert.match(told.json.reasons.database, /Postgres cannot be reached/);
    await server.start();
    await until('it is ready again', async () => (await ready()).status === 200);
    assert.equal((await site.ask('/articles')).status, 200);
  });
});
