import type { Connector, ConnectorOptions } from './connector.ts';
import { ExchangeClient } from './exchange-client.ts';
import { binanceFeed, feedUrl, lineOf, sameSymbols } from './feed-form.ts';
import { firstIdAt, type IdRange, idPages } from './id-pages.ts';
import { buildPage, parseAnswer, productIds, readTrades, type TradePage } from './trade-page.ts';
import { TradeScanner } from './trade-scanner.ts';

const name = 'binance';
const pageSize = 1000;

const scanner = new TradeScanner(name, [
  { key: 'id', kind: 'id' },
  { key: 'price', kind: 'decimal' },
  { key: 'qty', kind: 'decimal' },
  { key: 'time', kind: 'epoch' },
  { key: 'isBuyerMaker', kind: 'boolean' },
]);

/** A time is in milliseconds where the header that asks for microseconds was not heard. */
const lineSql = {
  options: `format = 'newline_delimited', columns = {id: 'BIGINT', price: 'VARCHAR',
    qty: 'VARCHAR', time: 'BIGINT', isBuyerMaker: 'BOOLEAN'}`,
  select: `id AS trade_id,
    make_timestamp(CASE WHEN time < 100000000000000 THEN time * 1000 ELSE time END) AS trade_ts,
    price, qty AS quantity,
    CASE WHEN isBuyerMaker THEN 'buy' ELSE 'sell' END AS maker_side,
    CASE WHEN isBuyerMaker THEN 'sell' ELSE 'buy' END AS taker_side`,
};

export interface BinanceOptions extends ConnectorOptions {
  /** Sent as `X-MBX-APIKEY`, where the exchange wants one for old trades. @default none */
  readonly apiKey?: string | undefined;
}

/** Binance spot: pages by id, oldest first, asked for from their lower end. */
export function binance(options: BinanceOptions = {}): Connector {
  const { baseUrl = 'https://api.binance.com', apiKey } = options;
  const { guard = (request, signal) => request(signal) } = options;
  const key = apiKey === undefined ? {} : { 'x-mbx-apikey': apiKey };
  const headers = { 'x-mbx-time-unit': 'MICROSECOND', ...key };
  const isUnknown = (_status: number, text: string): boolean => text.includes('"code":-1121');
  const client = new ExchangeClient({ ...options, exchange: name, baseUrl, headers, isUnknown });

  async function ask(
    product: string,
    query: string,
    range: IdRange,
    signal: AbortSignal,
  ): Promise<TradePage> {
    const symbol = encodeURIComponent(product);
    const path = `/api/v3/historicalTrades?symbol=${symbol}&${query}`;
    return await client.get(path, signal, (answer) => {
      return buildPage(readTrades(name, answer, scanner), range);
    });
  }
  const all = { from: 0, to: Infinity };

  const connector: Connector = {
    name,
    baseUrl,
    pageSize,
    // 6,000 of weight a minute, and each of these requests weighs 25.
    rate: { ratePerSecond: 4, burst: 1 },
    start: 0,
    hasDenseIds: true,
    lineSql,
    feed: {
      ...binanceFeed,
      url: feedUrl(
        options,
        'wss://stream.binance.com:9443/ws?timeUnit=MICROSECOND',
        '/ws?timeUnit=MICROSECOND',
      ),
      symbols: sameSymbols,
      line: (trade) => lineOf(name, trade, scanner),
    },
    async products(signal) {
      const path = '/api/v3/exchangeInfo?showPermissionSets=false';
      const read = (answer: Buffer) => Object(parseAnswer(name, answer));
      const { symbols: value } = await guard((caller) => client.get(path, caller, read), signal);
      return productIds(name, { list: 'symbols', key: 'symbol', value });
    },
    async latest(product, signal) {
      const page = await guard((caller) => ask(product, 'limit=1', all, caller), signal);
      return page.ids.at(-1);
    },
    async positionAt(product, timeUs, signal) {
      const latest = await connector.latest(product, signal);
      const range = { from: 0, to: (latest ?? -1) + 1 };
      return await firstIdAt(range, timeUs, async (middle) => {
        const from = Math.max(0, middle - pageSize / 2);
        const query = `limit=${pageSize}&fromId=${from}`;
        const trades = await guard((caller) => ask(product, query, all, caller), signal);
        const isFull = trades.ids.length >= pageSize;
        return {
          trades,
          seen: { from, to: isFull ? (trades.ids.at(-1) as number) + 1 : range.to },
        };
      });
    },
    source(product, { from = 0, to }, sourceName = `${name}/${product}`) {
      const fetch = (range: IdRange, signal: AbortSignal): Promise<TradePage> =>
        ask(product, `limit=${range.to - range.from}&fromId=${range.from}`, range, signal);
      return idPages({ name: sourceName, from: from as number, to, pageSize, fetch });
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
  return connector;
}
