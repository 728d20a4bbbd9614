import { after, before, describe, it } from 'node:test';
import type { Store } from 'spillway';
import { storeCases } from 'spillway/testing';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { Database } from 'spillway-sql';

/** A store that closes its database when it is closed, as another process would. */
async function openStore(url: string): Promise<Store> {
  const database = await Database.open<unknown>({ url });
  const store = await database.store();
  return {
    read: store.read.bind(store),
    commit: store.commit.bind(store),
    list: store.list.bind(store),
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      await database[Symbol.asyncDispose]();
    },
  };
}

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
        open: () => openStore(url),
        async pass(ms) {
          await server.ask(`update spillway_store_state set now = now + ${ms}`, url);
        },
      });
    });
  }
});
