import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { PostgresStore } from 'spillway-sql';

/** Warnings of this process: a client of `pg` warns of queries that overlap. */
const warnings: Error[] = [];
process.on('warning', (warning) => warnings.push(warning));

describe('many records in the Store on Postgres', () => {
  const resources = new AsyncDisposableStack();
  let server: PostgresServer;

  before(async () => {
    server = resources.use(await PostgresServer.start());
  });

  after(() => resources.disposeAsync());

  it('watches many names at once by one query after the other', async () => {
    const names = Array.from({ length: 50 }, (_, at) => `many/${at}`);
    await using store = await PostgresStore.open({ url: server.url });
    let told = 0;
    using watch = store.watch(names, () => {
      told += 1;
    });
    while (!watch.isLive) await new Promise(setImmediate);
    assert.ok(told >= names.length);
    watch[Symbol.dispose]();
    using again = store.watch(names, () => {});
    while (!again.isLive) await new Promise(setImmediate);
    await store.commit([{ name: 'many/0', value: 1 }]);
    assert.deepEqual(warnings, []);
  });

  it('finds the names of a list by an index, whichever way the server plans', async () => {
    const url = await server.createDatabase('many');
    await server.ask('alter database many set plan_cache_mode = force_generic_plan', url);
    const open = () => PostgresStore.open({ url, connectionsMax: 1 });
    {
      await using other = await open();
      await other.commit([{ name: 'z/1', value: 1 }]);
    }
    const some = "select 'a/' || n, '1', n from generate_series(1, 20000) n";
    await server.ask(`insert into spillway_store (name, value, version) ${some}`, url);
    await server.ask('analyze spillway_store', url);
    const looked = async () => {
      const sql = `select idx_scan, idx_tup_read from pg_stat_user_indexes
        where indexrelname = 'spillway_store_pkey'`;
      const [row] = await server.ask(sql, url);
      return { scans: Number(row?.idx_scan), rows: Number(row?.idx_tup_read) };
    };
    const before = await looked();
    {
      await using other = await open();
      const found = await other.list('z/', { max: 9 });
      assert.deepEqual(
        found.map(({ name }) => name),
        ['z/1'],
      );
    }
    // A server process tells its figures when its connection ends.
    let now = await looked();
    while (now.scans === before.scans) now = await looked();
    assert.ok(now.rows - before.rows < 100, `${now.rows - before.rows} names`);
  });
});
