import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Json, Lease, SharedBucket, SharedGate } from 'spillway';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { PostgresStore } from 'spillway-sql';

/** Does what the migration of a newer version may do: replaces every function, and notes itself. */
const migrateOn = `do $do$
declare
  f oid;
begin
  for f in select p.oid from pg_proc p where p.proname like 'spillway%' loop
    execute replace(pg_get_functiondef(f), E'AS $function$', E'AS $function$ /* newer */ ');
  end loop;
  insert into spillway_store_migrations
    select max(number) + 1, 'newer', '' from spillway_store_migrations;
end
$do$`;

describe('two versions on one Postgres', () => {
  it('go on together while the newer one migrates; the older one cannot be started', async () => {
    await using server = await PostgresServer.start();
    await using store = await PostgresStore.open({ url: server.url });
    await using other = await PostgresStore.open({ url: server.url });
    const options = { name: 'b', ratePerSecond: 200, burst: 20, queueMax: 500 };
    const buckets = [store, other].map((each) => {
      return new SharedBucket({ store: each, deadlineMs: 20_000, ...options });
    });
    const lease = await Lease.acquire({ store, name: 'l', ttlMs: 60_000 });
    const from = performance.now();
    const taking = buckets.flatMap((b) => Array.from({ length: 120 }, () => b.take()));
    await server.ask(migrateOn);
    await Promise.all(taking);
    const seconds = (performance.now() - from) / 1_000;
    assert.ok(240 <= 200 * seconds + 20 + 1, `240 in ${seconds} s`);
    await lease.renew();
    const terms = { store: other, name: 'l', ttlMs: 60_000, waits: false };
    await assert.rejects(Lease.acquire(terms), { code: 'LEASE_HELD' });
    await assert.rejects(PostgresStore.open({ url: server.url }), {
      code: 'DATABASE_MIGRATION',
      message: /newer.* is not known here: start the newer version/,
    });
    for (const bucket of buckets) await bucket.close();
    await lease.close();
  });

  it('an older one that commits by the older function takes no lease that is held', async () => {
    await using server = await PostgresServer.start();
    await using store = await PostgresStore.open({ url: server.url });
    const lease = await Lease.acquire({ store, name: 'l', ttlMs: 60_000 });
    const claim = (version: string) =>
      server.ask(`select (spillway_store_commit(array[2], array['lease/l', 'lease/l/fence'],
        array[${version}, null::bigint], array['{"holder":"o"}', '{"holder":"o"}'],
        array[60000, null::float], array[false, false], null, null)).version`);
    const fenceOf = async () => (await store.read(['lease/l/fence'])).records[0]?.version;
    await claim('0');
    assert.equal(await fenceOf(), lease.fence);
    const late = lease.guard([{ name: 'n', value: 1 }]);
    await lease.close();
    await claim('0');
    assert.ok(Number(await fenceOf()) > lease.fence);
    assert.equal(await store.commit(late), undefined);
    const terms = { store, name: 'l', ttlMs: 60_000, waits: false };
    await assert.rejects(Lease.acquire(terms), { code: 'LEASE_HELD' });
  });

  it('refuse a record that they cannot read, leave it, and answer about the others', async () => {
    await using server = await PostgresServer.start();
    await using store = await PostgresStore.open({ url: server.url });
    const bucketOf = (name: string) => {
      return new SharedBucket({ store, name, ratePerSecond: 10, queueMax: 10 });
    };
    const foreign: readonly [string, Json, () => Promise<unknown>][] = [
      ['bucket/x', { ratePerSecond: 10, since: 1 }, () => bucketOf('x').take()],
      ['bucket/x', {}, () => bucketOf('x').take()],
      [
        'gate/x',
        { one: { held: null } },
        () => new SharedGate({ store, name: 'x', limit: 1, queueMax: 1 }).run(async () => {}),
      ],
    ];
    for (const [name, value, use] of foreign) {
      const done = await store.commit([{ name, value }]);
      const refused = assert.rejects(use(), { code: 'DATABASE_MIGRATION' }, name);
      await bucketOf('well').take();
      await refused;
      const [record] = (await store.read([name])).records;
      assert.deepEqual([record?.value, record?.version], [value, done?.version]);
    }
    const apply = (decision: string) =>
      server.ask(`select answer from spillway_store_apply(array['rate/x'], array['${decision}'],
        array['{"limit":1,"windowMs":1000,"waiting":1,"ahead":0}'], null, null)`);
    await store.commit([{ name: 'rate/x', value: { a: 1 } }]);
    for (const decision of ['rate/charge', 'rate/newer']) {
      assert.doesNotMatch(JSON.stringify(await apply(decision)), /admitted|state/);
    }
    assert.deepEqual((await store.read(['rate/x'])).records[0]?.value, { a: 1 });
  });
});
