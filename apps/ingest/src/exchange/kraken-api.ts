import {
  type ExchangeApi,
  type ExchangeReply,
  idsBelow,
  idsFrom,
  integer,
  json,
  type Market,
} from './exchange-api.ts';
import { krakenTrade, pageBytes } from './page-bytes.ts';
import type { SimulatedProduct } from './simulated-product.ts';

const countMax = 1000;
/** Below it a `since` is in seconds, above in nanoseconds. */
const secondsMax = 1e11;

const fault = (text: string): ExchangeReply => json(200, { error: [text] });

/** Kraken spot: the pairs, and the trades of one. Its faults come with status 200. */
export const krakenApi: ExchangeApi = {
  prefix: '/0/public/',
  productOf: ({ query }) => query.get('pair') ?? undefined,
  limited: () => fault('EGeneral:Too many requests'),
  answer({ path, query }, market) {
    if (path === '/0/public/AssetPairs') return json(200, { error: [], result: pairs(market) });
    if (path !== '/0/public/Trades') return fault('EGeneral:Unknown method');
    const product = market.products.get(query.get('pair') ?? '');
    if (product === undefined) return fault('EQuery:Unknown asset pair');
    const count = integer(query, 'count') ?? countMax;
    const since = query.get('since');
    if (!(count >= 1 && count <= countMax) || (since !== null && !/^\d{1,19}$/.test(since))) {
      return fault('EGeneral:Invalid arguments');
    }
    return trades(product, market.endOf(product), count, since);
  },
};

function trades(
  product: SimulatedProduct,
  end: number,
  count: number,
  since: string | null,
): ExchangeReply {
  const ids =
    since === null
      ? idsBelow(product, { end, from: product.firstId, count }).reverse()
      : idsFrom(product, { end, from: product.firstAfter(sinceUs(since), end), count });
  const list = pageBytes(ids, krakenTrade(product));
  const newest = ids.at(-1);
  const last = newest === undefined ? (since ?? '0') : `${product.timeUs(newest)}000`;
  const head = Buffer.from(`{"error":[],"result":{"${product.id}":`);
  const body = Buffer.concat([head, list, Buffer.from(`,"last":"${last}"}}`)]);
  return { status: 200, body };
}

/** Trades are at whole microseconds, so what is finer only says that the microsecond is over. */
function sinceUs(since: string): number {
  const isSeconds = Number(since) < secondsMax;
  return Number(isSeconds ? BigInt(since) * 1_000_000n : BigInt(since) / 1000n);
}

function pairs(market: Market): object {
  const ids = [...market.products.keys()];
  return Object.fromEntries(ids.map((id) => [id, { altname: id, status: 'online' }]));
}
