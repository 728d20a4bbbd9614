import type { SimulatedProduct } from './product.ts';

/** The parts of a request that the exchanges look at. */
export interface ExchangeRequest {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

export interface ExchangeReply {
  readonly status: number;
  readonly body: Buffer;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** All products of the simulated exchange. */
export interface Market {
  readonly products: ReadonlyMap<string, SimulatedProduct>;
  /** One above the newest id of a product, now. */
  endOf(product: SimulatedProduct): number;
}

/** The API of one exchange. */
export interface Dialect {
  /** The path that all of its requests begin with. */
  readonly prefix: string;
  /** The product that a request is about. */
  productOf(request: ExchangeRequest): string | undefined;
  answer(request: ExchangeRequest, market: Market): ExchangeReply;
  /** The refusal of a request above the rate. */
  limited(retryAfterS: number): ExchangeReply;
  readonly feed: FeedDialect;
}

/** An answer in JSON. */
export function json(
  status: number,
  value: unknown,
  headers?: Readonly<Record<string, string>>,
): ExchangeReply {
  return { status, body: Buffer.from(JSON.stringify(value)), headers };
}

/** The feed of one exchange. */
export interface FeedDialect {
  /** Path of its socket. */
  readonly path: string;
  /** Sent to a new connection. */
  readonly welcome?: object;
  /** Reads a request: the symbols asked for, and what answers it. */
  answer(request: Readonly<Record<string, unknown>>, market: Market): FeedAnswer;
  trade(product: SimulatedProduct, id: number, price: string, isMicro: boolean): object;
  /** Sent once a second. */
  heartbeat(product: SimulatedProduct, newest: number, now: string): object | undefined;
}

/** The symbols that a request subscribes to, and the messages that answer it. */
export interface FeedAnswer {
  readonly ids: readonly string[];
  readonly messages: readonly object[];
}

/** Trades of a page, at most. */
export const pageMax = 1000;

/** A time in microseconds as ISO 8601. */
export function isoOf(timeUs: number): string {
  const ms = new Date(Math.floor(timeUs / 1000)).toISOString().slice(0, -1);
  return `${ms}${String(timeUs % 1000).padStart(3, '0')}Z`;
}

/** A whole number in the query: undefined if there is none, NaN if it is not a whole number. */
export function integer(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null || text === '') return undefined;
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

/** A range of ids, and how many of them are wanted. */
export interface IdQuery {
  /** The lowest id, and one above the highest. */
  readonly from: number;
  readonly end: number;
  /** Number that is wanted; a page has at most 1,000. */
  readonly count: number;
}

/** The highest ids of the range, newest first. */
export function newestIds(product: SimulatedProduct, { from, end, count }: IdQuery): number[] {
  const ids: number[] = [];
  const first = Math.max(from, product.firstId);
  for (let id = end - 1; id >= first && ids.length < Math.min(count, pageMax); id -= 1) {
    if (product.has(id)) ids.push(id);
  }
  return ids;
}

/** The ids of products that there are. */
export function known(ids: readonly unknown[], market: Market): readonly string[] {
  return ids.map(String).filter((id) => market.products.has(id));
}
