import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { CompiledQuery } from 'kysely';
import { type Json, type Store, systemClock } from 'spillway';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { Database, PostgresStore } from 'spillway-sql';
import { PostgresProxy } from './postgres-proxy.ts';

describe('the Store on Postgres', () => {
  const resources = new AsyncDisposableStack();
  let server: PostgresServer;
  let database: Database<unknown>;
  let store: Store;

  before(async () => {
    server = resources.use(await PostgresServer.start());
    database = resources.use(await Database.open<unknown>({ url: server.url }));
    store = resources.use(await database.store());
  });

  after(() => resources.disposeAsync());

  async function write(name: string, value: Json, ttlMs?: number): Promise<number> {
    const done = await store.commit([{ name, value, ttlMs }]);
    assert.ok(done);
    return done.version;
  }

  it('tells that a commit survives a power failure', () => {
    assert.equal(store.durability, 'disk');
  });

  const get = async (name: string) => (await store.read([name])).records[0];

  /** Lets so much time pass on the store's clock. */
  const pass = (ms: number) => server.ask(`update spillway_store_state set now = now + ${ms}`);

  it('makes its tables once, also where advisory locks hold nobody back', async () => {
    await server.ask('create database unlocked');
    const url = server.url.replace(/[^/]*$/, 'unlocked');
    await using other = await Database.open<unknown>({ url });
    const ask = (sql: string) => other.kysely.executeQuery(CompiledQuery.raw(sql));
    await ask(`create function public.pg_advisory_xact_lock(integer, integer) returns void
      language sql as $$ select $$`);
    await ask('alter database unlocked set search_path = public, pg_catalog');
    const stores = await Promise.all(
      Array.from({ length: 6 }, () => PostgresStore.open({ url, connectionsMax: 1 })),
    );
    for (const [at, each] of stores.entries()) {
      assert.ok(await each.commit([{ name: 'a', value: at }]));
      await each[Symbol.asyncDispose]();
    }
  });

  it('waits for the disk unless all commits of a call may be undone by a crash', async () => {
    const url = await server.createDatabase('relaxed');
    await using other = await PostgresStore.open({ url, connectionsMax: 1 });
    await server.ask(
      `create table told (name text, setting text);
      create function tell() returns trigger language plpgsql as $$ begin
        insert into told values (new.name, current_setting('synchronous_commit'));
        return null;
      end $$;
      create constraint trigger tell after insert on spillway_store
        deferrable initially deferred for each row execute function tell()`,
      url,
    );
    const commit = (name: string, durability?: 'none') =>
      other.commit([{ name, value: 1 }], { durability });
    // The first of a moment is a call of its own, and those that come meanwhile share the next.
    await Promise.all([commit('a', 'none'), commit('b', 'none'), commit('c', 'none')]);
    await Promise.all([commit('d'), commit('e', 'none'), commit('f')]);
    const rows = await server.ask('select * from told order by name', url);
    const settings = Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
    assert.deepEqual(settings, { a: 'off', b: 'off', c: 'off', d: 'on', e: 'on', f: 'on' });
  });

  it('gives no version again that a crash has undone', async () => {
    const settings = ['fsync=off', 'wal_writer_delay=10000'];
    await using own = await PostgresServer.start({ settings });
    const { url } = own;
    const versions: number[] = [];
    const commit = async (by: Store, durability?: 'none') => {
      const done = await by.commit([{ name: 'news', value: 1 }], { durability });
      versions.push(done?.version ?? 0);
    };
    const before = await PostgresStore.open({ url });
    await commit(before);
    await commit(before, 'none');
    await commit(before, 'none');
    await own.crash();
    await before.close();
    await own.start();
    await using after = await PostgresStore.open({ url });
    await commit(after);
    await commit(after);
    assert.deepEqual(
      versions,
      [...new Set(versions)].sort((a, b) => a - b),
    );
  });

  it('listens at an address of its own if there is one', async () => {
    await using proxy = await PostgresProxy.start(server.url);
    const { url } = server;
    await using other = await PostgresStore.open({ url, listenUrl: proxy.url, connectionsMax: 1 });
    let told = Promise.withResolvers<void>();
    using watch = other.watch(['listened'], () => told.resolve());
    await told.promise;
    assert.deepEqual([watch.isLive, proxy.plain], [true, 1]);
    told = Promise.withResolvers<void>();
    await write('listened', 1);
    await told.promise;
  });

  it('gives back exactly what was put, whatever JSON it is', async () => {
    const value = { z: [null, true, 1.5, -0.1, 1e21], a: 'é\u0000\ud800 "\\', '': { deep: [[]] } };
    const version = await write('any', value);
    assert.deepEqual(await get('any'), { value, version, expiresAt: undefined });
    assert.deepEqual(Object.keys(Object((await get('any'))?.value)), ['z', 'a', '']);
    await write('any', null);
    assert.equal((await get('any'))?.value, null);
  });

  it('reads in the order asked, also nothing at all', async () => {
    await write('r/1', 1);
    await write('r/2', 2);
    const { now, records } = await store.read(['r/2', 'r/none', 'r/1', 'r/2']);
    assert.deepEqual(
      records.map((record) => record?.value),
      [2, undefined, 1, 2],
    );
    assert.ok(Math.abs(now - Date.now()) < 60_000);
    assert.ok((await store.read([])).now >= now);
  });

  it('changes nothing unless every version is as it should be', async () => {
    const version = await write('c/a', 1);
    assert.equal(await store.commit([{ name: 'c/a', value: 2, ifVersion: 0 }]), undefined);
    const partly = [
      { name: 'c/b', value: 2, ifVersion: 0 },
      { name: 'c/a', value: 2, ifVersion: version + 1 },
    ];
    assert.equal(await store.commit(partly), undefined);
    assert.equal(await get('c/b'), undefined);
    const checked = { name: 'c/a', ifVersion: version, checkOnly: true };
    const done = await store.commit([checked, { name: 'c/b', value: 3, ifVersion: 0 }]);
    assert.equal((await get('c/b'))?.version, done?.version);
    assert.deepEqual((await get('c/a'))?.value, 1);
  });

  it('never uses a version twice, also after removal and expiry', async () => {
    const first = await write('v', 1);
    const removed = await store.commit([{ name: 'v' }]);
    assert.equal(await get('v'), undefined);
    const second = await write('v', 2, 1);
    await pass(5);
    assert.equal(await get('v'), undefined);
    const third = await store.commit([{ name: 'v', value: 3, ifVersion: 0 }]);
    assert.ok(removed && third);
    assert.deepEqual(
      [first, removed.version, second, third.version].toSorted((a, b) => a - b),
      [first, removed.version, second, third.version],
    );
  });

  it('hides what has expired on its own clock, and removes it by and by', async () => {
    const { now } = await store.read([]);
    await write('t/long', 1, 60_000);
    const expiresAt = (await get('t/long'))?.expiresAt ?? 0;
    assert.ok(expiresAt >= now + 60_000 && expiresAt < now + 120_000);
    const names = Array.from({ length: 150 }, (_, at) => `t/short/${at}`);
    await store.commit(names.map((name) => ({ name, value: 0, ttlMs: 1 })));
    await pass(5);
    assert.deepEqual(await store.list('t/short/', { max: 500 }), []);
    const count = () => server.ask(`select name from spillway_store where name ^@ 't/short/'`);
    assert.equal((await count()).length, 150);
    await write('t/other', 1);
    assert.equal((await count()).length, 50);
    await write('t/other', 2);
    assert.equal((await count()).length, 0);
    await write('t/long', 2);
    assert.equal((await get('t/long'))?.expiresAt, undefined);
  });

  it('never goes back in time, whatever the clock of the server does', async () => {
    await write('b', 1, 60_000);
    await server.ask('update spillway_store_state set now = now + 3600000');
    const { now, records } = await store.read(['b']);
    assert.equal(records[0], undefined);
    assert.ok(now >= Date.now() + 3_500_000);
    const done = await store.commit([{ name: 'b', value: 2, ifVersion: 0 }]);
    assert.ok(done && done.now >= now);
  });

  it('goes on at once when the clock of the server had been ahead', async () => {
    await write('ahead', 1);
    await server.ask('update spillway_store_state set now = now + 3600000, wall = wall + 3600000');
    const done = await store.commit([{ name: 'ahead', value: 1, ttlMs: 20 }]);
    await new Promise<void>((resolve) => systemClock.after(40, resolve));
    const { now, records } = await store.read(['ahead']);
    assert.ok(now >= (done?.now ?? Infinity) + 20, `${now}`);
    assert.equal(records[0], undefined);
  });

  it('tells those who watch a name of changes, also after its connection was cut', async () => {
    let told = Promise.withResolvers<void>();
    using watch = store.watch?.(['w/a', 'w/b'], () => told.resolve());
    assert.ok(watch);
    const next = async () => {
      await told.promise;
      told = Promise.withResolvers<void>();
    };
    // Told first when it listens, since something may have changed before.
    await next();
    while (!watch.isLive) await next();
    await using other = await database.store();
    await other.commit([{ name: 'w/b', value: 1 }]);
    await next();
    await other.commit([{ name: 'w/a' }]);
    await next();
    await server.ask(
      "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen %'",
    );
    await next();
    while (!watch.isLive) await next();
    await other.commit([{ name: 'w/a', value: 2 }]);
    await next();
  });

  it('tells the news of each change in order, and hears an older version', async () => {
    const heard: (string | undefined)[] = [];
    let told = Promise.withResolvers<void>();
    using watch = store.watch?.(['n/a'], (news) => {
      heard.push(news?.text);
      told.resolve();
    });
    while (!watch?.isLive) await told.promise;
    heard.length = 0;
    const texts = ['', ' a  b', 'ä'.repeat(3_500), '1'];
    const commit = (news: string) => store.commit([{ name: 'n/a', value: 1, news }]);
    await Promise.all(texts.map(commit));
    // The function as the store called it before there were news.
    const old = "array[1], array['n/a'], array[null::bigint], array['2'], array[null::float], ";
    await server.ask(`select spillway_store_commit(${old} array[false], null, null)`);
    while (heard.length < 5) {
      told = Promise.withResolvers();
      await told.promise;
    }
    assert.deepEqual(heard, [...texts, undefined]);
    for (const news of ['x'.repeat(7_001), 'a\0', '\ud800', 7 as never]) {
      await assert.rejects(commit(news), { code: 'ERR_ASSERTION' });
    }
  });

  it('lists by prefix in the order of names, at most so many', async () => {
    for (const name of ['l/b', 'l/a', 'l/%', 'l_a', 'l/c', 'm']) await write(name, name);
    const names = async (prefix: string, max: number) =>
      (await store.list(prefix, { max })).map(({ name }) => name);
    assert.deepEqual(await names('l/', 10), ['l/%', 'l/a', 'l/b', 'l/c']);
    assert.deepEqual(await names('l/', 2), ['l/%', 'l/a']);
    assert.deepEqual(await names('l/%', 10), ['l/%']);
  });

  it('loses no increment, and commits of one moment share a round trip', async () => {
    async function increment(): Promise<void> {
      for (;;) {
        const record = await get('n');
        const value = Number(record?.value ?? 0) + 1;
        const ifVersion = record?.version ?? 0;
        if (await store.commit([{ name: 'n', value, ifVersion }])) return;
      }
    }
    await Promise.all(Array.from({ length: 40 }, increment));
    assert.equal((await get('n'))?.value, 40);
    const { stats } = database;
    assert.ok('lane' in stats && stats.lane.inside === 0);
  });

  it('shows every group of changes whole to each reading', async () => {
    let isDone = false;
    const writing = (async () => {
      for (let at = 0; at < 100; at += 1) {
        await store.commit([
          { name: 'w/1', value: at },
          { name: 'w/2', value: at },
        ]);
      }
      isDone = true;
    })();
    while (!isDone) {
      const [one, two] = (await store.read(['w/1', 'w/2'])).records;
      assert.equal(one?.version, two?.version);
    }
    await writing;
  });

  it('gives later commits greater versions as every reader sees them', async () => {
    let isDone = false;
    const write8 = (at: number) =>
      (async () => {
        for (let n = 0; n < 20; n += 1) await write(`g/${at}`, n);
      })();
    await using other = await Database.open<unknown>({ url: server.url });
    await using second = await other.store();
    const writing = Promise.all([
      ...Array.from({ length: 4 }, (_, at) => write8(at)),
      (async () => {
        for (let n = 0; n < 20; n += 1) await second.commit([{ name: 'g/other', value: n }]);
      })(),
    ]).then(() => {
      isDone = true;
    });
    const seen = new Map<string, number>();
    let highest = 0;
    while (!isDone) {
      const before = highest;
      for (const { name, version } of await store.list('g/', { max: 10 })) {
        if (version !== (seen.get(name) ?? 0)) assert.ok(version > before, name);
        seen.set(name, version);
        highest = Math.max(highest, version);
      }
    }
    await writing;
  });

  it('rejects at once with the reason of whoever aborts', async () => {
    const reason = new Error('gone');
    const signal = AbortSignal.abort(reason);
    await assert.rejects(store.read(['a'], { signal }), reason);
    await assert.rejects(store.list('a', { max: 1, signal }), reason);
    await assert.rejects(store.commit([{ name: 'x', value: 1 }], { signal }), reason);
    const first = store.commit([{ name: 'x', value: 1 }]);
    const controller = new AbortController();
    const second = store.commit([{ name: 'x', value: 2 }], { signal: controller.signal });
    controller.abort(reason);
    await assert.rejects(second, reason);
    await first;
    await store.commit([{ name: 'y', value: 1 }]);
    assert.equal((await get('x'))?.value, 1);
  });

  it('refuses at once when too many commits wait', async () => {
    await using small = await Database.open<unknown>({ url: server.url, queueMax: 2 });
    await using narrow = await small.store();
    const commits = Array.from({ length: 5 }, () => narrow.commit([{ name: 'q', value: 1 }]));
    const outcomes = await Promise.allSettled(commits);
    const refused = outcomes.filter(({ status }) => status === 'rejected');
    assert.ok(refused.length > 0 && refused.length < 5);
    for (const outcome of refused) {
      assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'LANE_FULL');
    }
  });
});
