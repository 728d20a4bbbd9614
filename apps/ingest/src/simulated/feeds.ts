import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock, Random } from 'spillway';
import { type WebSocket, WebSocketServer } from 'ws';
import { isoOf, type Market } from './dialects.ts';
import type { SimulatedProduct } from './product.ts';

/** Faults of the feeds; each share is from 0 to 1. */
export interface FeedTrouble {
  /** The share of trades that is never sent. @default 0 */
  readonly lost?: number | undefined;
  /** The share that is sent twice. @default 0 */
  readonly repeated?: number | undefined;
  /** The share that is sent after the trade that follows it. @default 0 */
  readonly swapped?: number | undefined;
  /** The share whose price is not the one that the REST API tells. @default 0 */
  readonly altered?: number | undefined;
  /** Nothing is sent at all, not even a heartbeat. @default false */
  readonly isSilent?: boolean | undefined;
}

/** The feed of one exchange. */
interface FeedDialect {
  /** Sent to a new connection. */
  readonly welcome?: object;
  /** Reads a request: the symbols asked for, and what answers it. */
  answer(request: Readonly<Record<string, unknown>>, market: Market): FeedAnswer;
  symbolOf(id: string): string;
  trade(product: SimulatedProduct, id: number, price: string, isMicro: boolean): object;
  /** Sent once a second. */
  heartbeat(product: SimulatedProduct, newest: number, now: string): object | undefined;
}

interface FeedAnswer {
  readonly ids: readonly string[];
  readonly messages: readonly object[];
}

function known(ids: readonly unknown[], market: Market): readonly string[] {
  return ids.map(String).filter((id) => market.products.has(id));
}

