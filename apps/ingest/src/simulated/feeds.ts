import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock, Random } from 'spillway';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Dialect, FeedDialect, Market } from './dialect.ts';
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
}

const sendMs = 20;
const heartbeatMs = 1_000;

/** The feeds of the simulated exchange, each at a path of its port. */
export class SimulatedFeeds {
  readonly #dialects: readonly Dialect[];
  readonly #market: Market;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #server = new WebSocketServer({ noServer: true });
  /** May be changed at any time. */
  trouble: FeedTrouble = {};
  connections = 0;

  constructor(dialects: readonly Dialect[], market: Market, clock: Clock, random: Random) {
    this.#dialects = dialects;
    this.#market = market;
    this.#clock = clock;
    this.#random = random;
  }

  accept(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    const dialect = this.#dialects.find(({ feed }) => feed.path === pathname)?.feed;
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

  /** Cuts all connections, like a server that restarts. */
  disconnect(): void {
    for (const client of this.#server.clients) client.terminate();
  }

  #serve(client: WebSocket, dialect: FeedDialect, isMicro: boolean): void {
    /** The next id to send of each product, and ids that were put off. */
    const next = new Map<string, { id: number; later: number[] }>();
    let timer: Disposable | undefined;
    let beatAt = this.#clock.now() + heartbeatMs;
    const send = (message: object) => client.send(JSON.stringify(message));
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
