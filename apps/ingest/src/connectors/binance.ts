import type { Declaration } from './declaration.ts';
import { binanceFeed } from './feed-form.ts';

/** Binance spot: pages by id, oldest first, asked for from their lower end. */
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
  // 6,000 of weight a minute, and each of these requests weighs 25.
  limits: { perSecond: 4, burst: 4 },
  trades: {
    id: 'id',
    price: 'price',
    quantity: 'qty',
    time: { field: 'time', as: 'epoch' },
    side: { field: 'isBuyerMaker', of: 'maker', buy: true, sell: false },
  },
  feed: binanceFeed,
};
