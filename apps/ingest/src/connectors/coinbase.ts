import type { Declaration } from './declaration.ts';
import { coinbaseFeed } from './feed-form.ts';

/** Coinbase Exchange: pages by id, newest first, asked for from their upper end. */
export const coinbase: Declaration = {
  name: 'coinbase',
  address: 'https://api.exchange.coinbase.com/products/{product}/trades',
  products: { path: '/products', field: 'id' },
  pages: {
    by: 'ids',
    query: { limit: '{size}', after: '{to}' },
    latest: { limit: 1 },
    size: 1000,
    first: 1,
  },
  // Documented as 10 a second with bursts to 15 in a second.
  limits: { perSecond: 10, burst: 5 },
  trades: {
    id: 'trade_id',
    price: 'price',
    quantity: 'size',
    time: { field: 'time', as: 'iso' },
    // The side of the order that stood in the book: `buy` means that the taker sold.
    side: { field: 'side', of: 'maker', buy: 'buy', sell: 'sell' },
  },
  feed: coinbaseFeed,
};
