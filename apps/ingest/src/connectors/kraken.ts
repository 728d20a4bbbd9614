import { ingestError } from '../errors.ts';
import { fieldChanged } from './answer.ts';
import type { Declaration } from './declaration.ts';
import { krakenFeed } from './feed-form.ts';

const name = 'kraken';

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
  feed: krakenFeed,
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
