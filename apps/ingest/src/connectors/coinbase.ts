import type { Declaration } from './declaration.ts';
import type { FeedDeclaration } from './feed-form.ts';

/**
 * Coinbase Exchange, channels `matches` and `heartbeat`. The first match of a subscription is the
 * last trade before it. The `last_trade_id` of a heartbeat was always 0 for years.
 */
const feed: FeedDeclaration = {
  address: 'wss://ws-feed.exchange.coinbase.com',
  path: '/feed',
  subscribe: (symbols) => ({
    type: 'subscribe',
    product_ids: symbols,
    channels: ['matches', 'heartbeat'],
  }),
  read(text) {
    const message = Object(JSON.parse(text));
    const { type, product_id: symbol } = message;
    if (type === 'match' || type === 'last_match') {
      const { trade_id, side, size, price, time } = message;
      return { trades: [{ symbol, trade: { trade_id, side, size, price, time } }] };
    }
    if (type === 'heartbeat') {
      return { head: { symbol, id: Number(message.last_trade_id) } };
    }
    if (type === 'subscriptions') {
      const channels: readonly unknown[] = Array.isArray(message.channels) ? message.channels : [];
      const matches = channels.map(Object).find(({ name }) => name === 'matches');
      return { subscribed: matches?.product_ids ?? [] };
    }
    if (type !== 'error') return {};
    return { refusal: [message.message, message.reason].filter(Boolean).join(': ') };
  },
};

/** Coinbase Exchange: pages by id, newest first, requested by their upper end. */
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
    // The maker's side: `buy` means that the taker sold.
    side: { field: 'side', of: 'maker', buy: 'buy', sell: 'sell' },
  },
  feed,
};
