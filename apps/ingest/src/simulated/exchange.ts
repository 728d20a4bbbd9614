import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { type Clock, type Random, seededRandom, systemClock } from 'spillway';
import { check, checkInteger, checkNumber } from 'spillway/internal';
import { coinbase } from './coinbase.ts';
import {
  type Dialect,
  type ExchangeReply,
  type ExchangeRequest,
  json,
  type Market,
} from './dialect.ts';
import { SimulatedFeeds } from './feeds.ts';
import { SimulatedProduct, type SimulatedProductOptions, type SimulatedTrade } from './product.ts';

/** Shares of requests, from 0 to 1, that have each fault; none by default. */
const noTrouble = {
  /** Answered 500, 502, 503 or 504. */
  error: 0,
  /** Answered 429 though the rate was kept. */
  limited: 0,
  /** Never answered. */
  hang: 0,
  /** The connection is reset before the answer. */
  reset: 0,
  /** The connection ends in the middle of the body. */
  truncated: 0,
  /** Answered 200 with a page of HTML, or with half of the JSON. */
  garbled: 0,
};

type Trouble = keyof typeof noTrouble;

export interface ExchangeTrouble extends Partial<typeof noTrouble> {
  /** Of each `every` requests the first `length` are answered 503. @default none */
  readonly burst?: { readonly every: number; readonly length: number } | undefined;
}

export interface ExchangeLatency {
  /** Milliseconds, on average; from 0. */
  readonly meanMs: number;
  /** Length of the tail: 0 for none; with 1, one answer in 100 takes 6 means. @default 1 */
  readonly sigma?: number | undefined;
}

function troubleOf(trouble: ExchangeTrouble, request: number, random: Random): Trouble | undefined {
  const { every, length } = trouble.burst ?? { every: 1, length: 0 };
  if (request % every < length) return 'error';
  let left = random();
  const kinds = Object.keys(noTrouble) as Trouble[];
  return kinds.find((kind) => {
    left -= trouble[kind] ?? 0;
    return left < 0;
  });
}

/** Chooses the latency of an answer, log-normally distributed. */
export function latencyMs({ meanMs, sigma = 1 }: ExchangeLatency, random: Random): number {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return meanMs * Math.exp(sigma * normal - (sigma * sigma) / 2);
}

export interface ExchangeRate {
  /** Requests that are let through each second; above 0. */
  readonly ratePerSecond: number;
  /** Requests that may come at once; an integer from 1. */
  readonly burst: number;
}

/** A token bucket, full at first, that counts requests. */
class RateMeter {
  readonly #rate: ExchangeRate | undefined;
  #tokens: number;
  #filledAt = 0;
  requests = 0;
  refused = 0;
  /** Requests that the rate has permitted so far. */
  permitted = 0;

  constructor(rate: ExchangeRate | undefined) {
    if (rate !== undefined) {
      const { ratePerSecond, burst } = rate;
      check(ratePerSecond > 0, 'ratePerSecond', 'a number above 0', ratePerSecond);
      checkInteger('burst', burst, 1);
    }
    this.#rate = rate;
    this.#tokens = rate?.burst ?? Infinity;
  }

  /** Counts the tokens of `ms` in which the process was busy: those beyond a burst are lost. */
  permit(ms: number): void {
    const { ratePerSecond, burst } = this.#rate ?? { ratePerSecond: 0, burst: 0 };
    this.permitted += Math.min(burst, (ms / 1000) * ratePerSecond);
  }

