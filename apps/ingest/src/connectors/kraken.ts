import type { HarvestAnswer, HarvestSource } from 'spillway';
import { ingestError } from '../errors.ts';
import type {
  Connector,
  ConnectorOptions,
  Cursor,
  TradePosition,
  TradeRange,
} from './connector.ts';
import { ExchangeClient } from './exchange-client.ts';
import { feedUrl, krakenFeed, lineOf } from './feed-form.ts';
import { buildPage, byText, parseAnswer, type TradePage } from './trade-page.ts';
import { fieldChanged, type ScannedTrades, TradeScanner } from './trade-scanner.ts';

const name = 'kraken';

const scanner = new TradeScanner(name, [
  { key: 0, kind: 'decimal' },
  { key: 1, kind: 'decimal' },
  { key: 2, kind: 'seconds' },
  { key: 3, kind: 'letter' },
  { key: 6, kind: 'id' },
]);

/** Answer of Kraken: the trades, and the cursor that asks for those after them. */
export interface KrakenTrades {
  readonly found: ScannedTrades;
  /** Nanoseconds since 1970. */
  readonly last: bigint;
}

/** The `result` of an answer; Kraken says in the body, not by the status, what went wrong. */
export function krakenResult(value: unknown): object {
  const { error, result } = Object(value);
  if (!Array.isArray(error)) throw fieldChanged(name, 'error', 'a list', error);
  // What begins with W is a warning.
  const [fault] = error.filter((text) => !/^W/.test(text));
  if (fault !== undefined) throw refusal(String(fault));
  if (typeof result !== 'object' || result === null) {
    throw fieldChanged(name, 'result', 'an object', result);
  }
  return result;
}

function refusal(fault: string): Error {
  const message = `${name}: ${fault}`;
  if (/Rate limit|Too many requests|Throttled/i.test(fault)) {
    return ingestError('EXCHANGE_LIMITED', message);
  }
  if (/^EService|Internal error/.test(fault)) return ingestError('EXCHANGE_FAILED', message);
  if (/Unknown asset pair/.test(fault)) return ingestError('PRODUCT_UNKNOWN', message);
  return ingestError('EXCHANGE_REFUSED', message);
}

export function readKraken(bytes: Buffer): KrakenTrades {
  const start = bytes.indexOf('[[');
  const scanned = start < 0 ? undefined : scanner.scan(bytes, start);
  // What is around the list is small, and is read with the list left out.
  const rest =
    scanned === undefined
      ? bytes
      : Buffer.concat([bytes.subarray(0, start), Buffer.from('[]'), bytes.subarray(scanned.end)]);
  const { last, ...lists } = krakenResult(parseAnswer(name, rest)) as { readonly last?: unknown };
  if (typeof last !== 'string' || !/^\d{1,19}$/.test(last)) {
    throw fieldChanged(name, 'result.last', 'nanoseconds in quotes', last);
  }
  // The list is called by Kraken's own name of the pair, which need not be the one asked for.
  const values: readonly unknown[] = Object.values(lists);
  if (values.length !== 1) {
    throw fieldChanged(name, 'result', 'one list and `last`', Object.keys(lists));
  }
  return { found: scanned ?? scanner.check(values[0]), last: BigInt(last) };
}

const pageSize = 1000;
const pairsPath = '/0/public/AssetPairs';
const start: Cursor = { id: 1, since: '0', seen: [] };

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
    feed: {
      ...krakenFeed,
      url: feedUrl(options, 'wss://ws.kraken.com/v2', '/v2'),
      async symbols(products, signal) {
        const read = (answer: Buffer) => krakenResult(parseAnswer(name, answer));
        const pairs = await guard((caller) => client.get(pairsPath, caller, read), signal);
        return symbolsOf(products, pairs);
      },
      line: (trade) => lineOf(name, trade, scanner),
    },
    async products(signal) {
      const read = (answer: Buffer) => krakenResult(parseAnswer(name, answer));
      const pairs = await guard((caller) => client.get(pairsPath, caller, read), signal);
      return Object.keys(pairs).sort(byText);
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
      return { id, since, seen: [] };
    },
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

/** The products by their names in the feed, which calls currencies as everybody else does. */
function symbolsOf(products: readonly string[], pairs: object): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [key, pair] of Object.entries(pairs)) {
    const { altname, wsname } = Object(pair);
    const product = products.find((one) => one === key || one === altname);
    if (product === undefined || typeof wsname !== 'string') continue;
    found.set(wsname.replace(/\bXBT\b/, 'BTC').replace(/\bXDG\b/, 'DOGE'), product);
  }
  return found;
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

/**
 * The trades that are new, and where those after them begin. Pages are by time, and ids are not
 * always in its order: so what was had is known by the ids of the last moment, not by the highest.
 */
function answerOf({ found, last }: KrakenTrades, cursor: Cursor, to: number): CursorAnswer {
  const { since, seen } = cursor;
  const isEarlier = found.timesUs.some((us) => BigInt(us + 2) * 1000n < BigInt(since));
  if (last < BigInt(since) || (seen !== undefined && isEarlier)) {
    const message = `${name}: an answer up to ${last} ns to the question for trades after ${since}`;
    throw ingestError('EXCHANGE_FAILED', message);
  }
  const page = buildPage(found, { from: seen === undefined ? cursor.id : 0, to, seen });
  const newest = found.ids.reduce((most, id) => Math.max(most, id), -Infinity);
  const rows = page.ids.length === 0 ? [] : [page];
  // The rest of this page is for a later harvest, which has to ask for the same page again.
  if (newest >= to) {
    const next = { id: to, since, seen: [...(seen ?? []), ...page.ids] };
    return { rows, next, isEnd: true };
  }
  // One nanosecond back: more trades of the same moment may have had no room in this page.
  const after = last > 0n ? last - 1n : 0n;
  const isFurther = after > BigInt(since);
  if (page.ids.length === 0 && !isFurther) {
    if (found.ids.length < pageSize) return { rows, next: cursor, isEnd: true };
    const what = `${name}: more than ${pageSize} trades at ${last} ns`;
    throw ingestError('EXCHANGE_CHANGED', `${what}: no cursor leads past them`);
  }
  const lastUs = Number(last / 1000n) - 1;
  const again = [...found.ids].filter((_, at) => (found.timesUs[at] as number) >= lastUs);
  const id = Math.max(cursor.id, newest + 1);
  const next = { id, since: String(after), seen: isFurther ? again : [...(seen ?? []), ...again] };
  return { rows, next, isEnd: id >= to || (found.ids.length < pageSize && rows.length === 0) };
}
