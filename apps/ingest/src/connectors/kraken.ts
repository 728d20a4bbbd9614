import type { HarvestAnswer, HarvestSource } from 'spillway';
import { ingestError } from '../errors.ts';
import type { TradePage } from '../trade-page.ts';
import { buildPage } from './build-page.ts';
import type {
  Connector,
  ConnectorOptions,
  Cursor,
  TradePosition,
  TradeRange,
} from './connector.ts';
import { ExchangeClient } from './exchange-client.ts';
import { type KrakenTrades, krakenResult, readKraken } from './kraken-answer.ts';
import { byText, parseAnswer } from './read-answer.ts';

const name = 'kraken';
const pageSize = 1000;
const start: Cursor = { id: 1, since: '0' };

/** Kraken tells the side of the taker: `b` means that the order in the book was one to sell. */
const lineSql = {
  options: `format = 'newline_delimited', records = false, columns = {trade: 'JSON'}`,
  select: `CAST(trade ->> '$[6]' AS BIGINT) AS trade_id,
    make_timestamp(CAST(round(CAST(trade ->> '$[2]' AS DOUBLE) * 1000000) AS BIGINT)) AS trade_ts,
    trade ->> '$[0]' AS price, trade ->> '$[1]' AS quantity,
    CASE trade ->> '$[3]' WHEN 'b' THEN 'sell' ELSE 'buy' END AS maker_side,
    CASE trade ->> '$[3]' WHEN 'b' THEN 'buy' ELSE 'sell' END AS taker_side`,
};

/** Kraken spot: one page leads to the next, by a time in nanoseconds. */
export function kraken(options: ConnectorOptions = {}): Connector {
  const { baseUrl = 'https://api.kraken.com' } = options;
  const { guard = (request, signal) => request(signal) } = options;
  const client = new ExchangeClient({
    ...options,
    exchange: name,
    baseUrl,
    isUnknown: () => false,
  });

  async function ask<T>(
    product: string,
    query: string,
    signal: AbortSignal,
    read: (trades: KrakenTrades) => T,
  ): Promise<T> {
    const path = `/0/public/Trades?pair=${encodeURIComponent(product)}&${query}`;
    return await client.get(path, signal, (answer) => read(readKraken(answer)));
  }

  const connector: Connector = {
    name,
    baseUrl,
    pageSize,
    // Documented as about one a second, for each address and pair.
    rate: { ratePerSecond: 1, burst: 1 },
    start,
    // Its own documentation shows neighbours whose ids are three apart.
    hasDenseIds: false,
    lineSql,
    async products(signal) {
      const path = '/0/public/AssetPairs';
      const read = (answer: Buffer) => krakenResult(parseAnswer(name, answer));
      return Object.keys(await guard((caller) => client.get(path, caller, read), signal)).sort(
        byText,
      );
    },
    async latest(product, signal) {
      const newest = ({ found }: KrakenTrades) =>
        found.ids.length === 0 ? undefined : Math.max(...found.ids);
      return await guard((caller) => ask(product, 'count=1', caller, newest), signal);
    },
    async positionAt(product, timeUs, signal) {
      const since = String(timeUs > 0n ? timeUs * 1000n - 1n : 0n);
      const query = `count=1&since=${since}`;
      const first = ({ found }: KrakenTrades) => found.ids[0];
      const found = await guard((caller) => ask(product, query, caller, first), signal);
      const id = found ?? ((await connector.latest(product, signal)) ?? 0) + 1;
      return { id, since };
    },
    idOf: (position) => (position as Cursor).id,
    source(product, range, sourceName = `${name}/${product}`) {
      const fetch = async (cursor: Cursor, signal: AbortSignal): Promise<CursorAnswer> => {
        const query = `count=${pageSize}&since=${cursor.since}`;
        return await ask(product, query, signal, (trades) => answerOf(trades, cursor, range.to));
      };
      return cursorPages(sourceName, range, fetch);
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
  return connector;
}

type CursorAnswer = HarvestAnswer<TradePage, TradePosition>;

function cursorPages(
  sourceName: string,
  { from = start, to }: TradeRange,
  fetch: (cursor: Cursor, signal: AbortSignal) => Promise<CursorAnswer>,
): HarvestSource<TradePage, TradePosition> {
  const left = (position: TradePosition): number => to - (position as Cursor).id;
  return {
    name: sourceName,
    from,
    pageAt: (at) => (left(at) > 0 ? { from: at, to: undefined } : undefined),
    pagesLeft: (at) => Math.max(0, Math.ceil(left(at) / pageSize)),
    fetch: (page, signal) => fetch(page.from as Cursor, signal),
  };
}

/** The trades that are new, and where those after them begin. */
function answerOf({ found, last }: KrakenTrades, cursor: Cursor, to: number): CursorAnswer {
  const page = buildPage(found, { from: cursor.id, to });
  const newest = found.ids.reduce((most, id) => Math.max(most, id), -Infinity);
  const rows = page.ids.length === 0 ? [] : [page];
  // The rest of this page is for a later harvest, which has to ask for the same page again.
  if (newest >= to) return { rows, next: { id: to, since: cursor.since }, isEnd: true };
  if (newest >= cursor.id) {
    // One nanosecond back: more trades of the same moment may have had no room in this page.
    const since = String(last > 0n ? last - 1n : 0n);
    return { rows, next: { id: newest + 1, since }, isEnd: newest + 1 >= to };
  }
  if (found.ids.length < pageSize) return { rows: [], next: cursor, isEnd: true };
  const message = `${name}: more than ${pageSize} trades at ${last} ns: no cursor leads past them`;
  throw ingestError('EXCHANGE_CHANGED', message);
}