const coinbase: FeedDialect = {
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
  symbolOf: (id) => id,
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

const kraken: FeedDialect = {
  welcome: { channel: 'status', type: 'update', data: [{ api_version: 'v2', system: 'online' }] },
  answer({ method, params }, market) {
    if (method !== 'subscribe') return { ids: [], messages: [{ method: 'pong' }] };
    const { symbol: symbols = [] } = Object(params) as { symbol?: readonly string[] };
    const bySymbol = new Map([...market.products.keys()].map((id) => [kraken.symbolOf(id), id]));
    const messages = symbols.map((symbol) =>
      bySymbol.has(symbol)
        ? { method, success: true, result: { channel: 'trade', symbol, snapshot: true } }
        : { method, success: false, error: 'Currency pair not supported', symbol },
    );
    return { ids: symbols.flatMap((symbol) => bySymbol.get(symbol) ?? []), messages };
  },
  symbolOf: (id) => id.replace('-', '/').replace(/\bXBT\b/, 'BTC'),
  trade(product, id, price) {
    const { size, makerSide, timeUs } = product.trade(id);
    const side = makerSide === 'buy' ? 'sell' : 'buy';
    const trade = {
      symbol: kraken.symbolOf(product.id),
      side,
      price: Number(price),
      qty: Number(size),
      ord_type: makerSide === 'buy' ? 'market' : 'limit',
      trade_id: id,
      timestamp: isoOf(timeUs),
    };
    return { channel: 'trade', type: 'update', data: [trade] };
  },
  heartbeat: () => ({ channel: 'heartbeat' }),
};

const binance: FeedDialect = {
  answer({ method, params, id }, market) {
    if (method !== 'SUBSCRIBE') return { ids: [], messages: [{ result: [], id: id ?? null }] };
    const names = (Array.isArray(params) ? params : []).map((name) => String(name));
    const ids = known(
      names.map((name) => name.replace(/@trade$/, '').toUpperCase()),
      market,
    );
    return { ids, messages: [{ result: null, id: id ?? null }] };
  },
  symbolOf: (id) => id,
  trade(product, id, price, isMicro) {
    const { size, makerSide, timeUs } = product.trade(id);
    const time = isMicro ? timeUs : Math.floor(timeUs / 1000);
    const sides = { m: makerSide === 'buy', M: true };
    return { e: 'trade', E: time, s: product.id, t: id, p: price, q: size, T: time, ...sides };
  },
  heartbeat: () => undefined,
};

const dialects: Readonly<Record<string, FeedDialect>> = {
  '/feed': coinbase,
  '/v2': kraken,
  '/ws': binance,
};

const sendMs = 20;
const heartbeatMs = 1_000;

/** The feeds of the simulated exchange, on the paths `/feed`, `/v2` and `/ws` of its port. */
export class SimulatedFeeds {
  readonly #market: Market;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #server = new WebSocketServer({ noServer: true });
  /** May be changed at any time. */
  trouble: FeedTrouble = {};
  connections = 0;

  constructor(market: Market, clock: Clock, random: Random) {
    this.#market = market;
    this.#clock = clock;
    this.#random = random;
  }

  accept(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    const dialect = dialects[pathname];
    if (dialect === undefined) {
      socket.destroy();
      return;
    }
    const isMicro = searchParams.get('timeUnit')?.toUpperCase() === 'MICROSECOND';
    this.#server.handleUpgrade(request, socket, head, (client) => {
      this.connections += 1;
      this.#serve(client, dialect, isMicro);
    });
  }

  /** Ends all connections, as a server that is restarted does. */
  disconnect(): void {
    for (const client of this.#server.clients) client.terminate();
  }

  #serve(client: WebSocket, dialect: FeedDialect, isMicro: boolean): void {
    /** Of each product the next id to send, and the ids that are sent later. */
    const next = new Map<string, { id: number; later: number[] }>();
    let timer: Disposable | undefined;
    let beatAt = this.#clock.now() + heartbeatMs;
    const send = (message: object) => {
      if (!this.trouble.isSilent) client.send(JSON.stringify(message));
    };
    const sendNew = () => {
      timer = this.#clock.after(sendMs, sendNew);
      const isBeat = this.#clock.now() >= beatAt;
      if (isBeat) beatAt = this.#clock.now() + heartbeatMs;
      for (const [name, state] of next) {
        const product = this.#market.products.get(name) as SimulatedProduct;
        const end = this.#market.endOf(product);
        for (; state.id < end; state.id += 1)
          this.#sendTrade(product, state, dialect, isMicro, send);
        const beat = isBeat && dialect.heartbeat(product, end - 1, new Date().toISOString());
        if (beat) send(beat);
      }
    };
    client.on('message', (data) => {
      const { ids, messages } = dialect.answer(Object(JSON.parse(String(data))), this.#market);
      for (const message of messages) send(message);
      for (const id of ids) {
        const product = this.#market.products.get(id) as SimulatedProduct;
        const last = Math.max(product.firstId, this.#market.endOf(product) - 1);
        next.set(id, { id: last, later: [] });
      }
    });
    client.on('error', () => {});
    client.once('close', () => timer?.[Symbol.dispose]());
    if (dialect.welcome !== undefined) send(dialect.welcome);
    sendNew();
  }

  #sendTrade(
    product: SimulatedProduct,
    state: { readonly id: number; later: number[] },
    dialect: FeedDialect,
    isMicro: boolean,
    send: (message: object) => void,
  ): void {
    const { lost = 0, repeated = 0, swapped = 0, altered = 0 } = this.trouble;
    const happens = (share: number): boolean => share > 0 && this.#random() < share;
    if (!product.has(state.id) || happens(lost)) return;
    const ids = happens(swapped) ? [] : [state.id, ...state.later];
    state.later = ids.length === 0 ? [...state.later, state.id] : [];
    for (const id of ids.flatMap((id) => (happens(repeated) ? [id, id] : [id]))) {
      const { price } = product.trade(id);
      send(dialect.trade(product, id, happens(altered) ? `1${price}` : price, isMicro));
    }
  }
}
