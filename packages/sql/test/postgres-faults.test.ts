import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { sql } from 'kysely';
import { Lease, SpillwayError } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { Database, type DatabaseOptions, PostgresStore } from 'spillway-sql';
import { PostgresProxy } from './postgres-proxy.ts';

interface Schema {
  readonly ledger: { id: number };
  readonly slow: { id: number };
}

const terminateAll = `select pg_terminate_backend(pid) from pg_stat_activity
  where pid <> pg_backend_pid() and backend_type = 'client backend'`;

describe('Postgres in trouble', () => {
  const resources = new AsyncDisposableStack();
  let server: PostgresServer;

  before(async () => {
    server = resources.use(await PostgresServer.start());
    await server.ask(`
      create table ledger (id integer primary key);
      create table slow (id integer primary key);
      create function doze() returns trigger language plpgsql as
        $$ begin perform pg_sleep(50); return null; end $$;
      create constraint trigger doze after insert on slow
        deferrable initially deferred for each row execute function doze()`);
  });

  after(() => resources.disposeAsync());

  const open = (options?: Omit<DatabaseOptions, 'url'>): Promise<Database<Schema>> =>
    Database.open<Schema>({ url: server.url, ...options });

  /** Waits until the server runs as many queries like this. */
  async function untilRunning(pattern: string, count: number): Promise<void> {
    const asked = `select 1 from pg_stat_activity
      where state = 'active' and query ilike '${pattern}' and pid <> pg_backend_pid()`;
    while ((await server.ask(asked)).length !== count) await server.ask('select pg_sleep(0.01)');
  }

  /** Eight writers put numbers into the ledger while something happens; what each was told. */
  async function underTraffic(
    database: Database<Schema>,
    firstId: number,
    event: () => Promise<void>,
  ) {
    let nextId = firstId;
    let isOver = false;
    const acknowledged: number[] = [];
    const unknown: number[] = [];
    const codes = new Set<string>();
    async function write(): Promise<void> {
      while (!isOver) {
        const id = nextId++;
        for (;;) {
          try {
            await database.transaction((tx) => tx.insertInto('ledger').values({ id }).execute());
            acknowledged.push(id);
            break;
          } catch (error) {
            assert.ok(error instanceof SpillwayError, String(error));
            codes.add(error.code);
            if (!error.retryable) {
              unknown.push(id);
              break;
            }
          }
        }
      }
    }
    const writers = Array.from({ length: 8 }, write);
    while (acknowledged.length < 50) await server.ask('select 1');
    await event();
    const goal = acknowledged.length + 100;
    while (acknowledged.length < goal) await server.ask('select 1');
    isOver = true;
    await Promise.all(writers);
    const rows = await database.kysely.selectFrom('ledger').selectAll().execute();
    const present = new Set(rows.map(({ id }) => id));
    const known = new Set([...acknowledged, ...unknown]);
    assert.deepEqual(
      acknowledged.filter((id) => !present.has(id)),
      [],
      'acknowledged and lost',
    );
    const surplus = [...present].filter((id) => id >= firstId && !known.has(id));
    assert.deepEqual(surplus, [], 'refused and yet done');
    assert.deepEqual([...codes], ['DATABASE_LOST']);
  }

  it('recovers when every connection is cut, and loses nothing acknowledged', async () => {
    await using database = await open();
    await underTraffic(database, 1_000_000, async () => {
      for (let round = 0; round < 3; round += 1) {
        await server.ask(terminateAll);
        await server.ask('select pg_sleep(0.02)');
      }
    });
  });

  it('recovers when the server is restarted, and loses nothing acknowledged', async () => {
    await using database = await open();
    await underTraffic(database, 2_000_000, async () => {
      await server.stop();
      await assert.rejects(database.kysely.selectFrom('ledger').selectAll().execute(), {
        code: 'DATABASE_LOST',
        status: 503,
        retryable: true,
      });
      await server.start();
    });
  });

  it('says when it is not known whether a commit was done', async () => {
    await using database = await open();
    const lost = { code: 'DATABASE_LOST', retryable: false, message: /is not known$/ };
    const transaction = database.transaction((tx) =>
      tx.insertInto('slow').values({ id: 1 }).execute(),
    );
    await Promise.all([
      assert.rejects(transaction, lost),
      untilRunning('commit', 1).then(() => server.ask(terminateAll)),
    ]);
    const single = database.kysely.insertInto('slow').values({ id: 1 }).execute();
    await Promise.all([
      assert.rejects(single, lost),
      untilRunning('insert%', 1).then(() => server.ask(terminateAll)),
    ]);
  });

  it('says that a retry is safe when a query was cut before anything was committed', async () => {
    await using database = await open();
    const lost = { code: 'DATABASE_LOST', retryable: true };
    const transaction = database.transaction(async (tx) => {
      await tx.insertInto('ledger').values({ id: 3 }).execute();
      await sql`select pg_sleep(50)`.execute(tx);
    });
    const select = database.kysely.selectNoFrom(sql`pg_sleep(50)`.as('slept')).execute();
    await Promise.all([
      assert.rejects(transaction, lost),
      assert.rejects(select, lost),
      untilRunning('%pg_sleep(50)%', 2).then(() => server.ask(terminateAll)),
    ]);
    const ids = await database.kysely
      .selectFrom('ledger')
      .where('id', '=', 3)
      .selectAll()
      .execute();
    assert.deepEqual(ids, []);
  });

  it('answers at the deadline, stops the query and keeps the connection', async () => {
    // Time stands still until the server is known to run the query, however busy the machine is.
    const clock = new VirtualClock();
    const deadlineMs = 60_000;
    await using database = await open({ deadlineMs, connectionsMax: 1, clock });
    const late = { code: 'DEADLINE', status: 504 };
    const pid = async () =>
      (await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(database.kysely)).rows;
    const before = await pid();
    const nap = database.kysely.selectNoFrom(sql`pg_sleep(50)`.as('slept'));
    await Promise.all([
      assert.rejects(nap.execute(), { ...late, retryable: true }),
      untilRunning('%pg_sleep(50)%', 1).then(() => clock.advance(deadlineMs)),
    ]);
    await database.kysely.selectFrom('ledger').selectAll().limit(1).execute();
    await untilRunning('%pg_sleep(50)%', 0);
    const insert = database.kysely.insertInto('slow').values({ id: 5 });
    await Promise.all([
      assert.rejects(insert.execute(), { ...late, retryable: false, message: /not known/ }),
      untilRunning('insert%', 1).then(() => clock.advance(deadlineMs)),
    ]);
    const inserted = Promise.withResolvers<void>();
    const held = database.transaction(async (tx) => {
      await tx.insertInto('ledger').values({ id: 4 }).execute();
      inserted.resolve();
      await new Promise(() => {});
    });
    await Promise.all([
      assert.rejects(held, { ...late, retryable: true }),
      inserted.promise.then(() => clock.advance(deadlineMs)),
    ]);
    assert.deepEqual(await pid(), before);
  });

  it('stops the query of a caller that has left', async () => {
    await using database = await open({ connectionsMax: 1 });
    const controller = new AbortController();
    const nap = database.kysely.selectNoFrom(sql`pg_sleep(50)`.as('slept'));
    const asleep = nap.execute({ signal: controller.signal });
    await untilRunning('%pg_sleep(50)%', 1);
    const waiting = nap.execute({ signal: controller.signal });
    controller.abort(new Error('left'));
    await assert.rejects(asleep, /left/);
    await assert.rejects(waiting, /left/);
    await database.kysely.selectFrom('ledger').selectAll().limit(1).execute();
    await untilRunning('%pg_sleep(50)%', 0);
  });

  it('refuses at once when too many wait', async () => {
    await using database = await open({ connectionsMax: 1, queueMax: 1 });
    const select = () => database.kysely.selectFrom('ledger').selectAll().limit(1).execute();
    const [, , third] = await Promise.allSettled([select(), select(), select()]);
    assert.ok(third?.status === 'rejected');
    assert.equal(third.reason.code, 'LANE_FULL');
    assert.equal(third.reason.status, 503);
    await select();
  });

  it('names conflicts, a full disk and damage as such, and wrong SQL not at all', async () => {
    await using database = await open();
    const fail = (state: string) =>
      sql
        .raw(`do $$ begin raise exception using errcode = '${state}'; end $$`)
        .execute(database.kysely);
    await assert.rejects(fail('40001'), { code: 'DATABASE_BUSY', status: 503, retryable: true });
    await assert.rejects(fail('40P01'), { code: 'DATABASE_BUSY', retryable: true });
    await assert.rejects(fail('53300'), { code: 'DATABASE_BUSY', retryable: true });
    await assert.rejects(fail('53100'), { code: 'DATABASE_FULL', status: 507, retryable: false });
    await assert.rejects(fail('XX001'), { code: 'DATABASE_CORRUPT', status: 500 });
    await assert.rejects(sql`nonsense`.execute(database.kysely), { code: '42601' });
    const wrong = await Database.open<Schema>({ url: server.url.replace('secret', 'guess') });
    await assert.rejects(wrong.kysely.selectFrom('ledger').selectAll().execute(), {
      code: '28P01',
    });
    await wrong[Symbol.asyncDispose]();
  });

  it('lets a serializable transaction that lost a race be tried again', async () => {
    await using database = await open();
    await database.kysely.deleteFrom('ledger').execute();
    const both = Promise.withResolvers<void>();
    let inside = 0;
    const insertCount = (id: number) =>
      database.kysely
        .transaction()
        .setIsolationLevel('serializable')
        .execute(async (tx) => {
          await tx.selectFrom('ledger').selectAll().execute();
          inside += 1;
          if (inside === 2) both.resolve();
          await both.promise;
          await tx.insertInto('ledger').values({ id }).execute();
        });
    const outcomes = await Promise.allSettled([insertCount(10), insertCount(11)]);
    const lost = outcomes.filter((outcome) => outcome.status === 'rejected');
    assert.equal(lost.length, 1);
    assert.equal(lost[0]?.reason.code, 'DATABASE_BUSY');
    assert.equal(lost[0]?.reason.retryable, true);
  });

  it('survives a connection that is ended in the moment when it is ready', async () => {
    const fields = 'SFATAL\0VFATAL\0C57P01\0Mterminated\0\0';
    const fatal = Buffer.from(`E\0\0\0${String.fromCharCode(4 + fields.length)}${fields}`);
    let isFirst = true;
    await using proxy = await PostgresProxy.start(server.url, {
      alter: (chunk, end) => {
        const isReady = chunk.subarray(-6).toString('latin1') === 'Z\0\0\0\x05I';
        if (!isFirst || !isReady) return chunk;
        isFirst = false;
        end();
        // Both in one piece, so that nobody can listen in between.
        return Buffer.concat([chunk, fatal]);
      },
    });
    await using database = await Database.open<Schema>({ url: proxy.url, connectionsMax: 1 });
    const insert = database.kysely.insertInto('ledger').values({ id: 7 });
    await assert.rejects(insert.execute(), { code: 'DATABASE_LOST', retryable: true });
    await insert.execute();
  });

  it('cuts and replaces a connection that no longer answers', async () => {
    await using proxy = await PostgresProxy.start(server.url);
    const options = { deadlineMs: 1_000, connectionsMax: 1 };
    await using database = await Database.open<Schema>({ url: proxy.url, ...options });
    const select = () => database.kysely.selectFrom('ledger').selectAll().limit(1).execute();
    // A busy machine may need longer than the deadline to open a connection.
    const untilAnswered = async (): Promise<void> => {
      await select().catch(untilAnswered);
    };
    await untilAnswered();
    proxy.fallSilent();
    await assert.rejects(select(), { code: 'DEADLINE' });
    await untilAnswered();
  });

  it('closes a watched store whose server no longer answers', async () => {
    await using proxy = await PostgresProxy.start(server.url);
    const store = await PostgresStore.open({ url: proxy.url });
    using watch = store.watch(['a'], () => {});
    while (!watch.isLive) await server.ask('select pg_sleep(0.01)');
    proxy.fallSilent();
    await store[Symbol.asyncDispose]();
    assert.equal(store.stats.connections, 0);
  });
});

