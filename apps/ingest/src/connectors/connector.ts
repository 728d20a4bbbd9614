import type { Clock, HarvestSource, Task } from 'spillway';
import { ingestError } from '../errors.ts';
import type { RecordSchema } from '../table/records.ts';
import type { Declaration } from './declaration.ts';
import type { FeedForm } from './feed-form.ts';
import type { TradePage } from './page.ts';

/** Position in an exchange that is read by a cursor. */
export type Cursor = {
  /** One above the highest id that was read. */
  readonly id: number;
  /** Value with which the exchange is asked. */
  readonly since: string;
  /** Ids that were read and come again; without it, those below `id`. */
  readonly seen?: readonly number[];
  /** Hashes of records that were read and come again. */
  readonly known?: readonly string[];
  /** The way to page of a declared source: `since` means nothing to another one. */
  readonly by?: string;
  /** Types of the fields of the key, as `typeof` tells them. */
  readonly keyTypes?: Readonly<Record<string, string>>;
};

/** A place in the history of a product: an id, or a cursor. */
export type TradePosition = number | Cursor;

/** The id of the first trade at or after a position. */
export function idOf(position: TradePosition): number {
  return typeof position === 'number' ? position : position.id;
}

/** The part of a history that is wanted. */
export interface TradeRange {
  /** Beginning of the range. @default the connector's `start` */
  readonly from?: TradePosition | undefined;
  /** One above the last id. */
  readonly to: number;
}

/** SQL by which DuckDB reads the lines of a {@link TradePage}. */
export interface LineSql {
  /** Options of `read_json` besides the files: `format`, `records` and `columns`. */
  readonly options: string;
  /**
   * The select list: trade_id, trade_ts, price, quantity, maker_side, taker_side. Price and
   * quantity are the text that the exchange wrote: the table makes exact decimals of it.
   */
  readonly select: string;
}

/** One exchange: its questions and its answers. */
export interface Connector extends AsyncDisposable {
  /** Part of file names and of the table: `coinbase`. */
  readonly name: string;
  /** Address of the API, without a slash at its end. */
  readonly baseUrl: string;
  /** True from the first answer on that an API would give. */
  readonly isReached: () => boolean;
  /** Address of its records: a history is continued from the same one only. */
  readonly address: string;
  /** Trades in one answer, at most. */
  readonly pageSize: number;
  /** Rate that the exchange permits to all who ask it from one address. */
  readonly rate: {
    readonly ratePerSecond: number;
    /** Requests that may come at once, at that rate. @default what it gives in 100 ms */
    readonly burst?: number | undefined;
    /** Requests of a process in flight, at most. @default as many as it takes */
    readonly atOnce?: number | undefined;
  };
  /** Position at which the history of each product begins. */
  readonly start: TradePosition;
  /** Ids grow by one, so that an id that is not there is a trade that is missing. */
  readonly hasDenseIds: boolean;
  /** Rules that make rows of its raw lines. */
  readonly lineSql: LineSql | RecordSchema;
  /** The feed of live trades. @default none */
  readonly feed?: FeedForm | undefined;
  /** All products, sorted. */
  products(signal: AbortSignal): Promise<readonly string[]>;
  /** The newest id; undefined when there is no trade yet, Infinity when only the end tells. */
  latest(product: string, signal: AbortSignal): Promise<number | undefined>;
  /** Finds the first trade at that time or later; the end if all are earlier. */
  positionAt(product: string, timeUs: bigint, signal: AbortSignal): Promise<TradePosition>;
  /** The trades of that range; its name is `<exchange>/<product>` unless another is given. */
  source(
    product: string,
    range: TradeRange,
    name?: string,
  ): HarvestSource<TradePage, TradePosition>;
}

/** The part of a connector that depends on how pages are asked for. */
export type Way = Pick<Connector, 'start' | 'latest' | 'positionAt' | 'source'>;

/** Refuses a position of another way to page: it would mean something else. */
export function checkWay({ name, pages }: Declaration, at: TradePosition): void {
  const by = typeof at === 'number' ? 'ids' : at.by;
  if (by === pages.by) return;
  const what = `${name}: its pages were read by ${by}, and pages.by is ${pages.by} now`;
  throw ingestError('SOURCE_INVALID', `${what}; add --full-refresh to begin anew`);
}

export interface ConnectorOptions {
  /** Advice in the error for an address where nothing answers. @default to look at the address */
  readonly remedy?: string | undefined;
  /** Requests a second that are set. @default those of the exchange */
  readonly ratePerSecond?: number | undefined;
  /** Address of the API. @default that of the exchange */
  readonly baseUrl?: string | undefined;
  /** Address of the feed of live trades. @default that of the exchange, or below `baseUrl` */
  readonly feedUrl?: string | undefined;
  /** Time that one request may take in all, in ms, from 1 to 2^31 - 1. @default 30,000 */
  readonly requestMsMax?: number | undefined;
  /** Time until anything has answered for the first time, in ms, from 1. @default 4,000 */
  readonly firstMsMax?: number | undefined;
  /** Attempts at a first answer, an integer from 1. @default 3 */
  readonly contactsMax?: number | undefined;
  /** The process goes on after a first contact that failed: later requests have all their time. */
  readonly goesOn?: boolean | undefined;
  /** The longest `Retry-After` that is a matter of waiting, in ms, from 0. @default Infinity */
  readonly pauseMsMax?: number | undefined;
  /** Length of an answer at most, unpacked, in bytes, from 1. @default 64 MiB */
  readonly bytesMax?: number | undefined;
  /**
   * Runs each request that no `Harvest` runs (products, latest, positionAt): the place for the same
   * bucket and breaker. @default nothing but the request
   */
  readonly guard?: (<T>(request: Task<T>, signal: AbortSignal) => Promise<T>) | undefined;
  readonly clock?: Clock | undefined;
}
