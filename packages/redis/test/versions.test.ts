import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createClient } from '@redis/client';
import { type Json, Lease, SharedBucket, SharedGate } from 'spillway';
import { RedisServer } from 'spillway-fixtures/redis';
import { requires } from 'spillway-fixtures/requires';
import { RedisStore } from 'spillway-redis';

/** Opens a store whose scripts have another text, and so another hash, as a newer version has. */
async function openNewer(
  url: string,
  stack: AsyncDisposableStack,
  change: (lua: string) => string,
): Promise<RedisStore> {
  const client = createClient({ url, disableOfflineQueue: true });
  client.on('error', () => {});
  await client.connect();
  stack.defer(() => client.destroy());
  const send = client.sendCommand.bind(client);
  client.sendCommand = ((words: readonly string[], options: object) => {
    const [command, lua = '', ...rest] = words;
    // Without its hash the store sends the text of each script.
    if (command === 'EVALSHA') return Promise.reject(new Error('NOSCRIPT'));
    const changed = command === 'EVAL' ? ['EVAL', change(lua), ...rest] : words;
    return send(changed, options as never);
  }) as never;
  return stack.use(await RedisStore.open({ client }));
}

/** Adds a field to the state of a bucket that the version under test does not know. */
const withField = (lua: string) =>
  `-- newer\n${lua.replace(`'{"next":%.17g,`, `'{"extra":{"a":[1]},"next":%.17g,`)}`;

describe('two versions on one Redis', requires('redis-server'), () => {
  it('give no more than the rate together, and find all that the other wrote', async () => {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(await RedisServer.start());
    const older = stack.use(await RedisStore.open({ url: server.url }));
    const newer = await openNewer(server.url, stack, withField);
    const options = { name: 'b', ratePerSecond: 200, burst: 20, queueMax: 1_000 };
    const buckets = [older, newer].map((store) => {
      return stack.use(new SharedBucket({ store, deadlineMs: 20_000, ...options }));
    });
    const from = performance.now();
    await Promise.all(buckets.flatMap((b) => Array.from({ length: 120 }, () => b.take())));
    const seconds = (performance.now() - from) / 1_000;
    // All 240 but the burst had to wait for their slots.
    assert.ok(240 <= 200 * seconds + 20 + 1, `240 in ${seconds} s`);
    assert.ok(buckets.every(({ stats }) => stats.trips > 0));
  });

  it('never hold a lease both, nor more permits than there are', async () => {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(await RedisServer.start());
    const older = stack.use(await RedisStore.open({ url: server.url }));
    const newer = await openNewer(server.url, stack, (lua) => `-- newer\n${lua}`);
    let holders = 0;
    const fences: number[] = [];
    let inside = 0;
    const hold = async (store: RedisStore) => {
      const gate = new SharedGate({ store, name: 'g', limit: 3, queueMax: 20, deadlineMs: 20_000 });
      for (let round = 0; round < 10; round += 1) {
        const terms = { store, name: 'l', ttlMs: 20_000, deadlineMs: 20_000, pollMs: 5 };
        const lease = await Lease.acquire(terms);
        holders += 1;
        assert.equal(holders, 1);
        fences.push(lease.fence);
        await lease.renew();
        assert.ok(await store.commit(lease.guard([{ name: 'n', value: round }])));
        holders -= 1;
        await lease.close();
        await gate.run(async () => {
          inside += 1;
          assert.ok(inside <= 3);
          await store.read([]);
          inside -= 1;
        });
      }
      await gate.close();
    };
    await Promise.all([older, newer, older, newer].map(hold));
    assert.deepEqual(
      fences,
      fences.toSorted((a, b) => a - b),
    );
    assert.equal(new Set(fences).size, 40);
  });

  it('are told apart by the state: the older one does nothing more, and says why', async () => {
    await using server = await RedisServer.start();
    await using store = await RedisStore.open({ url: server.url });
    await using bucket = new SharedBucket({ store, name: 'b', ratePerSecond: 10, queueMax: 10 });
    const lease = await Lease.acquire({ store, name: 'l', ttlMs: 60_000 });
    const before = await server.ask('GET', '{spillway}.state');
    const newer = `2 ${before}`;
    await server.ask('SET', '{spillway}.state', newer);
    const expected = {
      code: 'DATABASE_MIGRATION',
      retryable: false,
      message: /another version of spillway.*; let all processes run the newer version/,
    };
    await assert.rejects(store.read(['a']), expected);
    await assert.rejects(store.list('', { max: 1 }), expected);
    await assert.rejects(store.commit([{ name: 'a', value: 1 }]), expected);
    await assert.rejects(lease.renew(), expected);
    await assert.rejects(Lease.acquire({ store, name: 'l', ttlMs: 60_000 }), expected);
    await assert.rejects(bucket.take(), expected);
    await assert.rejects(RedisStore.open({ url: server.url }), expected);
    assert.equal(await server.ask('GET', '{spillway}.state'), newer);
    await lease.close();
    // An earlier form had the state in a hash.
    await server.ask('DEL', '{spillway}.state');
    await server.ask('HSET', '{spillway}.state', 'now', '1');
    const code = 'DATABASE_UNUSABLE';
    await assert.rejects(RedisStore.open({ url: server.url }), { code, message: /is a hash/ });
    assert.equal(await server.ask('TYPE', '{spillway}.state'), 'hash');
  });

  const bucketOf = (store: RedisStore) => {
    return new SharedBucket({ store, name: 'x', ratePerSecond: 10, queueMax: 10 });
  };
  const foreign: readonly [string, Json, (store: RedisStore) => Promise<unknown>][] = [
    ['bucket/x', { next: 1, isHalved: false }, (store) => bucketOf(store).take()],
    ['bucket/x', { next: 1 }, (store) => bucketOf(store).take()],
    ['bucket/x', 'text', (store) => bucketOf(store).take()],
    [
      'gate/x',
      { one: { held: 1 } },
      (store) => new SharedGate({ store, name: 'x', limit: 1, queueMax: 1 }).run(async () => {}),
    ],
  ];

  it('refuse a record that they cannot read, and leave it as it is', async () => {
    await using server = await RedisServer.start();
    await using store = await RedisStore.open({ url: server.url });
    for (const [name, value, use] of foreign) {
      const done = await store.commit([{ name, value }]);
      await assert.rejects(use(store), { code: 'DATABASE_MIGRATION' }, JSON.stringify(value));
      const [record] = (await store.read([name])).records;
      assert.deepEqual([record?.value, record?.version], [value, done?.version]);
    }
    await store.commit([{ name: 'lease/x', value: 1 }]);
    const text = 'v2;1;{}';
    await server.ask('SET', '{spillway}:lease/x', text);
    const taking = Lease.acquire({ store, name: 'x', ttlMs: 1_000, waits: false });
    await assert.rejects(taking, { code: 'DATABASE_MIGRATION' });
    assert.equal(await server.ask('GET', '{spillway}:lease/x'), text);
  });
});
