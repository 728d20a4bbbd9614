import { ingestError } from '../errors.ts';
import { decimalOf, fieldChanged, microseconds } from './answer.ts';
import type { Declaration } from './declaration.ts';
import type { FeedDeclaration, FeedTrade } from './feed-form.ts';

const name = 'kraken';

/** Kraken v2, channel `trade`: prices are numbers, whose digits count; 50 trades come at first. */
const feed: FeedDeclaration = {
  address: 'wss://ws.kraken.com/v2',
  path: '/v2',
  symbolsIn: krakenSymbols,
  subscribe: (symbol) => ({
    method: 'subscribe',
    params: { channel: 'trade', symbol, snapshot: true },
  }),
  ping: { method: 'ping' },
  read(text) {
    const message = Object(JSON.parse(text, digits));
    const { channel, method, success, result, error } = message;
    if (channel === 'trade') {
      const trades: readonly unknown[] = Array.isArray(message.data) ? message.data : [];
      return { trades: trades.map(krakenTrade) };
    }
    if (method !== 'subscribe') return {};
    return success === true
      ? { subscribed: [String(Object(result).symbol)] }
      : { refusal: `${error}: ${Object(message).symbol ?? ''}` };
  },
};

function krakenTrade(value: unknown): FeedTrade {
  const { symbol, side, price, qty, ord_type, trade_id, timestamp } = Object(value);
  const us = microseconds(timestamp);
  const seconds = us === undefined ? timestamp : Number(us) / 1e6;
  const letters = { side: String(side)[0], type: String(ord_type)[0] };
  const decimals = [decimalOf(price), decimalOf(qty)];
  return { symbol, trade: [...decimals, seconds, letters.side, letters.type, '', trade_id] };
}

/** The products by their names in the feed, which calls currencies as everybody else does. */
function krakenSymbols(body: unknown, products: readonly string[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [key, pair] of Object.entries(Object(body).result)) {
    const { altname, wsname } = Object(pair);
    const product = products.find((one) => one === key || one === altname);
    if (product === undefined || typeof wsname !== 'string') continue;
    found.set(wsname.replace(/\bXBT\b/, 'BTC').replace(/\bXDG\b/, 'DOGE'), product);
  }
  return found;
}

/** Keeps the digits of prices and quantities as they were written. */
function digits(key: string, value: unknown, context?: { readonly source?: string }): unknown {
  return key === 'price' || key === 'qty' ? (context?.source ?? value) : value;
}

/** Kraken spot: one page leads to the next, by a time in nanoseconds. */
export const kraken: Declaration = {
  name,
  address: 'https://api.kraken.com/0/public/Trades',
  products: { path: '/0/public/AssetPairs', records: 'result' },
  query: { pair: '{product}' },
  unknown: 'Unknown asset pair',
  check: checkAnswer,
  // The list is called by Kraken's own name of the pair, which need not be the one asked for.
  records: 'result.*',
  pages: { by: 'moment', limit: 'count', since: 'since', next: 'result.last', size: 1000 },
  // Documented as about one a second, for each address and pair.
  limits: { perSecond: 1 },
  trades: {
    id: 6,
    price: 0,
    quantity: 1,
    time: { field: 2, as: 'seconds' },
    // The side of the taker: `b` means that the order in the book was one to sell.
    side: { field: 3, of: 'taker', buy: 'b', sell: 's' },
  },
  feed,
};

/** Kraken says in the body, not by the status, what went wrong. */
function checkAnswer(body: unknown): void {
  const { error, result } = Object(body);
  if (!Array.isArray(error)) throw fieldChanged(name, 'error', 'a list', error);
  // What begins with W is a warning.
  const [fault] = error.filter((text) => !/^W/.test(text));
  if (fault !== undefined) throw refusal(String(fault));
  if (typeof result === 'object' && result !== null) return;
  throw fieldChanged(name, 'result', 'an object', result);
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
