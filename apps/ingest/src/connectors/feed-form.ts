import { decimalOf, microseconds } from './answer.ts';
import type { Item } from './page.ts';

/** A trade of a feed. */
export interface FeedTrade {
  /** The name of the product in the feed. */
  readonly symbol: string;
  /** The trade as the REST API of the exchange writes it. */
  readonly trade: unknown;
}

/** Content of one message; all parts are left out of a message that means nothing to us. */
export interface FeedNews {
  readonly trades?: readonly FeedTrade[] | undefined;
  /** The newest id of a product, told without its trade. */
  readonly head?: { readonly symbol: string; readonly id: number } | undefined;
  /** Symbols whose trades come from now on; 'all' for those that were asked for. */
  readonly subscribed?: readonly string[] | 'all' | undefined;
  /** Reason for which the exchange has refused a subscription. */
  readonly refusal?: string | undefined;
  /** The server is about to close the connection. */
  readonly isLeaving?: boolean | undefined;
}

/** The WebSocket feed of an exchange: its questions and its messages. */
export interface FeedForm {
  readonly url: string;
  /** Finds the product of each symbol of the feed. */
  symbols(products: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>>;
  subscribe(symbols: readonly string[]): object;
  /** A question that the server answers, for a feed that is silent while nothing is traded. */
  readonly ping?: object | undefined;
  /** Reads a message; throws where a trade is not written as documented. */
  read(text: string): FeedNews;
  /** Reads a trade that is written as the REST API does; throws where it breaks a rule. */
  line(trade: unknown): Item;
  /** All that the feed and the REST API must agree on besides id and time, as one text. */
  facts(trade: unknown): string;
}

/** The feed as a source declares it. */
export interface FeedDeclaration extends Pick<FeedForm, 'subscribe' | 'ping' | 'read'> {
  readonly address: string;
  /** Path of the feed below another address that is set for the API. */
  readonly path: string;
  /** Finds symbols in the answer with the products. @default products are their own symbols */
  readonly symbolsIn?:
    | ((body: unknown, products: readonly string[]) => ReadonlyMap<string, string>)
    | undefined;
}

/**
 * Coinbase Exchange, channels `matches` and `heartbeat`. The first match of a subscription is the
 * last trade before it. The `last_trade_id` of a heartbeat was 0 for years: that tells nothing.
 */
export const coinbaseFeed: FeedDeclaration = {
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

/** Kraken v2, channel `trade`: prices are numbers, whose digits count; 50 trades come at first. */
export const krakenFeed: FeedDeclaration = {
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

/** Binance spot, stream `<symbol>@trade`; its connections last for 24 hours at most. */
export const binanceFeed: FeedDeclaration = {
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