describe('a PostgresStore whose server comes back', () => {
  for (const how of ['stop', 'crash'] as const) {
    it(`gives no version twice, and takes no write of an old holder, after a ${how}`, async () => {
      await using server = await PostgresServer.start();
      await using near = await PostgresStore.open({ url: server.url });
      await using far = await PostgresStore.open({ url: server.url });
      const old = await Lease.acquire({ store: near, name: 'l', ttlMs: 1_000 });
      const late = old.guard([{ name: 'held', value: 'late' }]);
      const versions: number[] = [];
      const newest = new Map<string, number>();
      let isOver = false;
      const write = async (name: string) => {
        for (let value = 0; !isOver; value += 1) {
          const done = await near.commit([{ name, value }]).catch(() => undefined);
          await new Promise(setImmediate);
          if (done === undefined) continue;
          versions.push(done.version);
          newest.set(name, value);
        }
      };
      const names = ['a', 'b', 'c', 'd'];
      const writers = names.map(write);
      const until = async (count: number) => {
        while (versions.length < count) await new Promise(setImmediate);
      };
      await until(200);
      await server[how]();
      const before = versions.length;
      const waiting = Lease.acquire({ store: far, name: 'l', ttlMs: 60_000, deadlineMs: 60_000 });
      while (!old.signal.aborted) await new Promise(setImmediate);
      await server.start();
      await until(before + 200);
      isOver = true;
      await Promise.all(writers);
      assert.equal(new Set(versions).size, versions.length);
      assert.ok(Math.min(...versions.slice(before)) > Math.max(...versions.slice(0, before)));
      const { records } = await far.read(names);
      for (const [at, name] of names.entries()) {
        assert.ok(Number(records[at]?.value) >= Number(newest.get(name)), name);
      }
      await using next = await waiting;
      assert.ok(next.fence > old.fence);
      assert.equal(await near.commit(late), undefined);
      assert.ok(await far.commit(next.guard([{ name: 'held', value: 'now' }])));
      await old.close();
    });
  }
});
