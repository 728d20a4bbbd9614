// Slow: harvests whole histories.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Breaker, Bucket, Harvest, type HarvestCheckpoint, MemoryStore, storeSink } from 'spillway';
import { binance } from '../src/connectors/binance.ts';
import { coinbase } from '../src/connectors/coinbase.ts';
import {
  type Connector,
  idOf,
  type TradePosition,
  type TradeRange,
} from '../src/connectors/connector.ts';
import { declared } from '../src/connectors/declared.ts';
import { kraken } from '../src/connectors/kraken.ts';
import type { TradePage } from '../src/connectors/page.ts';
import type { Exchange } from '../src/simulated/exchange.ts';
import type { SimulatedTrade } from '../src/simulated/product.ts';
import { startExchange } from './fixtures/exchanges.ts';

/** One for each harvest. */
const products = [
  { id: 'COIN-USD', trades: 40_000, seed: 5 },
  { id: 'GAPS-USD', trades: 8_000, gaps: [{ from: 3500, to: 3507 }], seed: 6 },
  { id: 'XXBTZUSD', trades: 8_400, seed: 7 },
  { id: 'BTCUSDT', trades: 9_500, firstId: 0, seed: 8 },
  { id: 'GROW-USD', trades: 1_500, growthPerSecond: 2_000, seed: 9 },
];
const trouble = {
  error: 0.05,
  hang: 0.02,
  reset: 0.05,
  truncated: 0.05,
  garbled: 0.05,
  // The first 20 requests fail before any succeeds.
  burst: { every: 100, length: 20 },
};
/** One that hangs is given up after so long; on a busy machine others take a second. */
const attemptMsMax = 3_000;
const { signal } = new AbortController();
let exchange: Exchange;

before(async () => {
  const rate = { ratePerSecond: 300, burst: 30 };
  const latency = { meanMs: 5 };
  exchange = await startExchange({ products, trouble, rate, latency, seed: 11 });
});

after(() => exchange.close());

/** Harvests into memory, with all that stands between us and an exchange. */
class Desk {
  readonly store = new MemoryStore();
  /** Lines in the order of their commits. */
  readonly lines: string[] = [];
  readonly bucket = new Bucket({ ratePerSecond: 300, burst: 1, queueMax: 100 });
  readonly breaker = new Breaker({
    cooldownMs: 20,
    cooldownGrowth: 1,
    successesToClose: 1,
    probeMsMax: attemptMsMax,
  });

  async run(
    connector: Connector,
    product: string,
    range: TradeRange,
    fillsGaps = false,
  ): Promise<HarvestCheckpoint<TradePosition> | undefined> {
    const { store, bucket, breaker } = this;
    const harvest = new Harvest<TradePage, TradePosition>({
      store,
      bucket,
      breaker,
      fillsGaps,
      sink: storeSink(store, (batch) => {
        const rows = batch.pages.flatMap((page) => page.rows);
        for (const { lines } of rows) {
          this.lines.push(...Buffer.from(lines).toString().trimEnd().split('\n'));
        }
        return [];
      }),
      attemptMsMax,
      attemptsMax: 30,
      batchMsMax: 20,
      backoffMs: 5,
      backoffMsMax: 40,
    });
    const [outcome] = await harvest.run([connector.source(product, range)], { signal });
    assert.equal(outcome?.status, 'done', String(outcome?.error));
    return outcome?.checkpoint;
  }
}

function truths(product: string, from: number, to: number): (SimulatedTrade | undefined)[] {
  const ids = Array.from({ length: to - from }, (_, at) => from + at);
  return ids.map((id) => exchange.truth(product, id));
}

/** The first difference only: to show all of those between two long lists takes minutes. */
function assertSame(told: readonly unknown[], truth: readonly unknown[]): void {
  const at = truth.findIndex((trade, place) => !isDeepStrictEqual(trade, told[place]));
  if (at >= 0) assert.deepEqual(told[at], truth[at]);
  assert.equal(told.length, truth.length);
}

function coinbaseTrade(line: string): SimulatedTrade {
  const { trade_id: id, side: makerSide, size, price, time } = JSON.parse(line);
  const timeUs = Date.parse(`${time.slice(0, 19)}Z`) * 1000 + Number(time.slice(20, 26));
  return { id, timeUs, price, size, makerSide };
}

