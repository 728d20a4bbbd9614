import { after, before, describe, it } from 'node:test';
import { storeCases } from 'spillway/testing';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { PostgresStore } from 'spillway-sql';

describe('PostgresStore, as every store', () => {
  const resources = new AsyncDisposableStack();
  let server: PostgresServer;

  before(async () => {
    server = resources.use(await PostgresServer.start());
  });

  after(() => resources.disposeAsync());

  for (const [at, { name, run }] of storeCases.entries()) {
    it(name, async () => {
      const url = await server.createDatabase(`store_${at}`);
      await run({
        open: () => PostgresStore.open({ url }),
        async pass(ms) {
          await server.ask(`update spillway_store_state set now = now + ${ms}`, url);
        },
      });
    });
  }
});
