import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createClient, createCluster, createSentinel, RESP_TYPES } from '@redis/client';
import { Cluster } from 'ioredis';
import { RedisServer } from 'spillway-fixtures/redis';
import { requires } from 'spillway-fixtures/requires';
import { RedisStore } from 'spillway-redis';
import { openProxy } from './fixtures/proxy.ts';
import { lastVersion } from './fixtures/state.ts';

describe('a RedisStore on a client of the team', requires('redis-server'), () => {
  it('runs a commit once whose answer is lost behind a Sentinel, and says so', async () => {
    await using stack = new AsyncDisposableStack();
    const master = stack.use(await RedisServer.start());
    const sentinel = stack.use(await RedisServer.startSentinel(master.port));
    const proxy = await openProxy(master.port, stack);
    const near = { host: '127.0.0.1', port: Number(new URL(proxy.url).port) };
    const client = createSentinel({
      name: 'm',
      sentinelRootNodes: [{ host: '127.0.0.1', port: sentinel.port }],
      nodeClientOptions: { disableOfflineQueue: true },
      nodeAddressMap: { [`127.0.0.1:${master.port}`]: near },
    });
    client.on('error', () => {});
    await client.connect();
    stack.defer(() => client.destroy());
    const store = stack.use(await RedisStore.open({ client }));
    const first = await store.commit([{ name: 'n', value: 1 }]);
    proxy.mute = true;
    const version = () => lastVersion((...command) => master.ask(...command));
    const before = await version();
    const lost = store.commit([{ name: 'n', value: 2, ifVersion: first?.version }]);
    const rejected = assert.rejects(lost, { code: 'DATABASE_LOST', retryable: false });
    while ((await version()) === before);
    const done = await version();
    proxy.mute = false;
    proxy.cut();
    await rejected;
    assert.equal(await version(), done);
    const again = async () => (await store.read(['n'])).records[0]?.value;
    let value: unknown;
    while (value === undefined) value = await again().catch(() => undefined);
    assert.equal(value, 2);
  });

  it('reads text, whatever types the client was made to give', async () => {
    await using server = await RedisServer.start();
    const typeMapping = { [RESP_TYPES.BLOB_STRING]: Buffer };
    const options = { url: server.url, disableOfflineQueue: true, commandOptions: { typeMapping } };
    for (const RESP of [2, 3] as const) {
      const client = createClient({ ...options, RESP });
      await client.connect();
      await using store = await RedisStore.open({ client, name: `resp${RESP}` });
      await store.commit([{ name: 'n', value: 1 }]);
      assert.equal((await store.read(['n'])).records[0]?.value, 1);
      assert.equal((await store.list('', { max: 2 }))[0]?.name, 'n');
      await store.close();
      client.destroy();
    }
  });

  it('refuses clusters that queue, run a command twice, or wait for another server', async () => {
    await using stack = new AsyncDisposableStack();
    const settings = ['cluster-enabled yes', 'cluster-announce-ip 127.0.0.1'];
    const server = stack.use(await RedisServer.start({ settings }));
    await server.ask('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    const queueing = createCluster({ rootNodes: [{ url: server.url }] });
    await queueing.connect();
    stack.defer(() => queueing.destroy());
    const message = /defaults\.disableOfflineQueue/;
    await assert.rejects(RedisStore.open({ client: queueing }), { message });
    const redisOptions = {
      autoResendUnfulfilledCommands: false,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
    } as const;
    const ofTeam = (retryDelayOnFailover: number) =>
      new Cluster([server.url], {
        enableOfflineQueue: false,
        lazyConnect: true,
        redisOptions,
        retryDelayOnFailover,
      });
    await assert.rejects(RedisStore.open({ client: ofTeam(100) }), {
      message: 'client.options.retryDelayOnFailover: must be 0, got 100',
    });
    await assert.rejects(RedisStore.open({ client: ofTeam(0), replicasMin: 1 }), {
      message: /^replicasMin: must be 0 with a Cluster of ioredis/,
    });
  });
});
