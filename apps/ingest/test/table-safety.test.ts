// Slow: writes and compacts many tables.

import assert from 'node:assert/strict';
import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { startFauxqs } from 'fauxqs';
import { Lease, MemoryStore } from 'spillway';
import type { Folder } from '../src/files/folder.ts';
import { S3Folder } from '../src/files/s3-folder.ts';
import { verify } from '../src/quality/verify.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import { entryOf, fenceOf, lines, range, temporaryFolder, tradesOf } from './fixtures/trades.ts';

const countSql = 'SELECT count(*) AS n, count(DISTINCT trade_id) AS ids FROM trades';
const newest = 'table/manifest/000000001.json';

async function tableWith(folder: Folder): Promise<TradeTable> {
  const table = await TradeTable.open({ folder, lines });
  await table.merge([await entryOf(folder, tradesOf(range(1, 50)), { commit: 1 })], fenceOf(5));
  return table;
}

describe('the safety of a TradeTable', () => {
  it('refuses whoever holds an older lease', async () => {
    await using folder = await temporaryFolder();
    const table = await tableWith(folder);
    const next = await entryOf(folder, tradesOf([60]), { commit: 2 });
    const stale = { code: 'TABLE_STALE', message: /lease 5; 4 is older/ };
    await assert.rejects(table.merge([next], fenceOf(4)), stale);
    await assert.rejects(table.compact(fenceOf(4)), stale);
    assert.equal((await table.refresh()).version, 1);
    assert.equal((await table.merge([next], fenceOf(6))).version, 2);
  });

  it('lets one of two win who change the same state, and the other loses nothing', async () => {
    await using folder = await temporaryFolder();
    const first = await tableWith(folder);
    const second = await TradeTable.open({ folder, lines });
    const [eth, sol] = [
      await entryOf(folder, tradesOf(range(1, 10)), { commit: 1, product: 'ETH-USD' }),
      await entryOf(folder, tradesOf(range(1, 10)), { commit: 1, product: 'SOL-USD' }),
    ];
    const done = await Promise.allSettled([
      first.merge([eth], fenceOf(5)),
      second.merge([sol], fenceOf(5)),
    ]);
    const won = done.filter(({ status }) => status === 'fulfilled').length;
    for (const outcome of done) {
      if (outcome.status === 'rejected') assert.equal(outcome.reason.code, 'TABLE_STALE');
    }
    assert.ok(won > 0);
    const { rows } = await second.query('SELECT count(*) AS n FROM trades');
    assert.deepEqual(rows, [{ n: 50 + 10 * won }]);
    await first.merge([eth, sol], fenceOf(5));
    assert.equal((await second.query('SELECT count(*) AS n FROM trades')).rows[0]?.n, 70);
  });

  it('stops when its lease is lost, and leaves the state as it was', async () => {
    await using folder = await temporaryFolder();
    await using store = new MemoryStore();
    const table = await tableWith(folder);
    const next = await entryOf(folder, tradesOf(range(51, 90)), { commit: 2 });
    const lease = await Lease.acquire({ store, name: 'transform', ttlMs: 60_000, waits: false });
    const merging = table.merge([next], { fence: 9, signal: lease.signal });
    await lease[Symbol.asyncDispose]();
    await assert.rejects(merging, { code: 'LEASE_LOST' });
    assert.equal((await table.refresh()).version, 1);
    assert.equal((await table.merge([next], fenceOf(10))).added, 40);
    assert.equal((await folder.list('table/data')).length, table.manifest.files.length);
  });

  it('names a file that is not its own, and touches nothing', async () => {
    await using folder = await temporaryFolder();
    const table = await tableWith(folder);
    const next = await entryOf(folder, tradesOf([60]), { commit: 2 });
    const before = await folder.list('table');
    await folder.write('table/data/notes.txt', Buffer.from('mine'));
    const foreign = { code: 'TABLE_FOREIGN', message: /table\/data\/notes\.txt.*nothing was/ };
    await assert.rejects(table.merge([next], fenceOf(5)), foreign);
    await assert.rejects(table.compact(fenceOf(5)), foreign);
    await assert.rejects(table.rebuild([next], fenceOf(5)), foreign);
    assert.deepEqual(Buffer.from(await folder.read('table/data/notes.txt')).toString(), 'mine');
    assert.equal((await folder.list('table')).length, before.length + 1);
    assert.equal((await table.query(countSql)).rows[0]?.n, 50);
    const { issues } = await verify(table, []);
    assert.ok(issues.some(({ flaw, file }) => flaw === 'foreign' && file?.endsWith('notes.txt')));
  });

  it('names a manifest that it cannot trust, and does not guess', async () => {
    await using folder = await temporaryFolder();
    const table = await tableWith(folder);
    const path = join(folder.place, newest);
    const good = await readFile(path, 'utf8');
    const damaged: readonly (readonly [string, string, RegExp])[] = [
      [good.replace('"rows":50', '"rows":51'), 'TABLE_CORRUPT', /checksum/],
      [good.slice(0, 200), 'TABLE_CORRUPT', /no manifest/],
      ['', 'TABLE_CORRUPT', /no manifest/],
      ['{"some":"json"}', 'TABLE_CORRUPT', /no manifest/],
      [
        good.replace('"formatVersion":3', '"formatVersion":2'),
        'TABLE_CORRUPT',
        /version 2; nothing was changed; .* move .* away: "ingest transform"/,
      ],
      [
        good.replace('"formatVersion":3', '"formatVersion":4'),
        'TABLE_FUTURE',
        /version 4.*knows 3/,
      ],
    ];
    const next = await entryOf(folder, tradesOf([60]), { commit: 2 });
    for (const [text, code, why] of damaged) {
      await writeFile(path, text);
      const refused = (error: Error & { readonly code?: string }): boolean => {
        assert.equal(error.code, code);
        assert.match(error.message, /manifest\/000000001\.json/);
        assert.match(error.message, why);
        return true;
      };
      await assert.rejects(TradeTable.open({ folder, lines }), refused);
      await assert.rejects(table.merge([next], fenceOf(5)), refused);
      assert.equal(await readFile(path, 'utf8'), text);
    }
    await writeFile(path, good);
    assert.equal((await table.merge([next], fenceOf(5))).added, 1);
  });

  it('changes nothing beside files whose manifest is gone, and verify names them', async () => {
    await using folder = await temporaryFolder();
    const raw = await entryOf(folder, tradesOf(range(1, 50)), { commit: 1 });
    await tableWith(folder);
    const before = await folder.list('table/data');
    await folder.delete(newest);
    await using table = await TradeTable.open({ folder, lines });
    const gone = { code: 'TABLE_CORRUPT', message: /parquet: the manifest that names it is gone/ };
    await assert.rejects(table.merge([raw], fenceOf(5)), gone);
    assert.deepEqual(await folder.list('table/data'), before);
    const { issues } = await verify(table, []);
    assert.equal(issues.length, before.length);
    await rename(join(folder.place, 'table'), join(folder.place, 'away'));
    assert.equal((await table.merge([raw], fenceOf(5))).added, 50);
  });

  it('says what does not fit into a full disk, and keeps its state', async () => {
    await using folder = await temporaryFolder();
    const table = await tableWith(folder);
    const next = await entryOf(folder, tradesOf([60]), { commit: 2 });
    const adopt = folder.adopt.bind(folder);
    folder.adopt = () =>
      Promise.reject(Object.assign(new Error('no room'), { code: 'FOLDER_FULL' }));
    await assert.rejects(table.merge([next], fenceOf(5)), { code: 'FOLDER_FULL' });
    // The merge that failed leaves no room taken.
    assert.deepEqual(await readdir(folder.scratch), []);
    folder.adopt = adopt;
    assert.equal((await table.merge([next], fenceOf(5))).added, 1);
    const named = table.manifest.files.map(({ path }) => path).sort();
    const there = (await folder.list('table/data')).map(({ path }) => path);
    assert.deepEqual(there, named);
  });

  it('lives in a bucket as it does in a directory', async () => {
    const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
    try {
      server.createBucket('trades');
      const endpoint = `http://127.0.0.1:${server.port}/trades`;
      const keys = { accessKeyId: 'test', secretAccessKey: 'secret' };
      await using folder = await S3Folder.open({ endpoint, ...keys });
      const table = await tableWith(folder);
      const again = await entryOf(folder, tradesOf(range(40, 1500)), { commit: 2 });
      await table.merge([again], fenceOf(5));
      await table.compact(fenceOf(5));
      const reader = await TradeTable.open({ folder, lines });
      const { rows } = await reader.query(`${countSql} WHERE product = 'BTC-USD'`);
      assert.deepEqual(rows, [{ n: 1500, ids: 1500 }]);
      const first = await entryOf(folder, tradesOf(range(1, 50)), { commit: 1 });
      const ledger = { exchange: 'coinbase', product: 'BTC-USD', generation: 1, gaps: [] };
      const harvested = { from: 1, to: 1501 };
      const found = await verify(reader, [{ ...ledger, entries: [first, again], harvested }]);
      assert.deepEqual([found.issues, found.waiting], [[], 0]);
    } finally {
      await server.stop();
    }
  });
});
