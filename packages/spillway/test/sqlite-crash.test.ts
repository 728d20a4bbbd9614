import assert from 'node:assert/strict';
import { mkdtempDisposable, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { SqliteFile, SqliteStore } from 'spillway';
import { cannotMount, mountSmallDisk } from 'spillway-fixtures/mount';
import { Child } from './fixtures/child.ts';
import { countUp } from './fixtures/count-up.ts';

const temporary = () => mkdtempDisposable(join(tmpdir(), 'spillway-crash-'));

describe('a SQLite file', () => {
  it('counts right to 2,000 in 8 processes', async () => {
    await using folder = await temporary();
    const path = join(folder.path, 'file.db');
    await using stack = new AsyncDisposableStack();
    const children = Array.from({ length: 8 }, () =>
      stack.use(new Child('countInStore', path, 250)),
    );
    await Promise.all(children.map((child) => child.ended()));
    await using store = await SqliteStore.open({ path });
    assert.equal((await store.read(['count'])).records[0]?.value, 2_000);
  });

  it('counts right to 1,000 from 1,000 callers at once', async () => {
    await using folder = await temporary();
    await using file = await SqliteFile.open({ path: join(folder.path, 'file.db') });
    await file.write([
      { sql: 'CREATE TABLE counter (count INTEGER)', parameters: [] },
      { sql: 'INSERT INTO counter VALUES (0)', parameters: [] },
    ]);
    const sql = 'UPDATE counter SET count = count + 1 RETURNING count';
    const seen = await Promise.all(
      Array.from({ length: 1_000 }, async () => {
        const [result] = await file.write([{ sql, parameters: [] }]);
        return result?.rows[0]?.count;
      }),
    );
    assert.deepEqual(
      new Set(seen),
      new Set(Array.from({ length: 1_000 }, (_, count) => count + 1)),
    );
  });

  it('counts right to 1,000 from 1,000 callers that compare and set', async () => {
    await using folder = await temporary();
    const path = join(folder.path, 'file.db');
    await using file = await SqliteFile.open({ path, deadlineMs: 60_000 });
    await using store = await SqliteStore.open({ file });
    await Promise.all(Array.from({ length: 1_000 }, () => countUp(store)));
    assert.equal((await store.read(['count'])).records[0]?.value, 1_000);
  });

  it('says when the disk is full, loses nothing, and goes on when there is room', async (test) => {
    await using folder = await temporary();
    const disk = join(folder.path, 'disk');
    using mounted = mountSmallDisk(disk, 2_000_000);
    if (mounted === undefined) return test.skip(cannotMount);
    const ballast = join(disk, 'ballast');
    await writeFile(ballast, Buffer.alloc(1_000_000));
    const path = join(disk, 'file.db');
    await using file = await SqliteFile.open({ path, readers: 1, deadlineMs: 60_000 });
    const create = 'CREATE TABLE page (number INTEGER PRIMARY KEY, bytes BLOB)';
    await file.write([{ sql: create, parameters: [] }]);
    const done: number[] = [];
    const fill = async (number: number): Promise<void> => {
      const sql = 'INSERT INTO page (number, bytes) VALUES (?, ?)';
      await file.write([{ sql, parameters: [number, new Uint8Array(3_000)] }]);
      done.push(number);
    };
    const numbers = Array.from({ length: 1_000 }, (_, number) => number);
    const filled = await Promise.allSettled(numbers.map(fill));
    const failures = filled.filter((result) => result.status === 'rejected');
    assert.ok(failures.length > 0 && done.length > 0, `${done.length} of 1,000 fitted`);
    for (const { reason } of failures) {
      assert.deepEqual(
        [reason.code, reason.status, reason.retryable],
        ['DATABASE_FULL', 507, false],
      );
    }
    assert.equal(file.ready, false);
    assert.equal(file.stats.full, true);
    assert.match(String(file.fault), /the disk of .*file\.db is full/);
    await rm(ballast);
    // No write comes, as behind a balancer that sends none to what is not ready.
    while (!file.ready) await setTimeout(50);
    assert.deepEqual([file.fault, file.stats.full], [undefined, false]);
    await fill(1_000);
    assert.deepEqual(
      (await readdir(disk)).filter((name) => name.includes('trial')),
      [],
    );
    const { rows } = await file.read({ sql: 'SELECT number FROM page', parameters: [] });
    assert.deepEqual(
      rows.map(({ number }) => number),
      done.sort((a, b) => a - b),
    );
  });
});
