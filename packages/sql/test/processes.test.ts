import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { Gate } from 'spillway';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { Database } from 'spillway-sql';

async function run(fixture: string, ...args: readonly string[]): Promise<string> {
  const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
  const options = { env, timeout: 240_000, killSignal: 'SIGKILL' } as const;
  const path = join(import.meta.dirname, 'fixtures', fixture);
  const { stdout } = await promisify(execFile)(process.execPath, [path, ...args], options);
  return stdout;
}

describe('many processes on one database', () => {
  const resources = new AsyncDisposableStack();
  let server: PostgresServer;

  before(async () => {
    server = resources.use(await PostgresServer.start());
  });

  after(() => resources.disposeAsync());

  async function raceMigrations(url: string): Promise<void> {
    const outputs = await Promise.all(Array.from({ length: 4 }, () => run('migrator.ts', url)));
    const applied = outputs.map(Number);
    assert.equal(
      applied.reduce((sum, count) => sum + count, 0),
      10,
      applied.join(),
    );
  }

  it('apply each migration once when they all begin at the same time, on Postgres', async () => {
    await raceMigrations(await server.createDatabase('raced'));
  });

  it('apply each migration once when they all begin at the same time, on SQLite', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-raced-'));
    await raceMigrations(`sqlite:${join(folder.path, 'raced.db')}`);
  });

  it('lose none of 1,000 increments that begin at once in one of them', async () => {
    await using database = await Database.open<unknown>({ url: server.url });
    await using store = await database.store();
    // Of those that compare and set at once only one wins, so they do it a few at a time.
    const gate = new Gate({ limit: 8, queueMax: 1_000 });
    const increment = async () => {
      using _permit = await gate.enter();
      for (;;) {
        const [record] = (await store.read(['many'])).records;
        const value = Number(record?.value ?? 0) + 1;
        const change = { name: 'many', value, ifVersion: record?.version ?? 0 };
        if (await store.commit([change])) return;
      }
    };
    await Promise.all(Array.from({ length: 1_000 }, increment));
    assert.equal((await store.read(['many'])).records[0]?.value, 1_000);
  });

  it('lose none of 8 x 250 increments', async () => {
    await Promise.all(Array.from({ length: 8 }, () => run('incrementer.ts', server.url, '250')));
    await using database = await Database.open<unknown>({ url: server.url });
    await using store = await database.store();
    assert.equal((await store.read(['counter'])).records[0]?.value, 2_000);
  });
});
