// Slow: writes and compacts many tables.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type RawEntry, writeRawFile } from '../src/files/raw-file.ts';
import { Engine } from '../src/table/engine.ts';
import type { TableFile } from '../src/table/manifest.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import {
  entryOf,
  fenceOf,
  lines,
  pageOf,
  range,
  start,
  type Trade,
  temporaryFolder,
  tradesOf,
} from './fixtures/trades.ts';

const rowsSql = `SELECT trade_id, trade_id_text, rtrim(price::VARCHAR, '0') AS price,
  rtrim(quantity::VARCHAR, '0') AS size, epoch_us(trade_ts) AS us, maker_side, taker_side,
  exchange, product, date::VARCHAR AS date FROM trades ORDER BY exchange, product, trade_id`;

const dayUs = 86_400_000_000;
const paths = (files: readonly TableFile[]): readonly string[] => files.map(({ path }) => path);

describe('TradeTable', () => {
  it('holds every trade of the raw files to the last digit', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const trades = tradesOf(range(1, 3000));
    const entries = [
      await entryOf(folder, trades.slice(0, 1500), { commit: 1 }),
      await entryOf(folder, trades.slice(1500), { commit: 2 }),
    ];
    const merged = await table.merge(entries, fenceOf(1));
    assert.deepEqual(merged, {
      version: 1,
      files: 2,
      read: 3000,
      added: 3000,
      partitions: 3,
      changes: [],
    });
    const { rows } = await table.query(rowsSql);
    assert.deepEqual(
      rows,
      trades.map(({ id, us, price, size, side }) => ({
        trade_id: id,
        trade_id_text: String(id),
        price,
        size,
        us,
        maker_side: side,
        taker_side: side === 'buy' ? 'sell' : 'buy',
        exchange: 'coinbase',
        product: 'BTC-USD',
        date: new Date(us / 1000).toISOString().slice(0, 10),
      })),
    );
  });

  it('keeps products apart that have the same ids, whatever their names are', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const trades = tradesOf(range(1, 20));
    const names = ['BTC-USD', 'BTC/USD', "it's %20 = ü"];
    const entries: RawEntry[] = [];
    for (const product of names) {
      entries.push(await entryOf(folder, trades, { commit: 1, product }));
      entries.push(await entryOf(folder, trades, { commit: 1, product, exchange: 'other' }));
    }
    const { added } = await table.merge(entries, fenceOf(1));
    assert.equal(added, 120);
    const { rows } = await table.query(
      'SELECT exchange, product, count(*) AS n FROM trades GROUP BY ALL ORDER BY ALL',
    );
    const expected = ['coinbase', 'other'].flatMap((exchange) => {
      return names.map((product) => ({ exchange, product, n: 20 }));
    });
    assert.deepEqual(rows, expected);
  });

  it('reads each line of the ledger once, however often it is given', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const first = await entryOf(folder, tradesOf(range(1, 50)), { commit: 1 });
    const second = await entryOf(folder, tradesOf(range(51, 80)), { commit: 4 });
    await table.merge([first], fenceOf(1));
    assert.equal((await table.merge([first, second], fenceOf(1))).read, 30);
    const idle = await table.merge([first, second], fenceOf(1));
    assert.deepEqual(idle, { version: 2, files: 0, read: 0, added: 0, partitions: 0, changes: [] });
    const [product] = table.manifest.products;
    assert.deepEqual([product?.mergedTo, product?.read, product?.rows], [4, 80, 80]);
  });

  it('writes only the days that new trades are of', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const trades = tradesOf(range(1, 4 * 1440 - 1));
    const late = [2000, 10, 5000];
    const entries = [
      await entryOf(
        folder,
        trades.filter(({ id }) => !late.includes(id)),
        { commit: 1 },
      ),
      await entryOf(
        folder,
        trades.filter(({ id }) => id === 2000),
        { commit: 2 },
      ),
    ];
    await table.merge(entries.slice(0, 1), fenceOf(1));
    const before = paths(table.manifest.files);
    const merged = await table.merge(entries, fenceOf(1));
    assert.deepEqual([merged.added, merged.partitions], [1, 1]);
    const after = paths(table.manifest.files);
    assert.equal(after.length, 4);
    assert.deepEqual(before.filter((path) => !after.includes(path)).length, 1);
    assert.match(after.find((path) => !before.includes(path)) ?? '', /date=2024-02-29/);
    // Far apart, and nothing between them is read.
    const ends = [
      await entryOf(
        folder,
        trades.filter(({ id }) => id === 10),
        { commit: 3 },
      ),
      await entryOf(
        folder,
        trades.filter(({ id }) => id === 5000),
        { commit: 4 },
      ),
    ];
    const filled = await table.merge(ends, fenceOf(1));
    assert.deepEqual([filled.added, filled.partitions], [2, 2]);
  });

  it('has a trade once, at its later time, even if that is another day', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const trades = tradesOf(range(1, 100));
    const moved = trades.slice(9, 10).map((trade) => ({ ...trade, us: trade.us + 86_400_000_000 }));
    const entries = [
      await entryOf(folder, trades, { commit: 1 }),
      await entryOf(folder, moved, { commit: 2 }),
    ];
    for (const entry of entries) await table.merge([entry], fenceOf(1));
    const { rows } = await table.query(
      'SELECT count(*) AS n, max(epoch_us(trade_ts)) FILTER (trade_id = 10) AS us FROM trades',
    );
    assert.deepEqual(rows, [{ n: 100, us: moved[0]?.us }]);
    assert.deepEqual(table.manifest.products[0]?.read, 101);
  });

  it('takes a newer generation in place of the one before', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const other = await entryOf(folder, tradesOf(range(1, 9)), { commit: 1, product: 'ETH-USD' });
    const old = await entryOf(folder, tradesOf(range(1, 90)), { commit: 7 });
    await table.merge([old, other], fenceOf(1));
    const trades = tradesOf(range(1, 60));
    const refreshed = await entryOf(folder, trades, { commit: 1, generation: 2 });
    assert.notEqual(refreshed.file, old.file);
    assert.equal((await table.merge([refreshed], fenceOf(1))).added, -30);
    assert.equal((await table.merge([old], fenceOf(1))).files, 0);
    const { rows } = await table.query('SELECT product, count(*) AS n FROM trades GROUP BY ALL');
    assert.deepEqual(Object.fromEntries(rows.map(({ product, n }) => [product, n])), {
      'BTC-USD': 60,
      'ETH-USD': 9,
    });
  });

  it('joins the files of a day, and has the same trades after it', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const trades = tradesOf(range(1, 1600));
    for (let at = 0; at < 8; at += 1) {
      const some = trades.slice(at * 200, at * 200 + 200);
      await table.merge([await entryOf(folder, some, { commit: at + 1 })], fenceOf(1));
    }
    const before = (await table.query(rowsSql)).rows;
    assert.equal(table.manifest.files.length, 9);
    assert.equal(await table.compact(fenceOf(1)), 7);
    assert.equal(table.manifest.files.length, 2);
    assert.deepEqual((await table.query(rowsSql)).rows, before);
    assert.equal(await table.compact(fenceOf(1)), 0);
    assert.equal(table.manifest.version, 9);
  });

  it('leaves the files of a day as they are until there are enough small ones', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const trades = tradesOf(range(1, 400));
    const kept: string[][] = [];
    for (let at = 0; at < 4; at += 1) {
      const some = trades.slice(at * 100, at * 100 + 100);
      await table.merge([await entryOf(folder, some, { commit: at + 1 })], fenceOf(1));
      await table.compact(fenceOf(1), 4);
      kept.push([...paths(table.manifest.files)]);
    }
    assert.deepEqual(
      kept.map(({ length }) => length),
      [1, 2, 3, 1],
    );
    assert.deepEqual(kept[2]?.slice(0, 2), kept[1], 'files of before were written anew');
  });

  it('joins small files without the large one before them', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const large = 66_000;
    const trades = tradesOf(range(1, large + 400), { stepUs: 1_000 });
    const first = await entryOf(folder, trades.slice(0, large), { commit: 1 });
    await table.merge([first], fenceOf(1));
    const before = [...paths(table.manifest.files)];
    for (let at = 0; at < 4; at += 1) {
      const some = trades.slice(large + at * 100, large + at * 100 + 100);
      await table.merge([await entryOf(folder, some, { commit: at + 2 })], fenceOf(1));
      await table.compact(fenceOf(1), 4);
    }
    const after = [...paths(table.manifest.files)];
    assert.equal(after.length, before.length + 1);
    assert.deepEqual(after.slice(0, -1), before, 'the large file was written anew');
  });

  it('has a trade once that a raw file has twice, on two days', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const [one, two, three, four] = tradesOf([1, 2, 3, 4], { stepUs: dayUs / 4 });
    assert.ok(one && two && three && four);
    const said = pageOf([one, two, three, four]);
    const page = { ...said, lines: pageOf([one, two, { ...two, us: four.us - 1 }, four]).lines };
    const of = {
      exchange: 'coinbase',
      product: 'BTC-USD',
      generation: 1,
      fence: 1,
      from: 1,
      to: 5,
    };
    const file = await writeRawFile(folder, of, [page]);
    assert.ok(file !== undefined);
    const { added } = await table.merge([{ ...file, ...of, commit: 1 }], fenceOf(1));
    assert.equal(added, 3);
    const { rows } = await table.query(
      'SELECT trade_id, epoch_us(trade_ts) AS us FROM trades ORDER BY 1',
    );
    assert.deepEqual(rows, [
      { trade_id: 1, us: one.us },
      { trade_id: 2, us: four.us - 1 },
      { trade_id: 4, us: four.us },
    ]);
  });

  it('reads old and new trades alike when a number needs a wider type', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const [first, second] = tradesOf([1, 2]);
    assert.ok(first && second);
    const plain = { ...first, price: '64000.25', size: '0.5' };
    await table.merge([await entryOf(folder, [plain], { commit: 1 })], fenceOf(1));
    const typeSql = 'SELECT typeof(price) AS price, typeof(quantity) AS quantity FROM trades';
    const usual = { price: 'DECIMAL(18,9)', quantity: 'DECIMAL(18,9)' };
    assert.deepEqual((await table.query(typeSql)).rows, [usual]);
    const wide = { ...second, price: '0.00000000001', size: '12345678901' };
    await table.merge([await entryOf(folder, [wide], { commit: 2 })], fenceOf(1));
    const sql = `SELECT price, quantity, notional, price * quantity AS product,
      typeof(price) AS type FROM trades ORDER BY trade_id`;
    const zeros = '0'.repeat(15);
    assert.deepEqual((await table.query(sql)).rows, [
      {
        price: '64000.250000000000',
        quantity: '0.500000000',
        notional: `32000.125000${zeros}`,
        product: `32000.125000${zeros}`,
        type: 'DECIMAL(38,12)',
      },
      {
        price: '0.000000000010',
        quantity: '12345678901.000000000',
        notional: '0.123456789010000000000',
        product: '0.123456789010000000000',
        type: 'DECIMAL(38,12)',
      },
    ]);
    // Whatever reads the folder finds one type in all files of the product.
    const files = (await folder.list('table/data')).map(({ path }) => join(folder.place, path));
    await using engine = await Engine.open({ memoryMb: 64, threads: 1, scratch: folder.scratch });
    const found = await engine.rows(`SELECT DISTINCT name, precision, scale FROM parquet_schema(
      [${files.map((file) => `'${file}'`).join()}]) WHERE precision IS NOT NULL ORDER BY name`);
    assert.deepEqual(found, [
      { name: 'price', precision: '38', scale: '12' },
      { name: 'quantity', precision: '38', scale: '9' },
    ]);
  });

  it('reads products of all widths to the last digit, also at once', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const prices = ['1.5', '12345678901.5', '0.000000000012', '12345.123456789012345678'];
    const [trade] = tradesOf([1]);
    for (const [at, price] of prices.entries()) {
      const some = [{ ...trade, price } as Trade];
      const entry = await entryOf(folder, some, { commit: 1, product: `P${at}` });
      await table.merge([entry], fenceOf(1));
    }
    const sql = "SELECT rtrim(CAST(price AS VARCHAR), '0') AS price FROM trades ORDER BY product";
    const found = (await table.query(sql)).rows.map(({ price }) => price);
    assert.deepEqual(found, prices);
    assert.equal((await table.query("FROM trades WHERE product = 'P2'")).rows.length, 1);
  });

  it('has notional and candles', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const prices = ['10.5', '12', '9.25', '11'];
    const trades = tradesOf([1, 2, 3, 4], { stepUs: 1_000_000 }).map((trade, at) => {
      return { ...trade, us: start + at * 20_000_000, price: prices[at] as string, size: '2' };
    });
    await table.merge([await entryOf(folder, trades, { commit: 1 })], fenceOf(1));
    const sql = `SELECT epoch_us(start)::BIGINT AS us, open::DOUBLE AS open, high::DOUBLE AS high,
      low::DOUBLE AS low, close::DOUBLE AS close, volume::DOUBLE AS volume,
      notional::DOUBLE AS notional, vwap, trades FROM ohlcv('BTC-USD', '1m')`;
    const first = { us: start, open: 10.5, high: 12, low: 9.25, close: 9.25, volume: 6 };
    const second = { us: start + 60_000_000, open: 11, high: 11, low: 11, close: 11, volume: 2 };
    assert.deepEqual((await table.query(sql)).rows, [
      { ...first, notional: 63.5, vwap: 63.5 / 6, trades: 3 },
      { ...second, notional: 22, vwap: 11, trades: 1 },
    ]);
  });

  it('says which raw file cannot be read, and why, and changes nothing', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const good = await entryOf(folder, tradesOf(range(1, 10)), { commit: 1 });
    await table.merge([good], fenceOf(1));
    const time = '"time":"2024-03-01T00:00:00Z"';
    const wrong = [
      [`{"trade_id":11,"side":"buy","size":"1","price":"abc",${time}}`, /abc/],
      [`{"trade_id":11,"side":"buy","size":"0.${'1'.repeat(19)}","price":"1",${time}}`, /18 decim/],
      ['{"trade_id":11,"side":"buy","size":"1","price":"1"}', /no value in trade_ts/],
      [`{"trade_id":"x","side":"buy","size":"1","price":"1",${time}}`, /"x"/],
      [`{"trade_id":12,"side":"buy","size":"1","price":"1",${time}}`, /ledger/],
    ] as const;
    for (const [line, why] of wrong) {
      const page = { ...pageOf(tradesOf([11])), lines: Buffer.from(`${line}\n`) };
      const of = { exchange: 'coinbase', product: 'BTC-USD', generation: 1 };
      const file = await writeRawFile(folder, { ...of, fence: 1, from: 11, to: 12 }, [page]);
      assert.ok(file !== undefined);
      const entry = { ...file, ...of, commit: 3 };
      const fine = await entryOf(folder, tradesOf([20]), { commit: 2 });
      await assert.rejects(table.merge([fine, entry], fenceOf(1)), (error: Error) => {
        assert.match(error.message, /11-11\.g1\.f1\.jsonl\.zst/);
        assert.match(error.message, why);
        assert.equal('code' in error && error.code, 'RAW_INVALID');
        return true;
      });
    }
    assert.equal((await table.refresh()).version, 1);
    assert.equal((await table.query('SELECT count(*) AS n FROM trades')).rows[0]?.n, 10);
  });

  it('rebuilds from the raw files what it had', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const trades = tradesOf(range(1, 400));
    const parts = [trades.slice(0, 250), trades.slice(200, 390), trades.slice(380)];
    const entries: RawEntry[] = [];
    for (const [at, part] of parts.entries()) {
      entries.push(await entryOf(folder, part, { commit: at + 1 }));
      await table.merge(entries, fenceOf(1));
    }
    const before = (await table.query(rowsSql)).rows;
    await table.rebuild(entries, fenceOf(1));
    assert.deepEqual((await table.query(rowsSql)).rows, before);
    assert.deepEqual(table.manifest.products[0], {
      exchange: 'coinbase',
      product: 'BTC-USD',
      generation: 1,
      mergedTo: 3,
      read: 460,
      rows: 400,
      types: { price: { width: 38, scale: 18 }, quantity: { width: 18, scale: 9 } },
    });
    const [file] = table.manifest.files;
    const again = await TradeTable.open({ folder, lines });
    await again.rebuild(entries, fenceOf(1));
    assert.equal(again.manifest.files[0]?.sha256, file?.sha256);
  });

  it('is empty before the first merge, and says so in SQL as well', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const { rows, columns } = await table.query('SELECT * FROM trades');
    assert.deepEqual(rows, []);
    assert.deepEqual(columns.find(({ name }) => name === 'price')?.type, 'DECIMAL(18,9)');
  });
});