  /** Counts a request; returns 0 to admit it, else the milliseconds until it would be admitted. */
  arrive(now: number): number {
    this.requests += 1;
    if (this.#rate === undefined) return 0;
    const { ratePerSecond, burst } = this.#rate;
    const filled = ((now - this.#filledAt) / 1000) * ratePerSecond;
    this.#tokens = Math.min(burst, this.#tokens + filled);
    this.#filledAt = now;
    if (this.#tokens >= 1) {
      this.#tokens -= 1;
      return 0;
    }
    this.refused += 1;
    return ((1 - this.#tokens) / ratePerSecond) * 1000;
  }
}

export interface ExchangeOptions {
  readonly products: readonly SimulatedProductOptions[];
  /** APIs that it answers beside that of Coinbase. @default none */
  readonly dialects?: readonly Dialect[] | undefined;
  /** Seed of random latency and faults; an integer. @default 1 */
  readonly seed?: number | undefined;
  /** Rate limit; requests above it are answered 429. @default none */
  readonly rate?: ExchangeRate | undefined;
  /** Latency of answers. @default none */
  readonly latency?: ExchangeLatency | undefined;
  /** Faults. @default none */
  readonly trouble?: ExchangeTrouble | undefined;
  /** Address at which it listens. @default '127.0.0.1' */
  readonly host?: string | undefined;
  /** The port; 0 for any that is free. @default 0 */
  readonly port?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** Period of measuring the lateness of the event loop, in ms. */
const watchMs = 10;
const errorStatuses = [500, 502, 503, 504];
const html = Buffer.from('<html><head><title>Just a moment...</title></head></html>');

/** Starts an exchange with Coinbase's API. */
export async function startExchange(options: ExchangeOptions): Promise<Exchange> {
  const exchange = new Exchange(options);
  await exchange.listen();
  return exchange;
}

/** A simulated exchange on a real port; every trade is known in advance. */
export class Exchange implements AsyncDisposable {
  readonly #options: ExchangeOptions;
  readonly #dialects: readonly Dialect[];
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #market: Market;
  readonly #meter: RateMeter;
  readonly #server: Server;
  readonly #startedAt: number;
  readonly #troubles = { ...noTrouble };
  /** May be changed at any time. */
  trouble: ExchangeTrouble;
  /** Trades by which the REST API is behind the feeds; may be changed at any time. */
  behind = 0;
  readonly feeds: SimulatedFeeds;
  readonly #delay = monitorEventLoopDelay({ resolution: watchMs });
  #watch: Disposable | undefined;
  #watchedAt = 0;
  #open = 0;

  constructor(options: ExchangeOptions) {
    const { seed = 1, trouble = {}, port = 0, clock = systemClock, dialects = [] } = options;
    checkInteger('seed', seed, Number.MIN_SAFE_INTEGER);
    checkInteger('port', port, 0, 65_535);
    checkNumber('latency.meanMs', options.latency?.meanMs ?? 0, 0, 1e9);
    checkNumber('latency.sigma', options.latency?.sigma ?? 1, 0, 10);
    const list = options.products.map((product) => new SimulatedProduct(product));
    const products = new Map(list.map((product) => [product.id, product]));
    check(products.size === list.length, 'products', 'each of its own id', [...products.keys()]);
    this.#options = options;
    // Coinbase has no prefix, so it comes last.
    this.#dialects = [...dialects, coinbase];
    this.#clock = clock;
    this.#random = seededRandom(seed);
    this.#startedAt = clock.now();
    this.#meter = new RateMeter(options.rate);
    this.#market = { products, endOf: (product) => product.endAt(this.#ms()) };
    this.trouble = trouble;
    this.#server = createServer((request, response) => this.#serve(request, response));
    this.#server.keepAliveTimeout = 60_000;
    this.feeds = new SimulatedFeeds(this.#dialects, this.#market, clock, seededRandom(seed + 1));
    this.#server.on('upgrade', (request, socket, head) => this.feeds.accept(request, socket, head));
  }

  async listen(): Promise<void> {
    const { host = '127.0.0.1', port = 0 } = this.#options;
    this.#server.listen(port, host);
    await once(this.#server, 'listening');
  }

  get url(): string {
    const { address, port } = this.#server.address() as AddressInfo;
    return `http://${address.includes(':') ? `[${address}]` : address}:${port}`;
  }

  /** Number of requests, refusals (429), faults by kind, and open requests. */
  get stats() {
    const { requests, refused } = this.#meter;
    return { requests, refused, troubles: { ...this.#troubles }, open: this.#open };
  }

  /** Returns the trade with that id, also a future one; undefined for an id without a trade. */
  truth(product: string, id: number): SimulatedTrade | undefined {
    const one = this.product(product);
    return one.has(id) ? one.trade(id) : undefined;
  }

  /** Returns the newest id of a product; one below its first id if it has no trade. */
  latest(product: string): number {
    return this.#market.endOf(this.product(product)) - 1;
  }

  product(id: string): SimulatedProduct {
    const product = this.#market.products.get(id);
    check(product !== undefined, 'product', [...this.#market.products.keys()].join(' or '), id);
    return product;
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    this.#watch?.[Symbol.dispose]();
    this.#server.close();
    this.#server.closeAllConnections();
    this.feeds.disconnect();
    await once(this.#server, 'close');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #dialectOf(path: string): Dialect {
    return this.#dialects.find(({ prefix }) => path.startsWith(prefix)) ?? coinbase;
  }

  #ms(): number {
    return this.#clock.now() - this.#startedAt;
  }

  /** Reports counts, permitted requests and the lateness of the event loop since the first call. */
  #observe(): object {
    this.#look();
    const { permitted } = this.#meter;
    const lateMs = Math.max(0, this.#delay.percentile(99) / 1e6 - watchMs);
    this.#delay.reset();
    return { ...this.stats, permitted, lateMs };
  }

  #look(): void {
    const now = this.#ms();
    if (this.#watch === undefined) this.#delay.enable();
    else this.#meter.permit(now - this.#watchedAt);
    this.#watchedAt = now;
    this.#watch?.[Symbol.dispose]();
    this.#watch = this.#clock.after(watchMs, () => this.#look());
  }

  #serve(message: IncomingMessage, response: ServerResponse): void {
    const url = message.url ?? '/';
    const mark = url.indexOf('?');
    const path = mark < 0 ? url : url.slice(0, mark);
    const query = new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1));
    const request = { path, query, headers: message.headers };
    message.resume();
    if (path === '/simulation') {
      send(response, json(200, this.#observe()));
      return;
    }
    const waitMs = this.#meter.arrive(this.#ms());
    if (waitMs === 0) this.#admit(request, response);
    else send(response, this.#dialectOf(path).limited(Math.max(1, Math.ceil(waitMs / 1000))));
  }

  #admit(request: ExchangeRequest, response: ServerResponse): void {
    const trouble = troubleOf(this.trouble, this.#meter.requests - 1, this.#random);
    if (trouble !== undefined) this.#troubles[trouble] += 1;
    const { latency } = this.#options;
    const usualMs = latency && trouble !== 'hang' ? latencyMs(latency, this.#random) : 0;
    const delayMs = trouble === 'hang' ? Infinity : usualMs;
    const answer = () => this.#answer(request, response, trouble);
    this.#open += 1;
    const timer = delayMs === 0 ? undefined : this.#clock.after(delayMs, answer);
    response.once('close', () => {
      this.#open -= 1;
      timer?.[Symbol.dispose]();
    });
    if (timer === undefined) answer();
  }

  #answer(request: ExchangeRequest, response: ServerResponse, trouble: Trouble | undefined): void {
    const { products } = this.#market;
    const endOf = (product: SimulatedProduct): number =>
      Math.max(product.firstId, this.#market.endOf(product) - this.behind);
    const reply = this.#dialectOf(request.path).answer(request, { products, endOf });
    const half = reply.body.subarray(0, reply.body.length / 2);
    if (trouble === 'reset') {
      response.socket?.resetAndDestroy();
    } else if (trouble === 'error') {
      const status = errorStatuses[Math.floor(this.#random() * errorStatuses.length)] as number;
      send(response, json(status, { message: 'Internal server error' }));
    } else if (trouble === 'limited') {
      send(response, this.#dialectOf(request.path).limited(1));
    } else if (trouble === 'truncated') {
      response.writeHead(reply.status, { 'content-length': reply.body.length });
      response.write(half, () => response.socket?.destroy());
    } else if (trouble === 'garbled') {
      send(response, { status: 200, body: this.#random() < 0.5 ? html : half });
    } else {
      send(response, reply);
    }
  }
}

function send(response: ServerResponse, { status, body, headers }: ExchangeReply): void {
  const type = body === html ? 'text/html' : 'application/json; charset=utf-8';
  response.writeHead(status, { 'content-type': type, 'content-length': body.length, ...headers });
  response.end(body);
}
