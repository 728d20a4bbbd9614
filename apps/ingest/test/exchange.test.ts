import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { type Exchange, SimulatedProduct, startExchange } from 'spillway-ingest';
import { request } from 'undici';

interface CoinbaseTrade {
  readonly trade_id: number;
  readonly side: string;
  readonly size: string;
  readonly price: string;
  readonly time: string;
}

const headers = { 'user-agent': 'test' };

async function ask(exchange: Exchange, path: string, more: Record<string, string> = headers) {
  const {
    statusCode,
    headers: answered,
    body,
  } = await request(`${exchange.url}${path}`, {
    headers: more,
  });
  const text = await body.text();
  return { status: statusCode, headers: answered, text, json: () => JSON.parse(text) };
}

async function ids(exchange: Exchange, query: string): Promise<number[]> {
  const { json } = await ask(exchange, `/products/BTC-USD/trades${query}`);
  return json().map((trade: CoinbaseTrade) => trade.trade_id);
}

const btc = { id: 'BTC-USD', trades: 2500 };

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

describe('the exchange', () => {
  it('refuses what is above its rate, says when to come again, and counts', async () => {
    const clock = new VirtualClock();
    const rate = { ratePerSecond: 10, burst: 15 };
    await using exchange = await startExchange({ products: [btc], rate, clock });
    const statuses = async (count: number) => {
      const list: number[] = [];
      for (let i = 0; i < count; i += 1) list.push((await ask(exchange, '/products')).status);
      return list;
    };
    assert.deepEqual(await statuses(16), [...Array(15).fill(200), 429]);
    await clock.advance(100);
    assert.deepEqual(await statuses(2), [200, 429]);
    assert.deepEqual(exchange.stats.overruns, [
      { atMs: 0, inSecond: 16 },
      { atMs: 100, inSecond: 18 },
    ]);
    const refused = await ask(exchange, '/products');
    assert.equal(refused.headers['retry-after'], '1');
    assert.deepEqual(refused.json(), { message: 'Public rate limit exceeded' });
    const kraken = await ask(exchange, '/0/public/AssetPairs');
    assert.deepEqual([kraken.status, kraken.json().error], [200, ['EGeneral:Too many requests']]);
    assert.equal((await ask(exchange, '/api/v3/exchangeInfo')).json().code, -1003);
    await clock.advance(60_000);
    assert.deepEqual(await statuses(16), [...Array(15).fill(200), 429]);
    const { requests, refused: count, mostInSecond } = exchange.stats;
    assert.deepEqual([requests, count, mostInSecond], [37, 6, 21]);
    const told = (await ask(exchange, '/simulation')).json();
    assert.deepEqual(told, exchange.stats);
  });

  it('answers as late as it was told, and later for a slow product', async () => {
    const clock = new VirtualClock();
    const slow = { ...btc, id: 'SLOW-USD', slowness: 10 };
    const products = [btc, slow];
    const latency = { meanMs: 100, sigma: 0 };
    await using exchange = await startExchange({ products, latency, clock });
    const done: string[] = [];
    const both = [btc, slow].map(async ({ id }) => {
      await ask(exchange, `/products/${id}/trades?limit=1`);
      done.push(id);
    });
    while (exchange.stats.open < 2) await new Promise(setImmediate);
    await clock.advance(99);
    assert.deepEqual(done, []);
    await clock.advance(1);
    await both[0];
    assert.deepEqual(done, ['BTC-USD']);
    await clock.advance(900);
    await both[1];
    assert.deepEqual(done, ['BTC-USD', 'SLOW-USD']);
  });

  it('takes its time with a long tail: most are quick, one in 100 takes six means', async () => {
    const clock = new VirtualClock();
    const latency = { meanMs: 100 };
    const exchange = await startExchange({ products: [btc], latency, clock });
    const asked = Array.from({ length: 400 }, () => ask(exchange, '/products').catch(() => {}));
    while (exchange.stats.open < 400) await new Promise(setImmediate);
    const left: number[] = [];
    for (const ms of [100, 500, 3400]) {
      await clock.advance(ms);
      left.push(clock.pending);
    }
    // Log-normal: 31, 1.1 and 0.003 in 100.
    assert.ok(Number(left[0]) > 90 && Number(left[0]) < 160, String(left));
    assert.ok(Number(left[1]) > 0 && Number(left[1]) < 14, String(left));
    assert.equal(left[2], 0);
    await exchange.close();
    await Promise.all(asked);
  });

  it('makes each trouble in the share it was told, the same for the same seed', async () => {
    const shares = { error: 0.2, reset: 0.2, truncated: 0.2, garbled: 0.2 };
    const outcomes = async (): Promise<string[]> => {
      await using exchange = await startExchange({ products: [btc], trouble: shares, seed: 3 });
      const list: string[] = [];
      for (let i = 0; i < 60; i += 1) {
        const outcome = await ask(exchange, '/products/BTC-USD/trades?limit=2').then(
          ({ status, text }) => `${status} ${text.length === 0 ? '' : text[0]}${text.at(-1)}`,
          (error) => error.code,
        );
        list.push(outcome);
      }
      const made = Object.values(exchange.stats.troubles);
      assert.equal(made[1], 0);
      for (const [at, count] of made.entries()) assert.ok(at === 1 || (count > 4 && count < 22));
      assert.equal(exchange.stats.open, 0);
      return list;
    };
    const list = await outcomes();
    assert.deepEqual(await outcomes(), list);
    const kinds = [...new Set(list)].sort();
    for (const kind of ['200 []', '200 <>', '503 {}', 'ECONNRESET', 'UND_ERR_SOCKET']) {
      assert.ok(kinds.includes(kind), `${kind} of ${kinds}`);
    }
    assert.ok(
      kinds.some((kind) => /^200 \[[^\]]/.test(kind)),
      'half of the JSON',
    );
  });

  it('fails in bursts, hangs, and can be told to stop either', async () => {
    const burst = { every: 5, length: 2 };
    await using exchange = await startExchange({ products: [btc], trouble: { burst } });
    const statuses: boolean[] = [];
    for (let i = 0; i < 10; i += 1) statuses.push((await ask(exchange, '/products')).status < 500);
    const round = [false, false, true, true, true];
    assert.deepEqual(statuses, [...round, ...round]);
    exchange.trouble = { hang: 1 };
    const hung = ask(exchange, '/products');
    const gone = assert.rejects(hung);
    while (exchange.stats.open < 1) await new Promise(setImmediate);
    exchange.trouble = {};
    assert.equal((await ask(exchange, '/products')).status, 200);
    assert.equal(exchange.stats.open, 1);
    await exchange.close();
    await gone;
  });

  it('grows while it is read, and never changes what it has told', async () => {
    const clock = new VirtualClock();
    const products = [{ ...btc, trades: 0, growthPerSecond: 3 }];
    await using exchange = await startExchange({ products, clock });
    assert.deepEqual(await ids(exchange, ''), []);
    assert.equal(exchange.latest('BTC-USD'), 0);
    await clock.advance(1000);
    const before = (await ask(exchange, '/products/BTC-USD/trades')).json();
    await clock.advance(500);
    const later = (await ask(exchange, '/products/BTC-USD/trades')).json();
    assert.deepEqual([before.length, later.length], [3, 4]);
    assert.deepEqual(later.slice(1), before);
  });

  it('has no trade for some ids, and for others only after they are healed', async () => {
    const products = [{ ...btc, gapShare: 0.1, gaps: [{ from: 5, to: 8 }] }];
    await using exchange = await startExchange({ products });
    const had = await ids(exchange, '?after=1001');
    const missing = Array.from({ length: 1000 }, (_, at) => at + 1).filter(
      (id) => exchange.truth('BTC-USD', id) === undefined,
    );
    assert.ok(missing.length > 60 && missing.length < 140);
    assert.equal(had.length, 1000 - missing.length);
    assert.ok(had.every((id) => !missing.includes(id)));
    assert.equal((await ids(exchange, '?after=2001&limit=1000')).length, 1000, 'a full page');
    assert.ok([5, 6, 7].every((id) => missing.includes(id)));
    exchange.product('BTC-USD').heal();
    assert.ok((await ids(exchange, '?after=8&limit=7')).some((id) => id >= 5));
  });

  it('packs its answers for those who want it, and writes prices as numbers when told', async () => {
    const products = [{ ...btc, numericFrom: 2500 }];
    await using exchange = await startExchange({ products, compresses: true });
    const packed = { ...headers, 'accept-encoding': 'gzip' };
    const answer = await ask(exchange, '/products/BTC-USD/trades', packed);
    assert.equal(answer.headers['content-encoding'], 'gzip');
    const [last, before] = (await ask(exchange, '/products/BTC-USD/trades')).json();
    assert.deepEqual([typeof last.price, typeof before.price], ['number', 'string']);
  });

  it('has trades for ids above 2^32 too, in no time', () => {
    const product = new SimulatedProduct({ id: 'X', trades: 1, firstId: 2 ** 40, stepUs: 1 });
    const trades = Array.from({ length: 100 }, (_, at) => product.trade(2 ** 40 + at));
    assert.ok(new Set(trades.map(({ size }) => size)).size > 95);
    assert.notDeepEqual({ ...product.trade(2 ** 40), id: 0 }, { ...product.trade(2 ** 41), id: 0 });
  });

  it('checks what it is told', async () => {
    for (const [options, message] of [
      [{ products: [btc, btc] }, /products: must be each of its own id/],
      [{ products: [{ ...btc, trades: -1 }] }, /trades: must be an integer from 0, got -1/],
      [{ products: [{ ...btc, id: 'a/b' }] }, /id: must be letters, digits, dots and dashes/],
      [{ products: [{ ...btc, gapShare: 1 }] }, /gapShare: must be a number from 0 to below 1/],
      [{ products: [], rate: { ratePerSecond: 0, burst: 1 } }, /ratePerSecond: must be/],
      [{ products: [], trouble: { error: 0.6, hang: 0.6 } }, /trouble: must be shares of 1 in all/],
      [{ products: [], trouble: { burst: { every: 2, length: 3 } } }, /burst\.length: must be/],
      [{ products: [], latency: { meanMs: -1 } }, /latency\.meanMs: must be/],
    ] as const) {
      await assert.rejects(startExchange(options), message);
    }
  });
});
