import {
  type ExchangeApi,
  type ExchangeReply,
  type ExchangeRequest,
  idsBelow,
  integer,
  json,
  type Market,
} from './exchange-api.ts';
import { coinbaseTrade, pageBytes } from './page-bytes.ts';
import type { SimulatedProduct } from './simulated-product.ts';

const limitMax = 1000;
const productPath = /^\/products\/([^/]+)(\/trades)?$/;

const fault = (status: number, message: string): ExchangeReply => json(status, { message });

/** Coinbase Exchange: products, one product, its trades. */
export const coinbaseApi: ExchangeApi = {
  prefix: '/',
  productOf: ({ path }) => decoded(productPath.exec(path)?.[1]),
  limited: (retryAfterS) =>
    json(429, { message: 'Public rate limit exceeded' }, { 'retry-after': String(retryAfterS) }),
  answer(request, market) {
    const { path, headers } = request;
    if (headers['user-agent'] === undefined) return fault(400, 'User-Agent header is required.');
    if (path === '/products') return json(200, [...market.products.keys()].map(description));
    const match = productPath.exec(path);
    const product = market.products.get(decoded(match?.[1]) ?? '');
    if (match === null || product === undefined) return fault(404, 'NotFound');
    return match[2] === undefined
      ? json(200, description(product.id))
      : trades(request, product, market);
  },
};

function trades(
  { query }: ExchangeRequest,
  product: SimulatedProduct,
  market: Market,
): ExchangeReply {
  const {
    limit = limitMax,
    before = -1,
    after = Infinity,
  } = {
    limit: integer(query, 'limit'),
    before: integer(query, 'before'),
    after: integer(query, 'after'),
  };
  if (!(limit >= 1)) return fault(400, 'Invalid limit');
  if (Number.isNaN(before)) return fault(400, 'Invalid before');
  if (Number.isNaN(after)) return fault(400, 'Invalid after');
  const count = Math.min(limit, limitMax);
  const end = Math.min(after, market.endOf(product));
  const from = Math.max(before + 1, product.firstId);
  const ids = idsBelow(product, { end, from, count });
  const body = pageBytes(ids, coinbaseTrade(product));
  if (ids.length === 0) return { status: 200, body };
  const cursors = { 'cb-before': String(ids[0]), 'cb-after': String(ids.at(-1)) };
  return { status: 200, body, headers: cursors };
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
