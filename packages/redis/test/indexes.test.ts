import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { chargeRate } from 'spillway/internal';
import { RedisServer } from 'spillway-fixtures/redis';
import { requires } from 'spillway-fixtures/requires';
import { RedisStore } from 'spillway-redis';
import { pass as passOn } from './fixtures/state.ts';

const valueIn = async (store: RedisStore, name: string) =>
  (await store.read([name])).records[0]?.value;

describe('the indexes of a RedisStore', requires('redis-server'), () => {
  it('take 10,000 records of one commit, and lose them, with a lifetime or without', async () => {
    await using server = await RedisServer.start();
    await using store = await RedisStore.open({ url: server.url });
    const names = Array.from({ length: 10_000 }, (_, at) => `n${at}`);
    const sizes = async () => {
      const keys = ['{spillway}.names', '{spillway}.expiries'];
      return await Promise.all(keys.map((key) => server.ask('ZCARD', key)));
    };
    const put = (ttlMs?: number) => store.commit(names.map((name) => ({ name, value: 1, ttlMs })));
    assert.ok(await put(60_000));
    assert.deepEqual(await sizes(), [10_000, 10_000]);
    assert.ok(await put());
    assert.deepEqual(await sizes(), [10_000, 0]);
    assert.ok(await store.commit(names.map((name) => ({ name }))));
    assert.deepEqual(await sizes(), [0, 0]);
  });

  it('are right when one call writes a name again and again', async () => {
    await using server = await RedisServer.start();
    await using store = await RedisStore.open({ url: server.url });
    const first = store.commit([{ name: 'old', value: 1, ttlMs: 1 }]);
    await undefined;
    // All come in one turn of the promise queue, while a call is under way: so they are one call.
    await Promise.all([
      store.commit([{ name: 'a', value: 1, ttlMs: 60_000 }]),
      store.commit([{ name: 'a' }, { name: 'b', value: 1 }]),
      store.commit([{ name: 'a', value: 2 }]),
      store.commit([{ name: 'b', value: 2, ttlMs: 60_000 }]),
      store.commit([{ name: 'c', value: 1, ttlMs: 60_000 }]),
      store.commit([{ name: 'c' }]),
      store.commit([{ name: 'old', value: 2 }]),
    ]);
    await first;
    assert.equal(store.stats.groups, 2);
    const members = async (key: string) =>
      await server.ask('ZRANGE', `{spillway}.${key}`, '0', '-1');
    assert.deepEqual(await members('names'), ['a', 'b', 'old']);
    assert.deepEqual(await members('expiries'), ['b']);
    assert.equal(await valueIn(store, 'old'), 2);
  });

  it('lose a record that decisions kept alive when its last lifetime is over', async () => {
    await using server = await RedisServer.start();
    await using store = await RedisStore.open({ url: server.url });
    const pass = (ms: number) => passOn((...command) => server.ask(...command), ms);
    const wish = { limit: 10, windowMs: 60_000, waiting: 1, ahead: 0 };
    await store.apply('r', chargeRate, wish);
    await pass(50_000);
    await store.apply('r', chargeRate, wish);
    await pass(20_000);
    await store.commit([{ name: 'a', value: 1 }]);
    assert.equal(((await valueIn(store, 'r')) as number[]).length, 4);
    await pass(60_000);
    await store.commit([{ name: 'a', value: 2 }]);
    assert.deepEqual(await server.ask('ZRANGE', '{spillway}.names', '0', '-1'), ['a']);
    assert.equal(await server.ask('EXISTS', '{spillway}:r'), 0);
  });
});
