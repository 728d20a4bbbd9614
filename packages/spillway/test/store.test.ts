// Slow: runs every case on every store.

import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { MemoryStore, SqliteFile, SqliteStore, seededRandom, systemClock } from 'spillway';
import { storeCases, VirtualClock } from 'spillway/testing';

const temporary = () => mkdtempDisposable(join(tmpdir(), 'spillway-store-'));

/** Moves the time that a file has seen: it never goes back behind that. */
async function passInFile(path: string, ms: number): Promise<void> {
  await using file = await SqliteFile.open({ path, readers: 1 });
  await file.write([{ sql: 'UPDATE spillway_clock SET now = now + ?', parameters: [ms] }]);
}

describe('MemoryStore', () => {
  for (const { name, run } of storeCases) {
    it(name, async () => {
      const clock = new VirtualClock();
      const store = new MemoryStore({ clock });
      // A handle that closes is not the end of what all of them share.
      const open = async () => ({
        read: store.read.bind(store),
        commit: store.commit.bind(store),
        apply: store.apply.bind(store),
        list: store.list.bind(store),
        [Symbol.asyncDispose]: async () => {},
      });
      await run({ open, pass: (ms) => clock.advance(ms) });
      assert.equal(clock.pending, 0);
    });
  }

  it('goes on by the differences of its clock, when that was ahead for a while', async () => {
    const clock = new VirtualClock();
    let aheadMs = 0;
    const jumping = { now: () => clock.now() + aheadMs, after: clock.after.bind(clock) };
    await using store = new MemoryStore({ clock: jumping });
    await store.commit([{ name: 'a', value: 1 }]);
    aheadMs = 3_600_000;
    const ahead = await store.commit([{ name: 'a', value: 2, ttlMs: 1_000 }]);
    aheadMs = 0;
    assert.equal((await store.read([])).now, ahead?.now);
    await clock.advance(1_000);
    const { now, records } = await store.read(['a']);
    assert.deepEqual([now, records[0]], [(ahead?.now ?? 0) + 1_000, undefined]);
  });

  it('lists by the bytes of names, page by page, for random names', async () => {
    await using store = new MemoryStore();
    const random = seededRandom(1);
    const units = ['a', 'b', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\u{10ffff}'];
    const draw = () => units[Math.floor(random() * units.length)] as string;
    const names = new Set<string>();
    while (names.size < 300) names.add(draw() + draw() + (random() < 0.8 ? draw() : ''));
    await store.commit([...names].map((name) => ({ name, value: 1 })));
    const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
    for (const [prefix, max] of [
      ['', 7],
      ['', 400],
      ['\uffff', 5],
    ] as const) {
      const found: string[] = [];
      for (;;) {
        const page = await store.list(prefix, { max, after: found.at(-1) });
        found.push(...page.map(({ name }) => name));
        if (page.length < max) break;
      }
      assert.deepEqual(found, [...names].filter((name) => name.startsWith(prefix)).sort(byBytes));
    }
  });

  it('tells those who watch a name of each change, and of no other', async () => {
    await using store = new MemoryStore();
    let told = 0;
    using watch = store.watch(['a', 'b'], () => {
      told += 1;
    });
    assert.equal(watch.isLive, true);
    await store.commit([{ name: 'c', value: 1 }]);
    await store.commit([{ name: 'c', ifVersion: 7 }]);
    assert.equal(told, 0);
    await store.commit([{ name: 'a', value: 1 }, { name: 'c' }]);
    await store.commit([{ name: 'a' }]);
    assert.equal(told, 2);
    watch[Symbol.dispose]();
    await store.commit([{ name: 'b', value: 1 }]);
    assert.equal(told, 2);
  });

  it('tells all of a change, and commits it, though one who watches throws', async (t) => {
    await using store = new MemoryStore();
    const warned = t.mock.method(process, 'emitWarning', () => {});
    using _broken = store.watch(['a'], () => assert.fail('broken'));
    let told = 0;
    using _other = store.watch(['a'], () => {
      told += 1;
    });
    assert.ok(await store.commit([{ name: 'a', value: 1 }]));
    assert.deepEqual([told, warned.mock.callCount()], [1, 1]);
  });

  it('tells once those who watch anew when they are told', async () => {
    await using store = new MemoryStore();
    using _other = store.watch(['a'], () => {});
    let told = 0;
    const changed = () => {
      told += 1;
      watch[Symbol.dispose]();
      if (told < 10) watch = store.watch(['a'], changed);
    };
    let watch = store.watch(['a'], changed);
    await store.commit([{ name: 'a', value: 1 }]);
    await store.commit([{ name: 'a', value: 2 }]);
    assert.equal(told, 2);
  });

  it('forgets expired records a few with every commit, without anybody asking', async () => {
    const clock = new VirtualClock();
    await using store = new MemoryStore({ clock });
    for (let at = 0; at < 20_000; at += 1) {
      await store.commit([{ name: `name ${at}`, value: at, ttlMs: 100 }]);
      if (at % 10 === 0) await clock.advance(1);
    }
    assert.ok(store.stats.records < 3_000, `${store.stats.records} records are held`);
    await clock.advance(100);
    for (let at = 0; at < 400; at += 1) await store.commit([{ name: 'one', value: 1 }]);
    const stats = { kind: 'store', records: 1, characters: 4, durability: 'none' };
    assert.deepEqual(store.stats, stats);
  });

  it('refuses a commit that goes beyond its bounds, and changes nothing by it', async () => {
    const clock = new VirtualClock();
    await using store = new MemoryStore({ clock, recordsMax: 2, charactersMax: 20 });
    const full = { code: 'STORE_FULL', status: 503, retryable: true };
    await store.commit([{ name: 'a', value: 'x'.repeat(10) }]);
    await assert.rejects(store.commit([{ name: 'b', value: 'x'.repeat(10) }]), full);
    await store.commit([{ name: 'b', value: 1, ttlMs: 10 }]);
    await assert.rejects(store.commit([{ name: 'c', value: 1 }]), full);
    await store.commit([{ name: 'a', value: 2 }]);
    await store.commit([{ name: 'a' }, { name: 'c', value: 3 }]);
    await assert.rejects(store.commit([{ name: 'd', value: 4 }]), full);
    await clock.advance(10);
    await store.commit([{ name: 'd', value: 4 }]);
    const names = (await store.list('', { max: 9 })).map(({ name }) => name);
    assert.deepEqual(names, ['c', 'd']);
  });

  it('forgets what would expire, oldest change first, if it is told to', async () => {
    const clock = new VirtualClock();
    await using store = new MemoryStore({ clock, recordsMax: 3, whenFull: 'forget' });
    await store.commit([{ name: 'kept', value: 0 }]);
    for (const name of ['a', 'b']) await store.commit([{ name, value: 1, ttlMs: 1_000 }]);
    await store.commit([{ name: 'a', value: 2, ttlMs: 1_000 }]);
    await store.commit([{ name: 'c', value: 3, ttlMs: 1_000 }]);
    const names = (await store.list('', { max: 9 })).map(({ name }) => name);
    assert.deepEqual(names, ['a', 'c', 'kept']);
    await store.commit([{ name: 'd', value: 4 }]);
    await store.commit([{ name: 'e', value: 4 }]);
    await assert.rejects(store.commit([{ name: 'f', value: 4 }]), { code: 'STORE_FULL' });
  });

  it('forgets nothing for a commit that would not fit all the same', async () => {
    const bounds = { recordsMax: 9, charactersMax: 20, whenFull: 'forget' } as const;
    await using store = new MemoryStore({ clock: new VirtualClock(), ...bounds });
    await store.commit([{ name: 'kept', value: 12 }]);
    for (const name of ['a', 'b']) await store.commit([{ name, value: 1, ttlMs: 1_000 }]);
    const large = [{ name: 'c', value: 'x'.repeat(20) }];
    await assert.rejects(store.commit(large), { code: 'STORE_FULL' });
    assert.equal(store.stats.records, 3);
    await store.commit([{ name: 'c', value: 'x'.repeat(9) }]);
    const names = (await store.list('', { max: 9 })).map(({ name }) => name);
    assert.deepEqual(names, ['b', 'c', 'kept']);
  });
});

describe('SqliteStore', () => {
  for (const { name, run } of storeCases) {
    it(name, async () => {
      await using folder = await temporary();
      const path = join(folder.path, 'store.db');
      await run({
        open: () => SqliteStore.open({ path }),
        pass: (ms) => passInFile(path, ms),
      });
    });
  }

  it('never goes back in time, whatever the clock of the machine does', async () => {
    await using folder = await temporary();
    const path = join(folder.path, 'store.db');
    await using store = await SqliteStore.open({ path });
    const before = await store.commit([{ name: 'a', value: 1, ttlMs: 1_000 }]);
    await passInFile(path, 3_600_000);
    const { now, records } = await store.read(['a']);
    assert.ok(now >= (before?.now ?? 0) + 3_600_000);
    assert.equal(records[0], undefined);
    const again = await store.commit([{ name: 'a', value: 2, ttlMs: 1_000 }]);
    assert.ok(again !== undefined && again.now >= now);
    assert.equal((await store.read(['a'])).records[0]?.expiresAt, again.now + 1_000);
    // This process has seen that time, so it holds even if the file forgets it.
    await using file = await SqliteFile.open({ path });
    await file.write([{ sql: 'UPDATE spillway_clock SET now = 0', parameters: [] }]);
    assert.ok((await store.read([])).now >= again.now);
    assert.ok(((await store.commit([{ name: 'b', value: 1 }]))?.now ?? 0) >= again.now);
  });

  it('goes on at once when the clock of the machine had been ahead', async () => {
    await using folder = await temporary();
    const path = join(folder.path, 'store.db');
    await using store = await SqliteStore.open({ path });
    await store.commit([{ name: 'a', value: 1 }]);
    await using file = await SqliteFile.open({ path });
    // As if the last commit had been made while the clock was an hour ahead.
    const sql = 'UPDATE spillway_clock SET now = now + 3600000, wall = wall + 3600000';
    await file.write([{ sql, parameters: [] }]);
    await using other = await SqliteStore.open({ path });
    const done = await store.commit([{ name: 'a', value: 1, ttlMs: 20 }]);
    await new Promise<void>((resolve) => systemClock.after(40, resolve));
    for (const each of [store, other]) {
      const { now, records } = await each.read(['a']);
      assert.ok(now >= (done?.now ?? Infinity) + 20, `${now}`);
      assert.equal(records[0], undefined);
    }
  });

  it('tells that a commit survives a power failure', async () => {
    await using folder = await temporary();
    await using store = await SqliteStore.open({ path: join(folder.path, 'store.db') });
    assert.equal(store.durability, 'disk');
    assert.equal(store.stats.durability, 'disk');
  });

  it('purges what has expired or was removed, a little with every commit', async () => {
    await using folder = await temporary();
    const path = join(folder.path, 'store.db');
    await using file = await SqliteFile.open({ path });
    await using store = await SqliteStore.open({ file });
    const names = Array.from({ length: 100 }, (_, at) => `name ${at}`);
    await store.commit(names.map((name) => ({ name, value: 1, ttlMs: 10 })));
    await passInFile(path, 10);
    const count = async () => {
      const sql = 'SELECT count(*) AS count FROM spillway_record';
      return (await file.read({ sql, parameters: [] })).rows[0]?.count;
    };
    await store.commit([{ name: 'one', value: 1 }]);
    assert.equal(await count(), 101 - 9);
    for (let at = 0; at < 12; at += 1) await store.commit([{ name: 'one' }]);
    assert.equal(await count(), 0);
  });
});
