import type { SimulatedProduct } from './simulated-product.ts';

/** A request, as far as the exchanges look at it. */
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

/** What the exchange has. */
export interface Market {
  readonly products: ReadonlyMap<string, SimulatedProduct>;
  /** One above the newest id of a product, now. */
  endOf(product: SimulatedProduct): number;
}

/** One exchange's way to answer. */
export interface ExchangeApi {
  /** The path that all of its requests begin with. */
  readonly prefix: string;
  /** The product that a request is about. */
  productOf(request: ExchangeRequest): string | undefined;
  answer(request: ExchangeRequest, market: Market): ExchangeReply;
  /** What it says to one request too many. */
  limited(retryAfterS: number): ExchangeReply;
}

/** An answer in JSON. */
export function json(
  status: number,
  value: unknown,
  headers?: Readonly<Record<string, string>>,
): ExchangeReply {
  return { status, body: Buffer.from(JSON.stringify(value)), headers };
}

/** A whole number in the query: undefined if there is none, NaN if it is written otherwise. */
export function integer(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null || text === '') return undefined;
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

/** The ids of trades below `end` and not below `from`, newest first, at most `count`. */
export function idsBelow(
  product: SimulatedProduct,
  { end, from, count }: { readonly end: number; readonly from: number; readonly count: number },
): number[] {
  const ids: number[] = [];
  for (let id = end - 1; id >= from && ids.length < count; id -= 1) {
    if (product.has(id)) ids.push(id);
  }
  return ids;
}

/** The ids of trades from `from` on and below `end`, oldest first, at most `count`. */
export function idsFrom(
  product: SimulatedProduct,
  { end, from, count }: { readonly end: number; readonly from: number; readonly count: number },
): number[] {
  const ids: number[] = [];
  for (let id = from; id < end && ids.length < count; id += 1) {
    if (product.has(id)) ids.push(id);
  }
  return ids;
}
