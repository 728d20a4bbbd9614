import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { StandIn } from 'spillway-fixtures/stand-in';
import { binance } from '../src/connectors/binance.ts';
import { coinbase } from '../src/connectors/coinbase.ts';
import type { Connector, LineSql } from '../src/connectors/connector.ts';
import type { TradeFields } from '../src/connectors/declaration.ts';
import { declared } from '../src/connectors/declared.ts';
import { kraken } from '../src/connectors/kraken.ts';
import { pageOf } from '../src/connectors/page.ts';
import { TradeReader } from '../src/connectors/trades.ts';
import { startExchange } from './fixtures/exchanges.ts';

let folder: string;
let site: StandIn;
let duckdb: DuckDBConnection;
const { signal } = new AbortController();

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'line-sql-'));
  site = await StandIn.open();
  duckdb = await (await DuckDBInstance.create(':memory:')).connect();
  // The table is in UTC wherever it is made.
  await duckdb.run("SET TimeZone = 'America/New_York'");
});

after(async () => {
  duckdb.closeSync();
  await site[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** Rows that the table gets of these lines, everything as text. */
async function table(connector: Connector, lines: Uint8Array): Promise<unknown[][]> {
  const lineSql = connector.lineSql as LineSql;
  const file = join(folder, 'lines.jsonl');
  await writeFile(file, lines);
  const result = await duckdb.runAndReadAll(
    `SELECT trade_id::VARCHAR, epoch_us(trade_ts)::VARCHAR,
       price::DECIMAL(38, 18)::VARCHAR, quantity::DECIMAL(38, 18)::VARCHAR, maker_side, taker_side,
       typeof(trade_id), typeof(trade_ts), typeof(price), typeof(quantity)
     FROM (SELECT ${lineSql.select} FROM read_json('${file}', ${lineSql.options}))`,
  );
  return result.getRows();
}

/** The same of what the stand-in says. */
async function tableOf(connector: Connector, body: string): Promise<unknown[][]> {
  site.tell(body);
  const source = connector.source('X', { from: connector.start, to: 2 ** 53 - 1 });
  const page = { from: 0, to: 2 ** 53 - 1 };
  const isCursor = typeof connector.start !== 'number';
  const asked = isCursor ? { from: connector.start, to: undefined } : page;
  const [trades] = (await source.fetch(asked, signal)).rows;
  await connector[Symbol.asyncDispose]();
  const rows = await table(connector, trades?.lines ?? Buffer.alloc(0));
  const times = Float64Array.from(rows, (row) => Number(row[1]));
  assert.deepEqual(times, trades?.timesUs, 'the page and the table agree');
  return rows;
}

const types = ['BIGINT', 'TIMESTAMP', 'VARCHAR', 'VARCHAR'];

describe('the line SQL', () => {
  it('of Coinbase keeps every digit, and knows that the side is the maker’s', async () => {
    const rows = await tableOf(
      declared(coinbase, { baseUrl: site.url }),
      `[{"trade_id":3,"side":"sell","size":"12345678901234567890.123456789012345678",
         "price":"0.000000000000000001","time":"2020-03-20T00:22:57.833897Z"},
        {"price":"6268.48","time":"2038-01-19T03:14:08.5Z","side":"buy","trade_id":2,"size":"1",
         "bid":"1.0","new":{"deep":[1]}},
        {"trade_id":1,"side":"buy","size":"0.1","price":"0.3","time":"1970-01-01T00:00:00Z"}]`,
    );
    assert.deepEqual(rows, [
      ['1', '0', '0.300000000000000000', '0.100000000000000000', 'buy', 'sell', ...types],
      [
        '2',
        '2147483648500000',
        '6268.480000000000000000',
        '1.000000000000000000',
        'buy',
        'sell',
        ...types,
      ],
      [
        '3',
        '1584663777833897',
        '0.000000000000000001',
        '12345678901234567890.123456789012345678',
        'sell',
        'buy',
        ...types,
      ],
    ]);
  });

  it('of Kraken knows that the side is the taker’s', async () => {
    const rows = await tableOf(
      declared(kraken, { baseUrl: site.url }),
      `{"error":[],"result":{"XXBTZUSD":[
        ["30243.40000","0.34507674",1688669597.8277369,"b","m","",61044952],
        ["30243.30000","0.00376960",1688669598.2804112,"s","l","",61044953],
        ["30243.30000","0.01235716",1688669602,"s","m","",61044956]],
        "last":"1688669602000000000"}}`,
    );
    assert.deepEqual(rows, [
      [
        '61044952',
        '1688669597827737',
        '30243.400000000000000000',
        '0.345076740000000000',
        'sell',
        'buy',
        ...types,
      ],
      [
        '61044953',
        '1688669598280411',
        '30243.300000000000000000',
        '0.003769600000000000',
        'buy',
        'sell',
        ...types,
      ],
      [
        '61044956',
        '1688669602000000',
        '30243.300000000000000000',
        '0.012357160000000000',
        'buy',
        'sell',
        ...types,
      ],
    ]);
  });

  it('of Kraken gets the same microsecond as the page, for any digits', async () => {
    const list = Array.from({ length: 500 }, (_, at) => {
      const digits = String(at * 7_777_777 + 5).padStart(10, '0');
      const time = `${1_300_000_000 + at * 1_000_003}.${digits.slice(0, 1 + (at % 10))}`;
      return `["1.0","1.0",${time},"b","m","",${at + 1}]`;
    });
    const body = `{"error":[],"result":{"P":[${list.join(',')}],"last":"1"}}`;
    assert.equal((await tableOf(declared(kraken, { baseUrl: site.url }), body)).length, 500);
  });

  it('of Binance knows the maker by isBuyerMaker, milliseconds by their size', async () => {
    const rows = await tableOf(
      declared(binance, { baseUrl: site.url }),
      `[{"id":0,"price":"4.00000100","qty":"12.00000000","quoteQty":"48.000012",
         "time":1499865549590,"isBuyerMaker":true,"isBestMatch":true},
        {"id":1,"price":"4.00000100","qty":"0.00000001","quoteQty":"0.0","time":1499865549590123,
         "isBuyerMaker":false,"isBestMatch":true}]`,
    );
    const price = '4.000001000000000000';
    assert.deepEqual(rows, [
      ['0', '1499865549590000', price, '12.000000000000000000', 'buy', 'sell', ...types],
      ['1', '1499865549590123', price, '0.000000010000000000', 'sell', 'buy', ...types],
    ]);
  });

  it('turns a page of the simulated exchange into its truth, to the last digit', async () => {
    await using exchange = await startExchange({ products: [{ id: 'BTC-USD', trades: 1000 }] });
    const expected = Array.from({ length: 1000 }, (_, at) => {
      const trade = exchange.truth('BTC-USD', at + 1);
      const taker = trade?.makerSide === 'buy' ? 'sell' : 'buy';
      const [price, size] = [`${trade?.price}${'0'.repeat(16)}`, `${trade?.size}${'0'.repeat(10)}`];
      return [
        String(at + 1),
        String(trade?.timeUs),
        price,
        size,
        trade?.makerSide,
        taker,
        ...types,
      ];
    });
    const baseUrl = exchange.url;
    for (const connector of [
      declared(coinbase, { baseUrl }),
      declared(kraken, { baseUrl }),
      declared(binance, { baseUrl }),
    ]) {
      await using open = connector;
      const from = open.name === 'kraken' ? open.start : 1;
      const to = open.name === 'kraken' ? undefined : 1001;
      const source = open.source('BTC-USD', { from, to: 1001 });
      const [page] = (await source.fetch({ from, to }, signal)).rows;
      assert.deepEqual(await table(open, page?.lines ?? Buffer.alloc(0)), expected, open.name);
    }
  });
});

it('half a character in a field that is not used is replaced: DuckDB refuses its line', () => {
  const trade = { trade_id: 1, price: '1', size: '1', time: '2026-01-01T00:00:00Z', side: 'buy' };
  const reader = new TradeReader('coinbase', coinbase.trades as TradeFields);
  const { lines } = pageOf([reader.one({ ...trade, note: 'a\ud800b' })]);
  assert.equal(JSON.parse(Buffer.from(lines).toString()).note, 'a\ufffdb');
});
