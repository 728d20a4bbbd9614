import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { inspect } from 'node:util';
import { createClient } from '@redis/client';
import { Redis } from 'ioredis';
import { VirtualClock } from 'spillway/testing';
import { RedisServer } from 'spillway-fixtures/redis';
import { requires } from 'spillway-fixtures/requires';
import { RedisStore, type RedisStoreOptions } from 'spillway-redis';
import { openProxy } from './fixtures/proxy.ts';

describe('opening a RedisStore', requires('redis-server'), () => {
  const refused = async (options: RedisStoreOptions, code: string, message: RegExp) => {
    await assert.rejects(RedisStore.open({ deadlineMs: 60_000, ...options }), { code, message });
  };

  it('says that nobody listens', async () => {
    const url = 'redis://127.0.0.1:1';
    await refused({ url }, 'DATABASE_LOST', /ECONNREFUSED.*check that the server runs/);
  });

  it('gives up a server that never answers after 5 s', async () => {
    await using server = await RedisServer.start();
    using _paused = server.pause();
    const clock = new VirtualClock();
    const message = /not done within 5000 ms; check that the server runs/;
    const opening = RedisStore.open({ url: server.url, clock });
    const late = assert.rejects(opening, { code: 'DEADLINE', message });
    await clock.advance(5_000);
    await late;
  });

  it('tells a wrong password, and one that is missing', async () => {
    await using server = await RedisServer.start({ settings: ['requirepass secret'] });
    const url = `redis://:wrong@127.0.0.1:${server.port}`;
    await refused({ url }, 'DATABASE_UNUSABLE', /WRONGPASS.*; check the user and the password/);
    await refused({ url: server.url }, 'DATABASE_UNUSABLE', /NOAUTH.*; give a password/);
  });

  it('refuses a replica, and a server that may throw records away', async () => {
    await using master = await RedisServer.start();
    await using replica = await RedisServer.start();
    await replica.ask('REPLICAOF', '127.0.0.1', String(master.port));
    await refused({ url: replica.url }, 'DATABASE_UNUSABLE', /address of its master/);
    for (const policy of ['allkeys-lru', 'allkeys-lfu', 'allkeys-random']) {
      await master.ask('CONFIG', 'SET', 'maxmemory-policy', policy);
      await refused({ url: master.url }, 'DATABASE_UNUSABLE', /allkeys-.*set it to noeviction/);
    }
    await master.ask('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru');
    await using store = await RedisStore.open({ url: master.url });
    assert.ok(store.ready);
  });

  it('refuses a full server, and a user who may not run scripts', async () => {
    await using server = await RedisServer.start();
    await server.ask('CONFIG', 'SET', 'maxmemory', '1');
    await refused({ url: server.url }, 'STORE_FULL', /OOM.*; raise maxmemory/);
    await server.ask('CONFIG', 'SET', 'maxmemory', '0');
    await server.ask('ACL', 'SETUSER', 'reader', 'on', '>r', '~*', '&*', '+@all', '-@scripting');
    const url = `redis://reader:r@127.0.0.1:${server.port}`;
    await refused({ url }, 'DATABASE_UNUSABLE', /eval.*; let the user run scripts/i);
  });

  it('refuses a user who may run scripts, but not all that they call', async () => {
    await using server = await RedisServer.start();
    const all = ['on', '>p', '~{spillway}*', '&{spillway}*', '+@all'];
    const url = `redis://app:p@127.0.0.1:${server.port}`;
    // A user of Redis 7 has no channel, unless it is given some.
    for (const taken of ['resetchannels', '-publish', '-@sortedset', '-mset', '-del']) {
      await server.ask('ACL', 'SETUSER', 'app', 'reset', ...all, taken);
      await refused({ url }, 'DATABASE_UNUSABLE', /The user.*can't.*; let the user run/);
    }
    await server.ask('ACL', 'SETUSER', 'app', 'reset', ...all);
    await using store = await RedisStore.open({ url });
    await store.commit([{ name: 'a', value: 1 }]);
    await server.ask('ACL', 'SETUSER', 'app', 'resetchannels');
    // What is refused is not done.
    const denied = { code: 'DATABASE_UNUSABLE', message: /can't publish/ };
    while (!store.ready) await new Promise(setImmediate);
    await assert.rejects(store.commit([{ name: 'a', value: 2 }]), denied);
    assert.equal((await store.read(['a'])).records[0]?.value, 1);
    // Nothing is left of what the opening tried.
    assert.deepEqual(
      (await store.list('', { max: 9 })).map(({ name }) => name),
      ['a'],
    );
  });

  it('refuses a server that is too old', async () => {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(await RedisServer.start());
    const proxy = await openProxy(server.port, stack);
    proxy.isOld = true;
    const message = /version 6\.0\.\d+ is too old: 6\.2 or newer is needed/;
    await refused({ url: proxy.url }, 'DATABASE_UNUSABLE', message);
  });

  it('refuses clients that would run a command twice, or keep it for later', async () => {
    await using server = await RedisServer.start();
    const client = createClient({ url: server.url });
    await client.connect();
    const named = { code: 'ERR_ASSERTION', message: /disableOfflineQueue/ };
    try {
      await assert.rejects(RedisStore.open({ client }), named);
    } finally {
      client.destroy();
    }
    const other = new Redis(server.url, { lazyConnect: true });
    const message = /autoResendUnfulfilledCommands/;
    await assert.rejects(RedisStore.open({ client: other }), { message });
    const right = { autoResendUnfulfilledCommands: false, enableOfflineQueue: false } as const;
    const settings = { ...right, maxRetriesPerRequest: 0, lazyConnect: true, keyPrefix: 'app:' };
    const prefixed = new Redis(server.url, settings);
    await assert.rejects(RedisStore.open({ client: prefixed }), {
      message: `client.options.keyPrefix: must be "", got 'app:'`,
    });
  });

  it('tells what a commit survives, as the server is set', async () => {
    await using server = await RedisServer.start({ settings: ['appendfsync always'] });
    const told = async (replicasMin = 0) => {
      await using store = await RedisStore.open({ url: server.url, replicasMin });
      assert.equal(store.stats.durability, store.durability);
      return store.durability;
    };
    assert.equal(await told(), 'disk');
    assert.equal(await told(1), 'replicas');
    await server.ask('CONFIG', 'SET', 'appendfsync', 'everysec');
    assert.equal(await told(), 'process');
    await server.ask('CONFIG', 'SET', 'appendfsync', 'always');
    await server.ask('ACL', 'SETUSER', 'default', '-config');
    assert.equal(await told(), 'process');
    await server.ask('ACL', 'SETUSER', 'default', '+config');
    await server.ask('CONFIG', 'SET', 'appendonly', 'no');
    assert.equal(await told(), 'none');
  });

  it('tells no password with what is wrong about an address', async () => {
    const url = 'redis://user:s3cret@host';
    const client = createClient({ disableOfflineQueue: true });
    const wrong = [{ url: `${url}:99999` }, { url: `${url} name` }, { url, client }];
    for (const options of wrong) {
      const error: unknown = await RedisStore.open(options).catch((reason: unknown) => reason);
      assert.match(String(Object(error).code), /DATABASE_UNUSABLE|ERR_ASSERTION/);
      assert.doesNotMatch(inspect(error), /s3cret/);
    }
  });

  it('refuses options that mean nothing', async () => {
    const wrong = [{}, { url: 'redis://a', name: '{a}' }, { url: 'redis://a', nam: 'a' }];
    for (const options of wrong) {
      await assert.rejects(RedisStore.open(options), { code: 'ERR_ASSERTION' });
    }
  });
});
