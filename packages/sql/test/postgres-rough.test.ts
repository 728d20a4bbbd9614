import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { checkRough, RoughProxy } from 'spillway-fixtures/rough';
import { PostgresStore } from 'spillway-sql';

describe('a Postgres behind a rough proxy', () => {
  it('keeps bucket, lease and gate right, and serves them again afterwards', async () => {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(await PostgresServer.start());
    const port = Number(new URL(server.url).port);
    const start = (seed: number) => RoughProxy.start(port, seededRandom(seed));
    const proxies = await Promise.all([22, 23].map(start));
    for (const proxy of proxies) stack.use(proxy);
    const open = async (proxy: RoughProxy) => {
      const url = server.url.replace(`:${port}/`, `:${proxy.port}/`);
      return stack.use(await PostgresStore.open({ url, deadlineMs: 1_000, connectionsMax: 3 }));
    };
    await checkRough(await Promise.all(proxies.map(open)), proxies);
  });
});
