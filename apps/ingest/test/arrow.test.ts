import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import { writeArrow } from '../src/table/arrow.ts';
import { Engine } from '../src/table/engine.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import { entryOf, fenceOf, lines, range, temporaryFolder, tradesOf } from './fixtures/trades.ts';

const { signal } = new AbortController();

/** A decimal as people write it, from the words of its number. */
function decimalText(words: Uint32Array, scale: number): string {
  const [a = 0n, b = 0n] = new BigUint64Array(Uint32Array.from(words).buffer);
  const value = BigInt.asIntN(128, (b << 64n) | a);
  const digits = String(value < 0n ? -value : value).padStart(scale + 1, '0');
  return `${value < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

describe('a file of Arrow IPC', () => {
  it('has every trade to the last digit, in as many batches as it takes', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const trades = tradesOf(range(1, 3_000));
    await table.merge([await entryOf(folder, trades, { commit: 1 })], fenceOf(1));
    const path = join(folder.place, 'trades.arrow');
    await using view = await table.view();
    // More rows than a batch holds.
    const many = 'SELECT * FROM trades, range(25) ORDER BY range, trade_id';
    assert.equal(await writeArrow(view.engine, many, path, signal), 75_000);
    const read = tableFromIPC(await readFile(path));
    assert.deepEqual([read.numRows, read.batches.length], [75_000, 2]);
    for (const at of [0, 1, 2_999, 70_000, 74_999]) {
      const row = read.get(at)?.toJSON();
      const trade = trades[at % 3_000];
      assert.equal(Number(row?.trade_id), trade?.id);
      const price = decimalText(row?.price as Uint32Array, 18);
      assert.equal(price.replace(/\.?0+$/, ''), trade?.price);
      assert.equal(row?.product, 'BTC-USD');
    }
    const times = read.getChild('trade_ts')?.data[0]?.values as BigInt64Array;
    assert.deepEqual(
      [...times.slice(0, 3)],
      trades.slice(0, 3).map(({ us }) => BigInt(us)),
    );
  });

  it('has every type of a column, nulls, and a schema without rows', async () => {
    await using folder = await temporaryFolder();
    await using engine = await Engine.open({ memoryMb: 64, threads: 1, scratch: folder.scratch });
    const path = join(folder.place, 'types.arrow');
    const select = `SELECT * FROM (VALUES (-5::BIGINT, 1.5::DOUBLE, true, DATE '2024-02-29', 'é',
      -0.5::DECIMAL(4,2)), (NULL, NULL, NULL, NULL, NULL, NULL)) AS rows(a, b, c, d, e, f)`;
    await writeArrow(engine, select, path, signal);
    const [first, second] = tableFromIPC(await readFile(path)).toArray();
    const { a, b, c, d, e, f } = first.toJSON();
    assert.deepEqual([a, b, c, e], [-5n, 1.5, true, 'é']);
    assert.equal(new Date(d).toISOString(), '2024-02-29T00:00:00.000Z');
    assert.equal(decimalText(f, 2), '-0.50');
    assert.deepEqual(Object.values(second.toJSON()), [null, null, null, null, null, null]);
    assert.equal(await writeArrow(engine, `${select} WHERE false`, path, signal), 0);
    const empty = tableFromIPC(await readFile(path));
    assert.deepEqual([empty.numRows, empty.schema.names.length], [0, 6]);
  });
});
