import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { RedisServer } from 'spillway-fixtures/redis';
import { requires } from 'spillway-fixtures/requires';
import { checkRough, RoughProxy } from 'spillway-fixtures/rough';
import { RedisStore } from 'spillway-redis';

describe('a Redis behind a rough proxy', requires('redis-server'), () => {
  it('keeps bucket, lease and gate right, and serves them again afterwards', async () => {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(await RedisServer.start());
    const start = (seed: number) => RoughProxy.start(server.port, seededRandom(seed));
    const proxies = await Promise.all([22, 23].map(start));
    for (const proxy of proxies) stack.use(proxy);
    const open = async ({ port }: RoughProxy) => {
      const url = `redis://127.0.0.1:${port}`;
      return stack.use(await RedisStore.open({ url, deadlineMs: 1_000 }));
    };
    await checkRough(await Promise.all(proxies.map(open)), proxies);
  });
});
