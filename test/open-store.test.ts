import assert from 'node:assert/strict';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { MemoryStore, openStore, SqliteStore } from 'spillway';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { RedisServer } from 'spillway-fixtures/redis';
import { requires } from 'spillway-fixtures/requires';

/** Writes by one handle and reads by another; both are closed. */
async function share(url: string): Promise<void> {
  {
    await using store = await openStore(url);
    await store.commit([{ name: 'a', value: 'kept' }]);
  }
  await using again = await openStore(url);
  assert.equal((await again.read(['a'])).records[0]?.value, 'kept');
}

describe('openStore', () => {
  it('opens memory, and a SQLite file by its path', async () => {
    assert.ok((await openStore('memory:')) instanceof MemoryStore);
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-open-'));
    const url = `sqlite:${join(folder.path, 'store.db')}`;
    await share(url);
    await using store = await openStore(url);
    assert.ok(store instanceof SqliteStore);
  });

  it('opens Postgres, and closes its connections with the store', async () => {
    await using server = await PostgresServer.start();
    await share(server.url);
    const sql = 'select count(*)::int as n from pg_stat_activity where usename is not null';
    // The server takes a moment to see that a connection was closed.
    for (;;) {
      const [row] = await server.ask(`${sql} and pid <> pg_backend_pid() and client_port > 0`);
      if (row?.n === 0) break;
      await setTimeout(20);
    }
  });

  it('opens Redis', requires('redis-server'), async () => {
    await using server = await RedisServer.start();
    await share(server.url);
  });

  it('names the package that has to be installed', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-open-'));
    // A module in a folder where no package is installed.
    const path = join(folder.path, 'load.mjs');
    await writeFile(path, 'export const load = (name) => import(name);');
    const { load } = await import(path);
    const asked = { 'postgres://a:secret@b/c': 'spillway-sql', 'redis://b': 'spillway-redis' };
    for (const [url, name] of Object.entries(asked)) {
      const message = `this store needs the package ${name}: npm install ${name}`;
      await assert.rejects(openStore(url, { load }), { code: 'DATABASE_UNUSABLE', message });
    }
  });

  it('refuses other addresses, and keeps their passwords to itself', async () => {
    for (const url of ['mysql://user:secret@host', 'redis:secret', 'secret', 'sqlite:', '']) {
      await assert.rejects(openStore(url), (error: Error) => {
        assert.equal(Object(error).code, 'ERR_ASSERTION');
        assert.match(error.message, /memory:, sqlite:<path>, postgres:/);
        assert.doesNotMatch(error.message, /secret/);
        return true;
      });
    }
  });
});
