import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { processCases } from 'spillway/testing';
import { PostgresServer } from 'spillway-fixtures/postgres';

describe('real processes on one Postgres', () => {
  const resources = new AsyncDisposableStack();
  let server: PostgresServer;

  before(async () => {
    server = resources.use(await PostgresServer.start());
  });

  after(() => resources.disposeAsync());

  for (const [at, { name, check }] of processCases.entries()) {
    it(name, async () => {
      const program = join(import.meta.dirname, 'fixtures', 'postgres-player.ts');
      await check({ program, args: [await server.createDatabase(`shared_${at}`)] });
    });
  }
});
