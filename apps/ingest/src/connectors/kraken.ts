import { ingestError } from '../errors.ts';
import { decimalOf, fieldChanged, microseconds } from './answer.ts';
import type { Declaration } from './declaration.ts';
import type { FeedDeclaration, FeedTrade } from './feed-form.ts';

const name = 'kraken';

/** Kraken v2, channel `trade`: prices are JSON numbers; a subscription begins with 50 trades. */
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

/** Maps the feed's symbols, which use common names of currencies, to products. */
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

/** Reviver that keeps prices and quantities as text with all digits. */
function digits(key: string, value: unknown, context?: { readonly source?: string }): unknown {
  return key === 'price' || key === 'qty' ? (context?.source ?? value) : value;
}

/** Kraken spot: each page leads to the next by a time in nanoseconds. */
export const kraken: Declaration = {
  name,
  address: 'https://api.kraken.com/0/public/Trades',
  products: { path: '/0/public/AssetPairs', records: 'result' },
  query: { pair: '{product}' },
  unknown: 'Unknown asset pair',
  check: checkAnswer,
  // The field is Kraken's own name of the pair, which may differ from the requested one.
  records: 'result.*',
  pages: { by: 'moment', limit: 'count', since: 'since', next: 'result.last', size: 1000 },
  // Documented as about one request a second for each IP address and pair.
  limits: { perSecond: 1 },
  trades: {
    id: 6,
    price: 0,
    quantity: 1,
    time: { field: 2, as: 'seconds' },
    // The taker's side: `b` means that the maker sold.
    side: { field: 3, of: 'taker', buy: 'b', sell: 's' },
  },
  feed,
};

/** Throws for an error in the body: Kraken answers with status 200 also then. */
function checkAnswer(body: unknown): void {
  const { error, result } = Object(body);
  if (!Array.isArray(error)) throw fieldChanged(name, 'error', 'a list', error);
  // Texts that begin with W are warnings.
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
