import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ask, btc, type CoinbaseTrade, ids } from './fixtures/ask-exchange.ts';
import { startExchange } from './fixtures/exchanges.ts';

describe('the simulated Coinbase', () => {
  it('answers pages by id as documented, with its cursors', async () => {
    await using exchange = await startExchange({ products: [btc] });
    assert.deepEqual(await ids(exchange, '?limit=3'), [2500, 2499, 2498]);
    assert.deepEqual(await ids(exchange, '?limit=3&after=10'), [9, 8, 7]);
    assert.deepEqual(await ids(exchange, '?after=3'), [2, 1]);
    assert.deepEqual(await ids(exchange, '?after=1'), []);
    assert.deepEqual(await ids(exchange, '?limit=2&before=2400'), [2500, 2499]);
    assert.deepEqual(await ids(exchange, '?before=7&after=10'), [9, 8]);
    assert.equal((await ids(exchange, '')).length, 1000);
    assert.equal((await ids(exchange, '?limit=5000')).length, 1000);
    const answer = await ask(exchange, '/products/BTC-USD/trades?limit=3&after=10');
    assert.equal(answer.headers['cb-before'], '9');
    assert.equal(answer.headers['cb-after'], '7');
    assert.match(String(answer.headers['content-type']), /^application\/json/);
  });

  it('tells the truth about every trade', async () => {
    const start = Date.UTC(2024, 1, 28) * 1000;
    const products = [{ ...btc, startUs: start, stepUs: 61_000_000, trades: 3000, seed: 9 }];
    await using exchange = await startExchange({ products });
    const all: CoinbaseTrade[] = [];
    for (const end of [3001, 2001, 1001]) {
      all.push(...(await ask(exchange, `/products/BTC-USD/trades?after=${end}`)).json());
    }
    const told = all.reverse().map(({ trade_id: id, side, size, price, time }) => {
      const seconds = Date.parse(`${time.slice(0, 19)}Z`);
      return {
        id,
        timeUs: seconds * 1000 + Number(time.slice(20, 26)),
        price,
        size,
        makerSide: side,
      };
    });
    const truth = Array.from({ length: 3000 }, (_, at) => exchange.truth('BTC-USD', at + 1));
    assert.deepEqual(told, truth);
    assert.ok(told.every(({ timeUs }, at) => timeUs >= (told[at - 1]?.timeUs ?? start)));
    assert.ok(
      told.some(({ timeUs }, at) => timeUs === told[at - 1]?.timeUs),
      'some at one moment',
    );
    assert.ok(new Set(told.map(({ price }) => price)).size > 500);
    assert.ok(new Set(told.map(({ size }) => size)).size > 2900);
  });

  it('answers what is wrong as the real one does', async () => {
    await using exchange = await startExchange({ products: [btc] });
    const cases: readonly [string, number, string][] = [
      ['/products/NO-USD/trades', 404, 'NotFound'],
      ['/products/%E0/trades', 404, 'NotFound'],
      ['/nothing', 404, 'NotFound'],
      ['/products/BTC-USD/trades?limit=0', 400, 'Invalid limit'],
      ['/products/BTC-USD/trades?limit=x', 400, 'Invalid limit'],
      ['/products/BTC-USD/trades?after=x', 400, 'Invalid after'],
      ['/products/BTC-USD/trades?before=-1', 400, 'Invalid before'],
    ];
    for (const [path, status, message] of cases) {
      const answer = await ask(exchange, path);
      assert.deepEqual([answer.status, answer.json()], [status, { message }], path);
    }
    assert.equal((await ask(exchange, '/products', {})).status, 400);
    const [product] = (await ask(exchange, '/products')).json();
    assert.equal(product.id, 'BTC-USD');
    assert.equal(product.quote_currency, 'USD');
    assert.equal((await ask(exchange, '/products/BTC-USD')).json().id, 'BTC-USD');
    assert.throws(() => exchange.truth('NO-USD', 1), /product: must be BTC-USD, got 'NO-USD'/);
  });
});

describe('the simulated Kraken and Binance', () => {
  it('lead from page to page, and say what is wrong in their own words', async () => {
    await using exchange = await startExchange({ products: [btc] });
    const trades = async (query: string) =>
      (await ask(exchange, `/0/public/Trades?pair=BTC-USD${query}`)).json();
    const first = await trades('&since=0&count=2');
    assert.deepEqual(
      first.result['BTC-USD'].map((trade: unknown[]) => trade[6]),
      [1, 2],
    );
    assert.equal(first.result.last, `${exchange.truth('BTC-USD', 2)?.timeUs}000`);
    const second = await trades(`&since=${first.result.last}&count=1`);
    const timeUs = (id: number) => Number(exchange.truth('BTC-USD', id)?.timeUs);
    const next = [3, 4, 5].find((id) => timeUs(id) > timeUs(2));
    assert.equal(second.result['BTC-USD'][0][6], next, 'what is later, not what is next');
    assert.equal((await trades('&count=1')).result['BTC-USD'][0][6], 2500);
    const end = await trades('&since=9000000000');
    assert.deepEqual(end.result, { 'BTC-USD': [], last: '9000000000' });
    for (const [path, error] of [
      ['/0/public/Trades?pair=NO', 'EQuery:Unknown asset pair'],
      ['/0/public/Trades?pair=BTC-USD&count=x', 'EGeneral:Invalid arguments'],
      ['/0/public/Nothing', 'EGeneral:Unknown method'],
    ] as const) {
      assert.deepEqual((await ask(exchange, path)).json(), { error: [error] });
    }
    for (const [path, code] of [
      ['/api/v3/historicalTrades', -1102],
      ['/api/v3/historicalTrades?symbol=NO', -1121],
      ['/api/v3/historicalTrades?symbol=BTC-USD&limit=0', -1102],
      ['/api/v3/historicalTrades?symbol=BTC-USD&fromId=x', -1102],
    ] as const) {
      const answer = await ask(exchange, path);
      assert.deepEqual([answer.status, answer.json().code], [400, code], path);
    }
    const latest = await ask(exchange, '/api/v3/historicalTrades?symbol=BTC-USD');
    assert.equal(latest.json().length, 500);
    assert.equal(latest.json().at(-1).id, 2500);
    assert.ok(latest.json().at(-1).time < 1e13, 'milliseconds, when not asked for more');
  });
});
