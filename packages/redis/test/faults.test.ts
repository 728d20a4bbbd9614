import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createSentinel } from '@redis/client';
import { Lease, SharedBucket } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { RedisServer } from 'spillway-fixtures/redis';
import { requires } from 'spillway-fixtures/requires';
import { RedisStore } from 'spillway-redis';
import { openProxy } from './fixtures/proxy.ts';
import { lastVersion, pass } from './fixtures/state.ts';

const valueIn = async (store: RedisStore, name: string) =>
  (await store.read([name])).records[0]?.value;

describe('a RedisStore in trouble', requires('redis-server'), () => {
  it('runs a commit once whose answer is lost, and says that it may be done', async () => {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(await RedisServer.start());
    const proxy = await openProxy(server.port, stack);
    const store = stack.use(await RedisStore.open({ url: proxy.url }));
    await store.commit([{ name: 'count', value: 1 }]);
    proxy.mute = true;
    const version = () => lastVersion((...command) => server.ask(...command));
    const before = await version();
    const lost = store.commit([{ name: 'count', value: 2 }]);
    while ((await version()) === before);
    const done = await version();
    proxy.mute = false;
    proxy.cut();
    await assert.rejects(lost, { code: 'DATABASE_LOST', retryable: false, message: /not known/ });
    while (!store.stats.isConnected) await new Promise(setImmediate);
    assert.equal(await valueIn(store, 'count'), 2);
    assert.equal(await version(), done);
  });

  it('replaces a connection that swallows everything, and bounds what waits on it', async () => {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(await RedisServer.start());
    const proxy = await openProxy(server.port, stack);
    const clock = new VirtualClock();
    const store = await RedisStore.open({ url: proxy.url, deadlineMs: 5_000, queueMax: 10, clock });
    await store.commit([{ name: 'a', value: 1 }]);
    proxy.freeze();
    const late = assert.rejects(store.commit([{ name: 'a', value: 2 }]), { retryable: false });
    await new Promise(setImmediate);
    const reading = Promise.allSettled(Array.from({ length: 20 }, () => store.read(['a'])));
    await clock.advance(5_000);
    const outcomes = await reading;
    const codes = outcomes.map((each) => each.status === 'rejected' && each.reason.code);
    assert.ok(codes.filter((code) => code === 'LANE_FULL').length >= 10, codes.join());
    await late;
    while (!store.stats.isConnected) await new Promise(setImmediate);
    assert.equal(await valueIn(store, 'a'), 1);
    proxy.freeze();
    const last = assert.rejects(store.commit([{ name: 'a', value: 3 }]));
    const closing = store[Symbol.asyncDispose]();
    await clock.advance(5_000);
    await Promise.all([last, closing]);
  });

  it('says that nothing was done while there is no connection', async () => {
    await using server = await RedisServer.start();
    const store = await RedisStore.open({ url: server.url });
    assert.deepEqual([store.name, store.ready], ['spillway', true]);
    await server.kill();
    while (store.ready) await new Promise(setImmediate);
    const expected = { code: 'DATABASE_LOST', retryable: true };
    await assert.rejects(store.commit([{ name: 'a', value: 1 }]), expected);
    await assert.rejects(store.read(['a']), expected);
    await server.start();
    while (!store.ready) await new Promise(setImmediate);
    await store.commit([{ name: 'a', value: 1 }]);
    await store.close();
    assert.equal(store.ready, false);
    await assert.rejects(store.read(['a']), { code: 'DATABASE_CLOSED' });
  });

  const keepsPromise = (policy: string) => async () => {
    await using server = await RedisServer.start({ settings: [`appendfsync ${policy}`] });
    await using store = await RedisStore.open({ url: server.url });
    let acknowledged = 0;
    for (let round = 0; round < 10; round += 1) {
      const writing = (async () => {
        for (let value = acknowledged + 1; ; value += 1) {
          await store.commit([{ name: 'n', value }]);
          acknowledged = value;
        }
      })();
      const until = acknowledged + 20;
      while (acknowledged < until) await new Promise(setImmediate);
      const failed = assert.rejects(writing, { code: 'DATABASE_LOST' });
      await server.kill();
      await failed;
      await server.start();
      while (!store.stats.isConnected) await new Promise(setImmediate);
      const value = Number(await valueIn(store, 'n'));
      // A write that waits for the fsync of the second before is lost with the server.
      const least = policy === 'always' ? acknowledged : 0;
      assert.ok(value >= least && value <= acknowledged + 1, `${value} of ${acknowledged}`);
      acknowledged = value;
    }
  };

  for (const policy of ['always', 'everysec']) {
    it(`loses no more than is promised in ten kills, ${policy}`, keepsPromise(policy));
  }

  it('refuses the write of an old holder, and gives no version twice, after a split', async () => {
    await using old = await RedisServer.start();
    await using next = await RedisServer.start();
    await next.ask('REPLICAOF', '127.0.0.1', String(old.port));
    await using before = await RedisStore.open({ url: old.url });
    const lease = await Lease.acquire({ store: before, name: 'l', ttlMs: 60_000 });
    const isThere = async () => (await next.ask('EXISTS', '{spillway}:lease/l')) === 1;
    while (!(await isThere()));
    await next.ask('REPLICAOF', 'NO', 'ONE');
    // The old master goes on, and nobody will ever see what it acknowledges.
    const versions = new Set<number>();
    for (let value = 0; value < 100; value += 1) {
      const done = await before.commit([{ name: 'n', value }]);
      versions.add(Number(done?.version));
    }
    await using after = await RedisStore.open({ url: next.url });
    await pass((...command) => next.ask(...command), 60_000);
    const newer = await Lease.acquire({ store: after, name: 'l', ttlMs: 60_000 });
    assert.ok(newer.fence > lease.fence && newer.fence > Math.max(...versions));
    const late = lease.guard([{ name: 'n', value: 'late' }]);
    assert.equal(await after.commit(late), undefined);
    assert.ok(await after.commit(newer.guard([{ name: 'n', value: 1 }])));
    await newer.close();
    await lease.close();
  });

  for (const { setting, isKept } of [
    { setting: 'appendfsync always', isKept: true },
    { setting: 'appendonly no', isKept: false },
  ]) {
    it(`tells what became of a lease when the server was killed, ${setting}`, async () => {
      await using server = await RedisServer.start({ settings: [setting] });
      await using store = await RedisStore.open({ url: server.url });
      const lease = await Lease.acquire({ store, name: 'l', ttlMs: 600_000 });
      await server.kill();
      await server.start();
      while (!store.ready) await new Promise(setImmediate);
      const renewed = lease.renew();
      await (isKept ? renewed : assert.rejects(renewed, { code: 'LEASE_LOST' }));
      assert.equal(lease.stats.held, isKept);
      await lease.close();
      // Also a server that has forgotten everything gives greater numbers than before.
      await using next = await Lease.acquire({ store, name: 'l', ttlMs: 600_000 });
      assert.ok(next.fence > lease.fence);
    });
  }

  it('takes a lease from one whose server was stopped, and refuses its write', async () => {
    await using server = await RedisServer.start();
    await using near = await RedisStore.open({ url: server.url });
    await using far = await RedisStore.open({ url: server.url });
    const old = await Lease.acquire({ store: near, name: 'l', ttlMs: 600 });
    const late = old.guard([{ name: 'n', value: 'late' }]);
    const waiting = Lease.acquire({ store: far, name: 'l', ttlMs: 600_000, deadlineMs: 60_000 });
    using stopped = server.pause();
    while (!old.signal.aborted) await new Promise(setImmediate);
    stopped[Symbol.dispose]();
    await using next = await waiting;
    assert.ok(next.fence > old.fence);
    assert.equal(await near.commit(late), undefined);
    assert.ok(await far.commit(next.guard([{ name: 'n', value: 'now' }])));
  });

  it('ends a lease of a server that came back empty, and lets in no late write of it', async () => {
    await using server = await RedisServer.start({ settings: ['appendonly no'] });
    await using near = await RedisStore.open({ url: server.url });
    await using far = await RedisStore.open({ url: server.url });
    const old = await Lease.acquire({ store: near, name: 'l', ttlMs: 1_500 });
    const late = old.guard([{ name: 'n', value: 'late' }]);
    const { now } = await far.read([]);
    await server.kill();
    await server.start();
    while (!old.signal.aborted) await new Promise(setImmediate);
    await using next = await Lease.acquire({
      store: far,
      name: 'l',
      ttlMs: 600_000,
      deadlineMs: 60_000,
    });
    assert.ok(next.fence > old.fence);
    assert.ok((await far.read([])).now > now);
    assert.equal(await near.commit(late), undefined);
    assert.ok(await far.commit(next.guard([{ name: 'n', value: 'now' }])));
  });

  it('renews 500 leases of one process, and leaves nothing of them', async () => {
    await using server = await RedisServer.start();
    await using store = await RedisStore.open({ url: server.url });
    const names = Array.from({ length: 500 }, (_, at) => `n${at}`);
    const terms = { store, ttlMs: 60_000, deadlineMs: 60_000 };
    const held = await Promise.all(names.map((name) => Lease.acquire({ name, ...terms })));
    await Promise.all(held.map((lease) => lease.renew()));
    assert.ok(held.every(({ stats }) => stats.held && stats.renewed === 1));
    await Promise.all(held.map((lease) => lease.close()));
    // Only the state of the store is left.
    assert.equal(await server.ask('DBSIZE'), 1);
  });

  it('leaves no connection behind when it is closed, also while it begins to watch', async () => {
    await using server = await RedisServer.start();
    const clients = async () =>
      String(await server.ask('CLIENT', 'LIST'))
        .trim()
        .split('\n').length;
    const alone = await clients();
    for (let round = 0; round < 3; round += 1) {
      const store = await RedisStore.open({ url: server.url });
      using watch = store.watch(['a'], () => {});
      if (round === 0) while (!watch.isLive) await new Promise(setImmediate);
      await store[Symbol.asyncDispose]();
    }
    while ((await clients()) > alone);
  });

  it('goes on when the server forgets the scripts', async () => {
    await using server = await RedisServer.start();
    await using store = await RedisStore.open({ url: server.url });
    await store.commit([{ name: 'a', value: 1 }]);
    await server.ask('SCRIPT', 'FLUSH');
    await store.commit([{ name: 'a', value: 2 }]);
    await server.ask('SCRIPT', 'FLUSH');
    assert.equal(await valueIn(store, 'a'), 2);
    const bucket = new SharedBucket({ store, name: 'b', ratePerSecond: 1_000, queueMax: 500 });
    const taking = Promise.all(Array.from({ length: 300 }, () => bucket.take()));
    for (let i = 0; i < 10; i += 1) await server.ask('SCRIPT', 'FLUSH');
    await taking;
    await bucket.close();
  });

  it('tells a full server, and changes nothing', async () => {
    await using server = await RedisServer.start();
    await using store = await RedisStore.open({ url: server.url });
    await store.commit([{ name: 'a', value: 1 }]);
    await server.ask('CONFIG', 'SET', 'maxmemory', '1');
    await assert.rejects(store.commit([{ name: 'a', value: 2 }]), { code: 'STORE_FULL' });
    assert.equal(await valueIn(store, 'a'), 1);
    await server.ask('CONFIG', 'SET', 'maxmemory', '0');
    await store.commit([{ name: 'a', value: 3 }]);
  });

  it('acknowledges nothing that too few replicas have, nor reads it', async () => {
    await using master = await RedisServer.start();
    await using replica = await RedisServer.start();
    await replica.ask('REPLICAOF', '127.0.0.1', String(master.port));
    await using plain = await RedisStore.open({ url: master.url });
    const options = { url: master.url, replicasMin: 1, deadlineMs: 2_000 };
    await using store = await RedisStore.open(options);
    // The replica first takes over all data, for some seconds; nothing can be had until then.
    let seen: unknown;
    while (seen === undefined) {
      const done = store.commit([{ name: 'a', value: 1 }]);
      seen = await done.then(() => valueIn(store, 'a')).catch(() => undefined);
      await new Promise(setImmediate);
    }
    assert.equal(seen, 1);
    using paused = replica.pause();
    await assert.rejects(store.commit([{ name: 'a', value: 2 }]), { retryable: false });
    await plain.commit([{ name: 'a', value: 3 }]);
    await assert.rejects(store.read(['a']), /replicas|DEADLINE|not done/);
    paused[Symbol.dispose]();
  });

  it('follows a Sentinel under load to the new master, and gives no version twice', async () => {
    await using stack = new AsyncDisposableStack();
    const master = stack.use(await RedisServer.start());
    const replica = stack.use(await RedisServer.start());
    await replica.ask('REPLICAOF', '127.0.0.1', String(master.port));
    const sentinel = stack.use(await RedisServer.startSentinel(master.port));
    const client = createSentinel({
      name: 'm',
      sentinelRootNodes: [{ host: '127.0.0.1', port: sentinel.port }],
      nodeClientOptions: { disableOfflineQueue: true },
    });
    client.on('error', () => {});
    await client.connect();
    stack.defer(() => client.destroy());
    const store = stack.use(await RedisStore.open({ client }));
    const versions: number[] = [];
    let failed = 0;
    let isOver = false;
    const write = async (name: string) => {
      for (let value = 0; !isOver; value += 1) {
        const done = await store.commit([{ name, value }]).catch(() => undefined);
        if (done === undefined) failed += 1;
        else versions.push(done.version);
        if (done === undefined) await new Promise(setImmediate);
      }
    };
    const writers = Promise.all(['a', 'b', 'c', 'd'].map(write));
    const info = async () => String(await replica.ask('INFO', 'replication'));
    while (!(await info()).includes('master_link_status:up'));
    while (versions.length < 200) await new Promise(setImmediate);
    await master.kill();
    const before = versions.length;
    while (versions.length < before + 200) await new Promise(setImmediate);
    isOver = true;
    await writers;
    assert.ok(failed > 0, 'it was noticed');
    assert.match(await info(), /role:master/);
    // Commits of one group have one version after the other; none is given again.
    assert.equal(new Set(versions).size, versions.length);
    assert.ok(Math.min(...versions.slice(before)) > Math.max(...versions.slice(0, before)));
  });
});

