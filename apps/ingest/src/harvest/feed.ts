import { type Clock, deadline, type Random } from 'spillway';
import { untilAborted } from 'spillway/internal';
import { WebSocket } from 'ws';
import type { FeedForm, FeedNews } from '../connectors/feed-form.ts';
import { type Item, pageOf, type TradePage } from '../connectors/page.ts';

export interface FeedOptions {
  readonly form: FeedForm;
  readonly products: readonly string[];
  /** Trades buffered for all products together; the oldest are dropped first. @default 100_000 */
  readonly tradesMax?: number | undefined;
  /** Largest message in bytes; a longer one ends the connection. @default 1_048_576 */
  readonly bytesMax?: number | undefined;
  /** Time without a message after which to reconnect, in ms. @default 15_000 */
  readonly silenceMs?: number | undefined;
  /** Longest wait after the first failure, in ms; doubles with each further one. @default 500 */
  readonly backoffMs?: number | undefined;
  /** Its `now` is UNIX time in milliseconds. */
  readonly clock: Clock;
  readonly random: Random;
}

export interface FeedStats {
  readonly kind: 'feed';
  readonly state: 'connecting' | 'open' | 'waiting' | 'closed';
  readonly url: string;
  readonly connections: number;
  /** Trades received, without duplicates. */
  readonly trades: number;
  readonly duplicates: number;
  /** Ids that the feed has skipped; they are fetched from the REST API. */
  readonly missed: number;
  /** Trades dropped to make room before they were committed or compared. */
  readonly dropped: number;
  /** Trades of other products, with a time in the future, or with an implausibly high id. */
  readonly refused: number;
  /** UNIX time in milliseconds; undefined before the first message. */
  readonly lastMessageAt: number | undefined;
  /** Message of the last failure, until a subscription succeeds. */
  readonly error: string | undefined;
}

const backoffMsMax = 30_000;
/** A connection that lasts this long, in ms, or brings a trade, resets the backoff. */
const steadyMs = 30_000;
/** Time that a server has to answer a close frame, in ms. */
const closeMs = 1_000;
/** Largest plausible clock difference, in ms: trades further in the future are refused. */
const futureMsMax = 60_000;
/** Time that the REST API has to reach an id before the id is taken for wrong, in ms. */
const doubtMs = 60_000;
/** Symbols of one subscription message. */
const symbolsPerMessage = 100;

/** The newest trades of one product. */
class FeedBuffer {
  /** By id, in order of arrival; `at` is UNIX time in ms. */
  readonly trades = new Map<number, { readonly trade: Item; readonly at: number }>();
  /** The highest id of a trade, and the highest id announced by a heartbeat; -1 for none. */
  newest = -1;
  head = -1;
  /** UNIX time in ms at which `head` was announced. */
  headAt = 0;
  /** UNIX time of the subscription of this connection; undefined while there is none. */
  subscribedAt: number | undefined;
}

/**
 * Receives the trades of an exchange as they happen. A feed may lose, repeat and reorder trades, so
 * {@link LiveTrades} commits only those that continue the ledger, and the REST API fills the rest.
 * The feed applies no back-pressure: trades beyond the buffer are dropped.
 */
