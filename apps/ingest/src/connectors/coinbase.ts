import type { Connector, ConnectorOptions } from './connector.ts';
import { ExchangeClient } from './exchange-client.ts';
import { coinbaseFeed, feedUrl, lineOf, sameSymbols } from './feed-form.ts';
import { firstIdAt, type IdRange, idPages } from './id-pages.ts';
import { buildPage, parseAnswer, productIds, readTrades, type TradePage } from './trade-page.ts';
import { TradeScanner } from './trade-scanner.ts';

const name = 'coinbase';
const pageSize = 1000;

const scanner = new TradeScanner(name, [
  { key: 'trade_id', kind: 'id' },
  { key: 'side', kind: 'side' },
  { key: 'size', kind: 'decimal' },
  { key: 'price', kind: 'decimal' },
  { key: 'time', kind: 'iso' },
]);

/** Coinbase tells the side of the order that stood in the book: `buy` means that the taker sold. */
const lineSql = {
  options: `format = 'newline_delimited', columns = {trade_id: 'BIGINT', side: 'VARCHAR',
    size: 'VARCHAR', price: 'VARCHAR', time: 'TIMESTAMP'}`,
  select: `trade_id, time AS trade_ts, price, size AS quantity, side AS maker_side,
    CASE side WHEN 'buy' THEN 'sell' ELSE 'buy' END AS taker_side`,
};

/** Coinbase Exchange: pages by id, newest first, asked for from their upper end. */
export function coinbase(options: ConnectorOptions = {}): Connector {
  const { baseUrl = 'https://api.exchange.coinbase.com', exchange = name } = options;
  const { guard = (request, signal) => request(signal) } = options;
  const isUnknown = (status: number): boolean => status === 404;
  const client = new ExchangeClient({ ...options, exchange, baseUrl, isUnknown });

  /** The newest trades before an id, at most that many. */
  async function before(
    product: string,
    query: string,
    range: IdRange,
    signal: AbortSignal,
  ): Promise<TradePage> {
    const path = `/products/${encodeURIComponent(product)}/trades?${query}`;
    return await client.get(path, signal, (answer) => {
      return buildPage(readTrades(name, answer, scanner), range);
    });
  }
  const all = { from: 0, to: Infinity };

  const connector: Connector = {
    name,
    baseUrl,
    pageSize,
    // Documented as 10 a second with bursts to 15; what is asked evenly needs no burst.
    rate: { ratePerSecond: 10, burst: 1 },
    start: 1,
    hasDenseIds: true,
    lineSql,
    feed: {
      ...coinbaseFeed,
      url: feedUrl(options, 'wss://ws-feed.exchange.coinbase.com', '/feed'),
      symbols: sameSymbols,
      line: (trade) => lineOf(name, trade, scanner),
    },
    async products(signal) {
      const read = (answer: Buffer) => parseAnswer(name, answer);
      const value = await guard((caller) => client.get('/products', caller, read), signal);
      return productIds(name, { list: 'products', key: 'id', value });
    },
    async latest(product, signal) {
      const page = await guard((caller) => before(product, 'limit=1', all, caller), signal);
      return page.ids.at(-1);
    },
    async positionAt(product, timeUs, signal) {
      const latest = await connector.latest(product, signal);
      const range = { from: 1, to: (latest ?? 0) + 1 };
      return await firstIdAt(range, timeUs, async (middle) => {
        const to = Math.min(range.to, middle + pageSize / 2);
        const query = `limit=${pageSize}&after=${to}`;
        const trades = await guard((caller) => before(product, query, all, caller), signal);
        const isFull = trades.ids.length >= pageSize;
        return { trades, seen: { from: isFull ? (trades.ids[0] as number) : 1, to } };
      });
    },
    source(product, { from = 1, to }, sourceName = `${name}/${product}`) {
      const fetch = (range: IdRange, signal: AbortSignal): Promise<TradePage> =>
        before(product, `limit=${range.to - range.from}&after=${range.to}`, range, signal);
      return idPages({ name: sourceName, from: from as number, to, pageSize, fetch });
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
  return connector;
}
