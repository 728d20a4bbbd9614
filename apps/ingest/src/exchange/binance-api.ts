import {
  type ExchangeApi,
  type ExchangeReply,
  idsBelow,
  idsFrom,
  integer,
  json,
} from './exchange-api.ts';
import { binanceTrade, pageBytes } from './page-bytes.ts';

const limitMax = 1000;

const fault = (code: number, msg: string, status = 400): ExchangeReply =>
  json(status, { code, msg });

const malformed = (name: string): ExchangeReply =>
  fault(-1102, `Mandatory parameter '${name}' was not sent, was empty/null, or malformed.`);

/** Binance spot: the symbols, and the trades of one. */
export const binanceApi: ExchangeApi = {
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
    if (product === undefined) return fault(-1121, 'Invalid symbol.');
    const { limit = 500, fromId } = {
      limit: integer(query, 'limit'),
      fromId: integer(query, 'fromId'),
    };
    if (!(limit >= 1)) return malformed('limit');
    if (Number.isNaN(fromId)) return malformed('fromId');
    const count = Math.min(limit, limitMax);
    const end = market.endOf(product);
    const from = Math.max(fromId ?? 0, product.firstId);
    const ids =
      fromId === undefined
        ? idsBelow(product, { end, from, count }).reverse()
        : idsFrom(product, { end, from, count });
    const isMicro = headers['x-mbx-time-unit'] === 'MICROSECOND';
    const body = pageBytes(ids, binanceTrade(product, isMicro));
    return { status: 200, body };
  },
};
