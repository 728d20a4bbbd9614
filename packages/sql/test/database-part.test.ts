import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { sql } from 'kysely';
import { Service } from 'spillway';
import { CertificateAuthority } from 'spillway-fixtures/certificates';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { Database, type DatabaseOptions } from 'spillway-sql';
import { PostgresProxy } from './postgres-proxy.ts';

describe('Database.open, wrongly called', () => {
  it('refuses unknown options and numbers that are strings', async () => {
    const open = (options: object) =>
      Database.open({ url: 'postgres://x', ...options } as DatabaseOptions);
    await assert.rejects(open({ connectionMax: 3 }), {
      name: 'AssertionError',
      message: /^Database: connectionMax: is not an option; did you mean connectionsMax\?/,
    });
    await assert.rejects(open({ connectionsMax: '3' }), /connectionsMax: must be an integer/);
    await assert.rejects(open({ url: 'mysql://me:secret@host' }), (error: Error) => {
      assert.match(error.message, /sqlite: or postgres/);
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
  });

  it('loads pg only for Postgres', async () => {
    const program = `
      import { Database } from 'spillway-sql';
      import { createRequire } from 'node:module';
      const loaded = () => Object.keys(createRequire('/').cache).some((p) => /\\/pg\\//.test(p));
      await using lite = await Database.open({ url: 'sqlite:' + process.argv[1] });
      console.log(loaded());
      await using server = await Database.open({ url: 'postgres://nobody@127.0.0.1:1/none' });
      console.log(loaded());`;
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-sql-'));
    const path = join(folder.path, 'loads.db');
    const args = ['--input-type=module', '--eval', program, path];
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      cwd: import.meta.dirname,
    });
    assert.equal(stdout, 'false\ntrue\n');
  });
});

describe('A database on Postgres as a part', () => {
  const resources = new AsyncDisposableStack();
  let server: PostgresServer;

  before(async () => {
    server = resources.use(await PostgresServer.start());
  });

  after(() => resources.disposeAsync());

  const activeNaps = `select 1 from pg_stat_activity
    where state = 'active' and query like 'select pg_sleep%' and pid <> pg_backend_pid()`;

  async function untilNaps(count: number): Promise<void> {
    while ((await server.ask(activeNaps)).length !== count) await sleep(10);
  }

  it('is closed by its service within the time, and cuts what still runs', async () => {
    const database = await Database.open<unknown>({ url: server.url, deadlineMs: Infinity });
    const store = await database.store();
    store.watch?.(['watched'], () => {});
    const service = new Service({ parts: [database] });
    await service.start();
    assert.equal(service.ready, true);
    const nap = sql`select pg_sleep(60)`.execute(database.kysely);
    const cut = assert.rejects(nap, { code: 'DATABASE_LOST' });
    const held = database.transaction(() => new Promise(() => {}));
    held.catch(() => {});
    await untilNaps(1);
    await service.close({ withinMs: 200 });
    // It did not wait for the end of the nap.
    await cut;
    assert.equal(database.ready, false);
    const ours = `select 1 from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid() and state = 'idle'`;
    while ((await server.ask(ours)).length > 0) await sleep(10);
    await assert.rejects(sql`select 1`.execute(database.kysely), { code: 'LANE_CLOSED' });
  });

  it('is not ready while the server is away, and ready again without a query', async () => {
    await using database = await Database.open<unknown>({ url: server.url });
    await sql`select 1`.execute(database.kysely);
    assert.equal(database.ready, true);
    await server.stop();
    while (database.ready) await sleep(10);
    await server.start();
    while (!database.ready) await sleep(10);
    await sql`select 1`.execute(database.kysely);
  });

  it('cancels over TLS where the connection uses it', async () => {
    const certificate = new CertificateAuthority().issue({ names: ['localhost'] });
    await using proxy = await PostgresProxy.start(server.url, { certificate });
    const url = `${proxy.url}?sslmode=no-verify`;
    await using database = await Database.open<unknown>({ url, connectionsMax: 1 });
    const controller = new AbortController();
    const nap = database.kysely.selectNoFrom(sql`pg_sleep(20)`.as('slept'));
    const asleep = nap.execute({ signal: controller.signal });
    await untilNaps(1);
    controller.abort(new Error('left'));
    await assert.rejects(asleep, /left/);
    const { rows } = await sql<{ one: number }>`select 1 as one`.execute(database.kysely);
    assert.deepEqual(rows, [{ one: 1 }]);
    assert.equal(database.stats.kind === 'postgres' && database.stats.connections, 1);
    assert.equal(proxy.plain, 0, 'connections that never asked for TLS');
    assert.equal(proxy.secure, 2, 'the connection and the cancel request');
  });
});
