import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { SimulatedProduct } from '../src/simulated/product.ts';
import { ask, btc, ids } from './fixtures/ask-exchange.ts';
import { startExchange } from './fixtures/exchanges.ts';

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
    const refused = await ask(exchange, '/products');
    assert.equal(refused.headers['retry-after'], '1');
    assert.deepEqual(refused.json(), { message: 'Public rate limit exceeded' });
    const kraken = await ask(exchange, '/0/public/AssetPairs');
    assert.deepEqual([kraken.status, kraken.json().error], [200, ['EGeneral:Too many requests']]);
    assert.equal((await ask(exchange, '/api/v3/exchangeInfo')).json().code, -1003);
    await clock.advance(60_000);
    assert.deepEqual(await statuses(16), [...Array(15).fill(200), 429]);
    const { requests, refused: count } = exchange.stats;
    assert.deepEqual([requests, count], [37, 6]);
    const { lateMs, permitted, ...told } = (await ask(exchange, '/simulation')).json();
    assert.deepEqual(told, exchange.stats);
    assert.deepEqual([typeof lateMs, permitted], ['number', 0]);
    // Counted from the first question on.
    await clock.advance(1_000);
    const { permitted: after } = (await ask(exchange, '/simulation')).json();
    assert.ok(Math.abs(after - 10) < 1e-9, `${after}`);
  });

  it('answers as late as it was told', async () => {
    const clock = new VirtualClock();
    const latency = { meanMs: 100, sigma: 0 };
    await using exchange = await startExchange({ products: [btc], latency, clock });
    let isDone = false;
    const asked = ask(exchange, '/products/BTC-USD/trades?limit=1').then(() => {
      isDone = true;
    });
    while (exchange.stats.open < 1) await new Promise(setImmediate);
    await clock.advance(99);
    assert.equal(isDone, false);
    await clock.advance(1);
    await asked;
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
      for (const [kind, count] of Object.entries(exchange.stats.troubles)) {
        assert.ok(kind in shares ? count > 4 && count < 22 : count === 0, kind);
      }
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

  it('writes prices as numbers when told', async () => {
    const products = [{ ...btc, numericFrom: 2500 }];
    await using exchange = await startExchange({ products });
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
      [{ products: [], latency: { meanMs: -1 } }, /latency\.meanMs: must be/],
    ] as const) {
      await assert.rejects(startExchange(options), message);
    }
  });
});
