import { decimal, type SimulatedProduct } from './product.ts';

/** The parts of a request that the exchanges look at. */
export interface ExchangeRequest {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

export interface ExchangeReply {
  readonly status: number;
  readonly body: Buffer;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** All products of the simulated exchange. */
export interface Market {
  readonly products: ReadonlyMap<string, SimulatedProduct>;
  /** One above the newest id of a product, now. */
  endOf(product: SimulatedProduct): number;
}

/** The API of one exchange. */
export interface Dialect {
  /** The path that all of its requests begin with. */
  readonly prefix: string;
  /** The product that a request is about. */
  productOf(request: ExchangeRequest): string | undefined;
  answer(request: ExchangeRequest, market: Market): ExchangeReply;
  /** The refusal of a request above the rate. */
  limited(retryAfterS: number): ExchangeReply;
}

/** An answer in JSON. */
export function json(
  status: number,
  value: unknown,
  headers?: Readonly<Record<string, string>>,
): ExchangeReply {
  return { status, body: Buffer.from(JSON.stringify(value)), headers };
}

const pageMax = 1000;
const productPath = /^\/products\/([^/]+)(\/trades)?$/;
const coinbaseFault = (status: number, message: string): ExchangeReply => json(status, { message });

/** Coinbase Exchange: products, one product, its trades. */
const coinbase: Dialect = {
  prefix: '/',
  productOf: ({ path }) => decoded(productPath.exec(path)?.[1]),
  limited: (retryAfterS) =>
    json(429, { message: 'Public rate limit exceeded' }, { 'retry-after': String(retryAfterS) }),
  answer({ path, headers, query }, market) {
    if (headers['user-agent'] === undefined) {
      return coinbaseFault(400, 'User-Agent header is required.');
    }
    if (path === '/products') return json(200, [...market.products.keys()].map(description));
    const match = productPath.exec(path);
    const product = market.products.get(decoded(match?.[1]) ?? '');
    if (match === null || product === undefined) return coinbaseFault(404, 'NotFound');
    if (match[2] === undefined) return json(200, description(product.id));
    const limit = integer(query, 'limit') ?? pageMax;
    const before = integer(query, 'before') ?? -1;
    const after = integer(query, 'after') ?? Infinity;
    if (!(limit >= 1)) return coinbaseFault(400, 'Invalid limit');
    if (Number.isNaN(before)) return coinbaseFault(400, 'Invalid before');
    if (Number.isNaN(after)) return coinbaseFault(400, 'Invalid after');
    const end = Math.min(after, market.endOf(product));
    const ids = newestIds(product, { from: before + 1, end, count: limit });
    const page = ids.map((id) => coinbaseTrade(product, id));
    if (ids.length === 0) return json(200, page);
    return json(200, page, { 'cb-before': String(ids[0]), 'cb-after': String(ids.at(-1)) });
  },
};

function coinbaseTrade(product: SimulatedProduct, id: number): object {
  const { timeUs, price, size, makerSide: side } = product.trade(id);
  const isNumeric = id >= product.numericFrom;
  const written = isNumeric ? Number(price) : price;
  return { trade_id: id, side, size, price: written, time: isoOf(timeUs) };
}

/** A time in microseconds as ISO 8601. */
export function isoOf(timeUs: number): string {
  const ms = new Date(Math.floor(timeUs / 1000)).toISOString().slice(0, -1);
  return `${ms}${String(timeUs % 1000).padStart(3, '0')}Z`;
}

function description(id: string): object {
  const [base = id, quote = 'USD'] = id.split('-');
  return {
    id,
    base_currency: base,
    quote_currency: quote,
    quote_increment: '0.01',
    base_increment: '0.00000001',
    display_name: `${base}/${quote}`,
    status: 'online',
    status_message: '',
    trading_disabled: false,
  };
}

function decoded(part: string | undefined): string | undefined {
  try {
    return part === undefined ? undefined : decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

const krakenFault = (text: string): ExchangeReply => json(200, { error: [text] });

/** Kraken spot: the pairs, and the trades of one. Its faults come with status 200. */
const kraken: Dialect = {
  prefix: '/0/public/',
  productOf: ({ query }) => query.get('pair') ?? undefined,
  limited: () => krakenFault('EGeneral:Too many requests'),
  answer({ path, query }, market) {
    if (path === '/0/public/AssetPairs') {
      const pairs = [...market.products.keys()].map((id) => [
        id,
        { altname: id, wsname: id.replace('-', '/'), status: 'online' },
      ]);
      return json(200, { error: [], result: Object.fromEntries(pairs) });
    }
    if (path !== '/0/public/Trades') return krakenFault('EGeneral:Unknown method');
    const product = market.products.get(query.get('pair') ?? '');
    if (product === undefined) return krakenFault('EQuery:Unknown asset pair');
    const count = integer(query, 'count') ?? pageMax;
    const since = query.get('since');
    if (!(count >= 1 && count <= pageMax) || (since !== null && !/^\d{1,19}$/.test(since))) {
      return krakenFault('EGeneral:Invalid arguments');
    }
    const end = market.endOf(product);
    const ids =
      since === null
        ? newestIds(product, { from: 0, end, count }).reverse()
        : oldestIds(product, { from: product.firstAfter(sinceUs(since), end), end, count });
    const newest = ids.at(-1);
    const last = newest === undefined ? (since ?? '0') : `${product.timeUs(newest)}000`;
    const list = ids.map((id) => krakenTrade(product, id));
    return json(200, { error: [], result: { [product.id]: list, last } });
  },
};

/** Kraken gives the taker's side, then the type of the order: market or limit. */
function krakenTrade(product: SimulatedProduct, id: number): readonly unknown[] {
  const { timeUs, price, size, makerSide } = product.trade(id);
  const side = makerSide === 'buy' ? ['s', 'm'] : ['b', 'l'];
  return [price, size, timeUs / 1e6, ...side, '', id];
}

/** Reads `since`, which is in seconds below 1e11 and in nanoseconds above. */
function sinceUs(since: string): number {
  const isSeconds = Number(since) < 1e11;
  return Number(isSeconds ? BigInt(since) * 1_000_000n : BigInt(since) / 1000n);
}

const binanceFault = (code: number, msg: string): ExchangeReply => json(400, { code, msg });
const malformed = (name: string): ExchangeReply =>
  binanceFault(-1102, `Mandatory parameter '${name}' was not sent, was empty/null, or malformed.`);

/** Binance spot: the symbols, and the trades of one. */
const binance: Dialect = {
  prefix: '/api/v3/',
  productOf: ({ query }) => query.get('symbol') ?? undefined,
  limited(retryAfterS) {
    const value = { code: -1003, msg: 'Too much request weight used.' };
    return json(429, value, { 'retry-after': String(retryAfterS) });
  },
  answer({ path, query, headers }, market) {
    if (path === '/api/v3/exchangeInfo') {
      const ids = [...market.products.keys()];
      return json(200, { symbols: ids.map((symbol) => ({ symbol, status: 'TRADING' })) });
    }
    if (path !== '/api/v3/historicalTrades') return { status: 404, body: Buffer.alloc(0) };
    const symbol = query.get('symbol');
    if (symbol === null || symbol === '') return malformed('symbol');
    const product = market.products.get(symbol);
    if (product === undefined) return binanceFault(-1121, 'Invalid symbol.');
    const count = integer(query, 'limit') ?? 500;
    const from = integer(query, 'fromId');
    if (!(count >= 1)) return malformed('limit');
    if (Number.isNaN(from)) return malformed('fromId');
    const end = market.endOf(product);
    const ids =
      from === undefined
        ? newestIds(product, { from: 0, end, count }).reverse()
        : oldestIds(product, { from, end, count });
    const isMicro = headers['x-mbx-time-unit'] === 'MICROSECOND';
    return json(
      200,
      ids.map((id) => binanceTrade(product, id, isMicro)),
    );
  },
};

function binanceTrade(product: SimulatedProduct, id: number, isMicro: boolean): object {
  const { timeUs, price, size: qty, makerSide } = product.trade(id);
  const quoteQty = decimal(product.price(id) * product.size(id), 10);
  const time = isMicro ? timeUs : Math.floor(timeUs / 1000);
  return { id, price, qty, quoteQty, time, isBuyerMaker: makerSide === 'buy', isBestMatch: true };
}

/** The exchange that a path belongs to: Coinbase has no prefix, and takes the rest. */
export function dialectOf(path: string): Dialect {
  return [kraken, binance].find(({ prefix }) => path.startsWith(prefix)) ?? coinbase;
}

/** A whole number in the query: undefined if there is none, NaN if it is not a whole number. */
function integer(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null || text === '') return undefined;
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

interface IdQuery {
  /** The lowest id, and one above the highest. */
  readonly from: number;
  readonly end: number;
  /** Number that is wanted; a page has at most 1,000. */
  readonly count: number;
}

/** The highest ids of the range, newest first. */
function newestIds(product: SimulatedProduct, { from, end, count }: IdQuery): number[] {
  const ids: number[] = [];
  const first = Math.max(from, product.firstId);
  for (let id = end - 1; id >= first && ids.length < Math.min(count, pageMax); id -= 1) {
    if (product.has(id)) ids.push(id);
  }
  return ids;
}

/** The lowest ids of the range, oldest first. */
function oldestIds(product: SimulatedProduct, { from, end, count }: IdQuery): number[] {
  const ids: number[] = [];
  const first = Math.max(from, product.firstId);
  for (let id = first; id < end && ids.length < Math.min(count, pageMax); id += 1) {
    if (product.has(id)) ids.push(id);
  }
  return ids;
}