export class Feed {
  readonly #options: FeedOptions;
  readonly #buffers: ReadonlyMap<string, FeedBuffer>;
  readonly #roomEach: number;
  #symbols: ReadonlyMap<string, string> = new Map();
  #state: FeedStats['state'] = 'connecting';
  #lastMessageAt: number | undefined;
  #error: string | undefined;
  #failures = 0;
  readonly #counts = {
    connections: 0,
    trades: 0,
    duplicates: 0,
    missed: 0,
    dropped: 0,
    refused: 0,
  };

  constructor(options: FeedOptions) {
    const { products, tradesMax = 100_000 } = options;
    this.#options = options;
    this.#buffers = new Map(products.map((product) => [product, new FeedBuffer()]));
    this.#roomEach = Math.max(1_000, Math.floor(tradesMax / Math.max(1, products.length)));
  }

  get stats(): FeedStats {
    return {
      kind: 'feed',
      state: this.#state,
      url: this.#options.form.url,
      ...this.#counts,
      lastMessageAt: this.#lastMessageAt,
      error: this.#error,
    };
  }

  /** The highest id received or announced; -1 for none. */
  newest(product: string): number {
    const { newest, head } = this.#buffers.get(product) ?? { newest: -1, head: -1 };
    return Math.max(newest, head);
  }

  /** Removes trades below the id, once they are committed and compared. */
  forget(product: string, below: number): void {
    const trades = this.#buffers.get(product)?.trades;
    for (const id of trades?.keys() ?? []) if (id < below) trades?.delete(id);
  }

  /**
   * Removes ids above those of the REST API that came a while ago and do not follow on from it. One
   * wrong id would otherwise count as the newest until real ids have passed it. `next` is the first
   * id that the REST API does not have.
   */
  doubt(product: string, next: number): void {
    const buffer = this.#buffers.get(product);
    if (buffer === undefined || this.newest(product) < next) return;
    const { trades, newest } = buffer;
    const before = this.#options.clock.now() - doubtMs;
    const from = next + this.runAt(product, next, Infinity);
    let highest = next - 1;
    for (const [id, { at }] of trades) {
      if (id < from || at > before) highest = Math.max(highest, id);
      else {
        trades.delete(id);
        this.#counts.refused += 1;
      }
    }
    if (buffer.head >= from && buffer.headAt <= before) buffer.head = -1;
    if (highest >= newest) return;
    buffer.newest = highest;
    this.#counts.missed = Math.max(0, this.#counts.missed - (newest - highest - 1));
  }

  /** UNIX time of the current subscription; undefined while there is none. */
  subscribedAt(product: string): number | undefined {
    return this.#buffers.get(product)?.subscribedAt;
  }

  /** UNIX time at which a trade arrived; undefined if it is not in the buffer. */
  heardAt(product: string, id: number): number | undefined {
    return this.#buffers.get(product)?.trades.get(id)?.at;
  }

  /** Counts the consecutive ids in the buffer, beginning at `id`, up to `max`. */
  runAt(product: string, id: number, max: number): number {
    const trades = this.#buffers.get(product)?.trades;
    let count = 0;
    while (count < max && trades?.has(id + count)) count += 1;
    return count;
  }

  /** Returns the buffered trades with ids from `from` to below `to`, by id. */
  page(product: string, from: number, to: number): TradePage {
    const trades = this.#buffers.get(product)?.trades;
    const found: Item[] = [];
    for (let id = from; id < to; id += 1) {
      const heard = trades?.get(id);
      if (heard !== undefined) found.push(heard.trade);
    }
    return pageOf(found);
  }

  /** Connects, and reconnects with backoff, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { form, products, clock, random, backoffMs = 500 } = this.#options;
    while (!signal.aborted) {
      this.#state = 'connecting';
      const startedAt = clock.now();
      const { trades } = this.#counts;
      try {
        this.#symbols = await form.symbols(products, signal);
        await this.#connect(signal);
      } catch (error) {
        if (!signal.aborted) this.#error = error instanceof Error ? error.message : String(error);
      }
      for (const buffer of this.#buffers.values()) buffer.subscribedAt = undefined;
      if (signal.aborted) break;
      this.#state = 'waiting';
      const isGood = this.#counts.trades > trades || clock.now() - startedAt >= steadyMs;
      this.#failures = isGood ? 1 : this.#failures + 1;
      const longestMs = Math.min(backoffMsMax, backoffMs * 2 ** (this.#failures - 1));
      await sleep(clock, longestMs * (0.5 + random() / 2), signal);
    }
    this.#state = 'closed';
  }

  /** Holds one connection; rejects with the reason when it ends. */
  async #connect(signal: AbortSignal): Promise<never> {
    const { form, clock, silenceMs = 15_000, bytesMax: maxPayload = 2 ** 20 } = this.#options;
    const { promise: ended, reject } = Promise.withResolvers<never>();
    const socket = new WebSocket(form.url, { maxPayload });
    this.#counts.connections += 1;
    let heardAt = clock.now();
    socket.addEventListener('open', () => this.#subscribe(socket));
    socket.addEventListener('message', ({ data }) => {
      try {
        heardAt = clock.now();
        this.#lastMessageAt = heardAt;
        this.#take(form.read(String(data)), reject);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        reject(new Error(`a message that cannot be read: ${why}`));
      }
    });
    socket.addEventListener('error', ({ message }) =>
      reject(new Error(message || 'no connection')),
    );
    socket.addEventListener('close', ({ code, reason }) => {
      reject(new Error(`closed by the exchange: ${code} ${reason}`.trim()));
    });
    let timer: Disposable | undefined;
    const watch = (): void => {
      timer = clock.after(silenceMs / 3, () => {
        const quietMs = clock.now() - heardAt;
        if (quietMs >= silenceMs) reject(new Error(`silent for ${Math.round(quietMs / 1000)} s`));
        else if (form.ping !== undefined && socket.readyState === WebSocket.OPEN) {
          socket.send(JSON.stringify(form.ping));
        }
        watch();
      });
    };
    watch();
    try {
      return await untilAborted(ended, signal);
    } finally {
      timer?.[Symbol.dispose]();
      // Late messages of a closing connection must not count for the next one.
      socket.removeAllListeners('message');
      socket.close();
      if (socket.readyState !== WebSocket.CLOSED) {
        const late = clock.after(closeMs, () => socket.terminate());
        socket.addEventListener('close', () => late[Symbol.dispose]());
      }
    }
  }

  #subscribe(socket: WebSocket): void {
    this.#state = 'open';
    const symbols = [...this.#symbols.keys()];
    for (let at = 0; at < symbols.length; at += symbolsPerMessage) {
      const some = symbols.slice(at, at + symbolsPerMessage);
      socket.send(JSON.stringify(this.#options.form.subscribe(some)));
    }
  }

  #take(news: FeedNews, fail: (error: Error) => void): void {
    const { subscribed, head, refusal } = news;
    for (const { symbol, trade } of news.trades ?? []) this.#add(symbol, trade);
    const buffer = head === undefined ? undefined : this.#bufferOf(head.symbol);
    if (buffer !== undefined && Number.isSafeInteger(head?.id) && Number(head?.id) > buffer.head) {
      buffer.head = Number(head?.id);
      buffer.headAt = this.#options.clock.now();
    }
    if (subscribed !== undefined) this.#confirm(subscribed);
    if (refusal !== undefined) fail(new Error(`the subscription was refused: ${refusal}`));
    if (news.isLeaving) fail(new Error('the server is shutting down'));
  }

  #confirm(subscribed: readonly string[] | 'all'): void {
    const symbols = subscribed === 'all' ? [...this.#symbols.keys()] : subscribed;
    for (const symbol of symbols) {
      const buffer = this.#bufferOf(symbol);
      if (buffer === undefined) continue;
      buffer.subscribedAt ??= this.#options.clock.now();
      this.#error = undefined;
    }
  }

  #bufferOf(symbol: string): FeedBuffer | undefined {
    return this.#buffers.get(this.#symbols.get(symbol) ?? '');
  }

  #add(symbol: string, value: unknown): void {
    const counts = this.#counts;
    const buffer = this.#bufferOf(symbol);
    const trade = this.#options.form.line(value);
    const { id } = trade;
    const now = this.#options.clock.now();
    // `clock` stands still while the machine sleeps, and ignores corrections of the system's time.
    const latestMs = Math.max(now, Date.now()) + futureMsMax;
    const isFuture = Number(trade.us) / 1000 > latestMs;
    if (buffer === undefined || isFuture) {
      counts.refused += 1;
      return;
    }
    const { trades, newest } = buffer;
    if (trades.has(id)) {
      counts.duplicates += 1;
      return;
    }
    counts.trades += 1;
    if (newest >= 0 && id > newest + 1) counts.missed += id - newest - 1;
    else if (newest >= 0 && id <= newest && counts.missed > 0) counts.missed -= 1;
    buffer.newest = Math.max(newest, id);
    trades.set(id, { trade, at: now });
    if (trades.size <= this.#roomEach) return;
    for (const [oldest] of trades) {
      trades.delete(oldest);
      counts.dropped += 1;
      break;
    }
  }
}

/** Waits; returns early, without an error, when the signal aborts. */
export async function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0) return;
  using limit = deadline(clock, ms, signal);
  await untilAborted(new Promise<never>(() => {}), limit.signal).catch(() => {});
}
