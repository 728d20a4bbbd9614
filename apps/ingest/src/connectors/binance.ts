import type { Declaration } from './declaration.ts';
import type { FeedDeclaration } from './feed-form.ts';

/** Binance spot, stream `<symbol>@trade`; a connection lasts for 24 hours at most. */
const feed: FeedDeclaration = {
  address: 'wss://stream.binance.com:9443/ws?timeUnit=MICROSECOND',
  path: '/ws?timeUnit=MICROSECOND',
  subscribe: (symbols) => ({
    method: 'SUBSCRIBE',
    params: symbols.map((symbol) => `${symbol.toLowerCase()}@trade`),
    id: 1,
  }),
  ping: { method: 'LIST_SUBSCRIPTIONS', id: 2 },
  read(text) {
    const message = Object(JSON.parse(text));
    if (message.e === 'trade') {
      const { s: symbol, t: id, p: price, q: qty, T: time, m: isBuyerMaker } = message;
      return { trades: [{ symbol, trade: { id, price, qty, time, isBuyerMaker } }] };
    }
    if (message.e === 'serverShutdown') return { isLeaving: true };
    if (message.id === 1 && message.result === null) return { subscribed: 'all' };
    const { msg } = Object(message.error ?? message);
    return msg === undefined ? {} : { refusal: String(msg) };
  },
};

/** Binance spot: pages by id, oldest first, requested by their lower end. */
export const binance: Declaration = {
  name: 'binance',
  address: 'https://api.binance.com/api/v3/historicalTrades',
  products: {
    path: '/api/v3/exchangeInfo?showPermissionSets=false',
    records: 'symbols',
    field: 'symbol',
  },
  headers: { 'x-mbx-time-unit': 'MICROSECOND' },
  query: { symbol: '{product}' },
  unknown: '"code":-1121',
  pages: {
    by: 'ids',
    query: { limit: '{size}', fromId: '{from}' },
    latest: { limit: 1 },
    size: 1000,
    first: 0,
  },
  // A weight of 6,000 is permitted a minute, and each of these requests weighs 25.
  limits: { perSecond: 4, burst: 4 },
  trades: {
    id: 'id',
    price: 'price',
    quantity: 'qty',
    time: { field: 'time', as: 'epoch' },
    side: { field: 'isBuyerMaker', of: 'maker', buy: true, sell: false },
  },
  feed,
};