describe('a harvest of the simulated exchange, with everything going wrong', () => {
  it('has every trade of Coinbase once, in order, to the last one, within the rate', async () => {
    await using connector = declared(coinbase, { baseUrl: exchange.url });
    const desk = new Desk();
    const checkpoint = await desk.run(connector, 'COIN-USD', { to: 40_001 });
    assertSame(desk.lines.map(coinbaseTrade), truths('COIN-USD', 1, 40_001));
    assert.deepEqual([checkpoint?.position, checkpoint?.gaps], [40_001, []]);
    const { refused, troubles } = exchange.stats;
    assert.equal(refused, 0, 'never above the rate');
    assert.ok(troubles.error >= 20);
    assert.ok(desk.breaker.stats.opened > 0, 'a burst of errors opens the breaker');
    const before = exchange.stats.requests;
    await desk.run(connector, 'COIN-USD', { to: 40_001 });
    assert.equal(exchange.stats.requests, before, 'at the end nothing is asked');
  });

  it('notes ids that are not there, and gets them when they are', async () => {
    await using connector = declared(coinbase, { baseUrl: exchange.url });
    const desk = new Desk();
    const range = { from: 1, to: 8_001 };
    const checkpoint = await desk.run(connector, 'GAPS-USD', range);
    assert.deepEqual(checkpoint?.gaps, [{ from: 3500, to: 3507, reason: 'not there' }]);
    const there = truths('GAPS-USD', 1, 8_001).filter((trade) => trade !== undefined);
    assertSame(desk.lines.map(coinbaseTrade), there);
    exchange.product('GAPS-USD').heal();
    desk.lines.length = 0;
    const filled = await desk.run(connector, 'GAPS-USD', range, true);
    assert.deepEqual(filled?.gaps, []);
    assertSame(desk.lines.map(coinbaseTrade), truths('GAPS-USD', 3500, 3507));
  });

  it('has every trade of Kraken, also when it stops in the middle of a page', async () => {
    await using connector = declared(kraken, { baseUrl: exchange.url });
    const desk = new Desk();
    // Trades of one moment stand on both sides of such ends.
    for (const to of [2_501, 3_001, 5_555, 8_401]) {
      const checkpoint = await desk.run(connector, 'XXBTZUSD', { to });
      assert.equal(idOf(checkpoint?.position ?? 0), to);
      assert.deepEqual(checkpoint?.gaps, []);
    }
    const told = desk.lines.map((line) => {
      const [price, size, time, taker, , , id] = JSON.parse(line);
      const makerSide = taker === 'b' ? 'sell' : 'buy';
      return { id, timeUs: Math.round(time * 1e6), price, size, makerSide };
    });
    assertSame(told, truths('XXBTZUSD', 1, 8_401));
  });

  it('has every trade of Binance, the one with id 0 too', async () => {
    await using connector = declared(binance, { baseUrl: exchange.url });
    const desk = new Desk();
    await desk.run(connector, 'BTCUSDT', { to: 9_500 });
    const told = desk.lines.map((line) => {
      const { id, time: timeUs, price, qty: size, isBuyerMaker } = JSON.parse(line);
      return { id, timeUs, price, size, makerSide: isBuyerMaker ? 'buy' : 'sell' };
    });
    assertSame(told, truths('BTCUSDT', 0, 9_500));
  });

  it('follows a product that grows meanwhile', async () => {
    exchange.trouble = {};
    await using connector = declared(coinbase, { baseUrl: exchange.url });
    const desk = new Desk();
    let end = 0;
    for (let round = 0; round < 3; round += 1) {
      const latest = (await connector.latest('GROW-USD', signal)) as number;
      assert.ok(latest > end);
      end = latest + 1;
      await desk.run(connector, 'GROW-USD', { to: end });
    }
    assertSame(desk.lines.map(coinbaseTrade), truths('GROW-USD', 1, end));
  });
});

describe('the position of a time', () => {
  it('is that of the first trade at that time or later, on each exchange', async () => {
    exchange.trouble = {};
    const baseUrl = exchange.url;
    const cases = [
      [declared(coinbase, { baseUrl }), 'COIN-USD', 1, 40_001],
      [declared(kraken, { baseUrl }), 'XXBTZUSD', 1, 8_401],
      [declared(binance, { baseUrl }), 'BTCUSDT', 0, 9_500],
    ] as const;
    for (const [connector, product, first, end] of cases) {
      await using open = connector;
      const all = truths(product, first, end).map((trade) => (trade as SimulatedTrade).timeUs);
      const newest = all.at(-1) as number;
      const times = [0, newest, newest + 1, all[1000], Number(all[4321]) + 1, Number(all[0]) + 1];
      for (const timeUs of times as number[]) {
        const before = exchange.stats.requests;
        const position = await open.positionAt(product, BigInt(timeUs), signal);
        const expected = all.findIndex((time) => time >= timeUs);
        const id = expected < 0 ? end : expected + first;
        assert.equal(idOf(position), id, `${open.name} at ${timeUs}`);
        assert.ok(exchange.stats.requests - before <= 8, 'a few questions only');
      }
    }
  });

  it('is found among ids of which many are missing, and in a product without trades', async () => {
    const sparse = { id: 'SPARSE', trades: 9_000, gapShare: 0.7, gaps: [{ from: 2000, to: 6000 }] };
    const empty = { id: 'EMPTY', trades: 0 };
    await using thin = await startExchange({ products: [sparse, empty] });
    const there = Array.from({ length: 9_000 }, (_, at) => thin.truth('SPARSE', at + 1)).filter(
      (trade) => trade !== undefined,
    );
    for (const connector of [
      declared(coinbase, { baseUrl: thin.url }),
      declared(binance, { baseUrl: thin.url }),
    ]) {
      await using open = connector;
      for (const wanted of [there[0], there[100], there[599], there[600], there.at(-1)]) {
        const { timeUs } = wanted as SimulatedTrade;
        const at = await open.positionAt('SPARSE', BigInt(timeUs), signal);
        const next = there.find(({ id }) => id >= idOf(at));
        assert.equal(next?.timeUs, timeUs, `${open.name} at ${timeUs}`);
      }
      assert.equal(await open.positionAt('EMPTY', 5n, signal), open.start);
    }
  });
});
