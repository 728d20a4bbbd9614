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

  it('list in pieces what has mostly expired, so that others are answered meanwhile', async () => {
    await using server = await RedisServer.start();
    await using store = await RedisStore.open({ url: server.url });
    const names = Array.from({ length: 20_000 }, (_, at) => `n${String(at).padStart(5, '0')}`);
    for (const from of [0, 10_000]) {
      const some = names.slice(from, from + 10_000);
      await store.commit(some.map((name) => ({ name, value: 1, ttlMs: 60_000 })));
    }
    for (const name of ['n04999', 'n05000', 'n12345', 'n2'])
      await store.commit([{ name, value: 2 }]);
    await passOn((...command) => server.ask(...command), 120_000);
    const scripts = async () => {
      const stats = String(await server.ask('INFO', 'commandstats'));
      const counts = stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g);
      return counts.reduce((sum, [, count]) => sum + Number(count), 0);
    };
    const before = await scripts();
    const listed = async (prefix: string, max: number, after?: string) =>
      (await store.list(prefix, { max, after })).map(({ name }) => name);
    assert.deepEqual(await listed('n', 10), ['n04999', 'n05000', 'n12345', 'n2']);
    assert.ok((await scripts()) >= before + 4, 'no call looks at them all');
    assert.deepEqual(await listed('', 2), ['n04999', 'n05000']);
    assert.deepEqual(await listed('n', 9, 'n05000'), ['n12345', 'n2']);
    assert.deepEqual(await listed('n1', 9), ['n12345']);
    assert.deepEqual(await listed('n3', 9), []);
  });
});
