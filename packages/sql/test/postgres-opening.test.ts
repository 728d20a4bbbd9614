import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { PostgresStore } from 'spillway-sql';
import { PostgresProxy } from './postgres-proxy.ts';

describe('opening a PostgresStore', () => {
  const resources = new AsyncDisposableStack();
  let server: PostgresServer;

  before(async () => {
    server = resources.use(await PostgresServer.start());
  });

  after(() => resources.disposeAsync());

  it('says why a store cannot be opened, and what to do', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const old = await server.createDatabase('old');
    await server.ask(
      `create function public.current_setting(text) returns text language sql
        as $$ select '110022' $$;
      alter database old set search_path = public, pg_catalog`,
      old,
    );
    const reader = await server.createDatabase('reader');
    await server.ask('alter database reader set default_transaction_read_only = on');
    await server.ask(`create database latin encoding 'LATIN1' locale 'C' template template0`);
    const lost = 'DATABASE_LOST';
    const unusable = 'DATABASE_UNUSABLE';
    const cases = [
      [{ url: 'postgres://a@127.0.0.1:1/a' }, lost, /ECONNREFUSED.*check that the server runs/],
      [{ url: `postgres://a@127.0.0.1:${port}/a`, deadlineMs: 100 }, lost, /timeout.*check/],
      [{ url: server.url.replace('secret', 'wrong') }, unusable, /password.*check the user/],
      [{ url: 'postgres://a:b@c:99999/a' }, unusable, /not a URL; write postgres:/],
      [{ url: `${server.url}s` }, unusable, /does not exist; create the database/],
      [{ url: reader }, unusable, /read-only transaction; .*address of the primary/],
      [{ url: old }, unusable, /version 110022 is too old: 120000 or newer/],
      [{ url: server.url.replace(/[^/]*$/, 'latin') }, unusable, /LATIN1: create one with UTF8/],
    ] as const;
    for (const [options, code, message] of cases) {
      await assert.rejects(PostgresStore.open(options), { code, message });
    }
    silent.close();
  });

  it('tells what a pooler has to ignore that refuses parameters of the session', async () => {
    const refuses = 'statement_timeout';
    await using proxy = await PostgresProxy.start(server.url, { refuses });
    await assert.rejects(PostgresStore.open({ url: proxy.url }), {
      code: 'DATABASE_UNUSABLE',
      message: /unsupported startup parameter: statement_timeout; .*ignore_startup_parameters/,
    });
  });

  it('tells a server without a connection to spare, and goes on once there is one', async () => {
    const settings = ['max_connections=4', 'superuser_reserved_connections=0', 'fsync=off'];
    await using small = await PostgresServer.start({ settings });
    await using store = await PostgresStore.open({ url: small.url, connectionsMax: 4 });
    const all = await Promise.all([1, 2, 3, 4].map((at) => store.read([`n${at}`])));
    assert.equal(all.length, 4);
    const full = { code: 'DATABASE_BUSY', retryable: true, message: /too many.*connectionsMax/ };
    await assert.rejects(PostgresStore.open({ url: small.url }), full);
    using watch = store.watch(['n'], () => {});
    await store.commit([{ name: 'n', value: 1 }]);
    assert.equal(watch.isLive, false);
    await store.close();
    await using next = await PostgresStore.open({ url: small.url, connectionsMax: 1 });
    assert.equal((await next.read(['n'])).records[0]?.value, 1);
  });
});
