import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { LocalFolder } from '../src/files/folder.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import { entryOf, fenceOf, lines, range, temporaryFolder, tradesOf } from './fixtures/trades.ts';

describe('a query', () => {
  let folder: LocalFolder;
  let table: TradeTable;

  before(async () => {
    folder = await temporaryFolder();
    table = await TradeTable.open({ folder, lines });
    await table.merge([await entryOf(folder, tradesOf(range(1, 5000)), { commit: 1 })], fenceOf(1));
  });
  after(async () => await folder[Symbol.asyncDispose]());

  it('gives numbers as they are: decimals and large numbers as text', async () => {
    const { rows, columns, cut } = await table.query(`SELECT CAST('0.1' AS DECIMAL(38,18)) AS d,
      9007199254740993 AS large, -5::BIGINT AS small, NULL AS nothing, true AS yes,
      TIMESTAMPTZ '2024-02-29 12:00:00.123456Z' AS at, [1.50, 2] AS list`);
    assert.deepEqual(rows, [
      {
        d: '0.100000000000000000',
        large: '9007199254740993',
        small: -5,
        nothing: null,
        yes: true,
        at: '2024-02-29 12:00:00.123456+00',
        list: ['1.50', '2.00'],
      },
    ]);
    assert.equal(columns[0]?.type, 'DECIMAL(38,18)');
    assert.equal(cut, false);
  });

  it('cuts off what is more than was asked for, and says so', async () => {
    const cut = await table.query('SELECT trade_id FROM trades', { rowsMax: 3000 });
    assert.deepEqual([cut.rows.length, cut.cut], [3000, true]);
    const exact = await table.query('SELECT trade_id FROM trades', { rowsMax: 5000 });
    assert.deepEqual([exact.rows.length, exact.cut], [5000, false]);
  });

  it('refuses what writes or changes settings', async () => {
    const target = join(folder.place, 'out.csv');
    const refused = [
      `COPY (SELECT 1) TO '${target}'`,
      `COPY trades TO '${join(folder.place, table.manifest.files[0]?.path ?? '')}'`,
      `EXPLAIN ANALYZE COPY (SELECT 1) TO '${target}'`,
      'CREATE TABLE x AS SELECT 1',
      'DROP VIEW trades',
      "SET memory_limit = '10GB'",
      `ATTACH '${target}'`,
      'INSTALL httpfs',
      `EXPORT DATABASE '${folder.place}'`,
      'SELECT 1; SELECT 2',
      '',
    ];
    for (const sql of refused) {
      await assert.rejects(table.query(sql), { code: 'QUERY_REFUSED' }, sql);
    }
    assert.equal(existsSync(target), false);
    assert.equal((await table.query('SELECT count(*) AS n FROM trades')).rows[0]?.n, 5000);
  });

  it('reaches no file but those of the table', async () => {
    const raw = (await folder.list('raw'))[0]?.path ?? '';
    const refused = [
      "SELECT * FROM read_text('/etc/passwd')",
      "SELECT * FROM read_csv('/etc/passwd')",
      "SELECT * FROM glob('/etc/*')",
      `SELECT * FROM read_blob('${join(folder.place, raw)}')`,
      "SELECT * FROM read_text('http://127.0.0.1/x')",
    ];
    for (const sql of refused) {
      await assert.rejects(table.query(sql), { code: 'QUERY_REFUSED' }, sql);
    }
  });

  it('says what is wrong with it', async () => {
    // A file is no table where files cannot be reached.
    await assert.rejects(table.query("SELECT * FROM '/etc/passwd'"), {
      code: 'QUERY_FAILED',
      message: /does not exist/,
    });
    await assert.rejects(table.query('SELECT nothing FROM trades'), {
      code: 'QUERY_FAILED',
      message: /"nothing" not found/,
    });
    await assert.rejects(table.query('SELEC 1'), { code: 'QUERY_FAILED', message: /syntax error/ });
  });

  it('ends when its caller leaves', async () => {
    const leaving = new AbortController();
    const slow = 'SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range < b.range';
    const running = table.query(slow, { signal: leaving.signal });
    const after = await table.query('SELECT 1 AS one');
    leaving.abort();
    await assert.rejects(running, { name: 'AbortError' });
    assert.deepEqual(after.rows, [{ one: 1 }]);
  });
});
