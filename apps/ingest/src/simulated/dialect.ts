import type { SimulatedProduct } from './product.ts';

/** The parts of a request that exchanges use. */
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
  /** Returns one above the newest id of a product. */
  endOf(product: SimulatedProduct): number;
}

/** The API of one exchange. */
export interface Dialect {
  /** Beginning of the path of all its requests. */
  readonly prefix: string;
  answer(request: ExchangeRequest, market: Market): ExchangeReply;
  /** Makes the refusal of a request above the rate. */
  limited(retryAfterS: number): ExchangeReply;
  readonly feed: FeedDialect;
}

/** Makes an answer in JSON. */
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
  /** Reads a request; returns its symbols, and the answer. */
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

/** Largest number of trades in a page. */
export const pageMax = 1000;

/** Formats a time in microseconds as ISO 8601. */
export function isoOf(timeUs: number): string {
  const ms = new Date(Math.floor(timeUs / 1000)).toISOString().slice(0, -1);
  return `${ms}${String(timeUs % 1000).padStart(3, '0')}Z`;
}

/** Reads a whole number of the query: undefined if absent, NaN if it is none. */
export function integer(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null || text === '') return undefined;
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

/** A range of ids, and the number of ids to return. */
export interface IdQuery {
  /** The lowest id, and one above the highest. */
  readonly from: number;
  readonly end: number;
  /** Number of ids, at most {@link pageMax}. */
  readonly count: number;
}

/** Returns the highest ids of a range, newest first. */
export function newestIds(product: SimulatedProduct, { from, end, count }: IdQuery): number[] {
  const ids: number[] = [];
  const first = Math.max(from, product.firstId);
  for (let id = end - 1; id >= first && ids.length < Math.min(count, pageMax); id -= 1) {
    if (product.has(id)) ids.push(id);
  }
  return ids;
}

/** Returns those ids that are ids of products. */
export function known(ids: readonly unknown[], market: Market): readonly string[] {
  return ids.map(String).filter((id) => market.products.has(id));
}