describe('watching a RedisStore', requires('redis-server'), () => {
  it('tells of changes, also after the connection was cut', async () => {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(await RedisServer.start());
    const proxy = await openProxy(server.port, stack);
    const store = stack.use(await RedisStore.open({ url: proxy.url }));
    const other = stack.use(await RedisStore.open({ url: server.url }));
    let told = Promise.withResolvers<void>();
    using watch = store.watch(['a', 'b'], () => told.resolve());
    const next = async () => {
      await told.promise;
      told = Promise.withResolvers<void>();
    };
    await next();
    assert.equal(watch.isLive, true);
    await other.commit([{ name: 'b', value: 1 }]);
    await next();
    await other.commit([{ name: 'a' }]);
    await next();
    proxy.cut();
    await next();
    while (!watch.isLive) await next();
    await other.commit([{ name: 'c', value: 1 }]);
    await other.commit([{ name: 'a', value: 1 }]);
    await next();
  });

  it('hands a lease over as soon as it is released', async () => {
    await using server = await RedisServer.start();
    await using store = await RedisStore.open({ url: server.url });
    const options = { store, name: 'l', pollMs: 60_000, ttlMs: 120_000 };
    const first = await Lease.acquire(options);
    const second = Lease.acquire(options);
    while (store.stats.groups < 1) await new Promise(setImmediate);
    await first.close();
    await (await second).close();
  });
});
