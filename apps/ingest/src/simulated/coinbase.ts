import {
  type Dialect,
  type ExchangeReply,
  type FeedDialect,
  integer,
  isoOf,
  json,
  known,
  newestIds,
  pageMax,
} from './dialect.ts';
import type { SimulatedProduct } from './product.ts';

const productPath = /^\/products\/([^/]+)(\/trades)?$/;
const coinbaseFault = (status: number, message: string): ExchangeReply => json(status, { message });

const feed: FeedDialect = {
  path: '/feed',
  answer({ type, product_ids }, market) {
    const wanted = Array.isArray(product_ids) ? product_ids : [];
    const ids = known(wanted, market);
    if (type !== 'subscribe' || ids.length < wanted.length) {
      const reason = `${wanted.find((id) => !ids.includes(id))} is not a valid product`;
      const fault = { type: 'error', message: 'Failed to subscribe', reason };
      return { ids: [], messages: [fault] };
    }
    const channels = ['matches', 'heartbeat'].map((name) => ({ name, product_ids: ids }));
    return { ids, messages: [{ type: 'subscriptions', channels }] };
  },
  trade(product, id, price) {
    const { size, makerSide: side, timeUs } = product.trade(id);
    return {
      type: 'match',
      trade_id: id,
      maker_order_id: 'ac928c66-ca53-498f-9c13-a110027a60e8',
      taker_order_id: '132fb6ae-456b-4654-b4e0-d681ac05cea1',
      side,
      size,
      price,
      product_id: product.id,
      sequence: 10 * id,
      time: isoOf(timeUs),
    };
  },
  heartbeat: ({ id: product_id }, newest, time) => {
    return { type: 'heartbeat', last_trade_id: newest, product_id, sequence: 10 * newest, time };
  },
};

/** Coinbase Exchange: products, one product, its trades, and the feed. */
export const coinbase: Dialect = {
  prefix: '/',
  feed,
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
  const isNumeric = id >= product.options.numericFrom;
  const written = isNumeric ? Number(price) : price;
  return { trade_id: id, side, size, price: written, time: isoOf(timeUs) };
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
