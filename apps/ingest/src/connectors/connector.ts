import type { Clock, HarvestSource, Task } from 'spillway';
import { ingestError } from '../errors.ts';
import type { RecordSchema } from '../table/records.ts';
import type { Declaration } from './declaration.ts';
import type { FeedForm } from './feed-form.ts';
import type { TradePage } from './page.ts';

/** A position in a list that is read by a cursor. */
export type Cursor = {
  /** One above the highest id that was read. */
  readonly id: number;
  /** The value to send with the request. */
  readonly since: string;
  /** Ids already read that the next page repeats. @default those below `id` */
  readonly seen?: readonly number[];
  /** Hashes of records already read that the next page may repeat. */
  readonly known?: readonly string[];
  /** The kind of paging (`pages.by`) of a declared source, which gives `since` its meaning. */
  readonly by?: string;
  /** The `typeof` of each field of the key. */
  readonly keyTypes?: Readonly<Record<string, string>>;
};

/** A position in the history of a product: an id, or a cursor. */
export type TradePosition = number | Cursor;

/** Returns the id of the first trade at or after a position. */
export function idOf(position: TradePosition): number {
  return typeof position === 'number' ? position : position.id;
}

/** A part of a history. */
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
   * quantity stay text here; the table makes exact decimals of them.
   */
  readonly select: string;
}

/** The access to one exchange or declared source. */
export interface Connector extends AsyncDisposable {
  /** The name in paths and in the table, such as `coinbase`. */
  readonly name: string;
  /** Address of the API, without a slash at its end. */
  readonly baseUrl: string;
  /** Tells whether anything has answered yet as an API does. */
  readonly isReached: () => boolean;
  /** Address of the records; a history is continued from the same address only. */
  readonly address: string;
  /** Largest number of trades in an answer. */
  readonly pageSize: number;
  /** The rate that the exchange permits for one IP address. */
  readonly rate: {
    readonly ratePerSecond: number;
    /** Requests that may come at once at that rate. @default those of 100 ms */
    readonly burst?: number | undefined;
    /** Largest number of requests of a process in flight. @default found automatically */
    readonly atOnce?: number | undefined;
  };
  /** The position at which each history begins. */
  readonly start: TradePosition;
  /** True if ids have no holes, so that an absent id is a missing trade. */
  readonly hasDenseIds: boolean;
  /** Rules by which DuckDB makes rows of the raw lines. */
  readonly lineSql: LineSql | RecordSchema;
  /** The feed of live trades. @default none */
  readonly feed?: FeedForm | undefined;
  /** All products, sorted. */
  products(signal: AbortSignal): Promise<readonly string[]>;
  /** Finds the newest id; undefined if there is no trade, Infinity if only the last page tells. */
  latest(product: string, signal: AbortSignal): Promise<number | undefined>;
  /** Finds the position of the first trade at that time or later; the end if all are earlier. */
  positionAt(product: string, timeUs: bigint, signal: AbortSignal): Promise<TradePosition>;
  /** Makes the source of a range; its name is `<exchange>/<product>` unless one is given. */
  source(
    product: string,
    range: TradeRange,
    name?: string,
  ): HarvestSource<TradePage, TradePosition>;
}

/** The part of a connector that depends on the kind of paging. */
export type Way = Pick<Connector, 'start' | 'latest' | 'positionAt' | 'source'>;

/** Refuses a position of another kind of paging: it would mean something else. */
export function checkWay({ name, pages }: Declaration, at: TradePosition): void {
  const by = typeof at === 'number' ? 'ids' : at.by;
  if (by === pages.by) return;
  const what = `${name}: its pages were read by ${by}, and pages.by is ${pages.by} now`;
  throw ingestError('SOURCE_INVALID', `${what}; add --full-refresh to begin anew`);
}

export interface ConnectorOptions {
  /** Advice in the error for an address that does not answer. @default 'see --base-url' */
  readonly remedy?: string | undefined;
  /** Requests a second. @default those of the exchange */
  readonly ratePerSecond?: number | undefined;
  /** Address of the API. @default that of the exchange */
  readonly baseUrl?: string | undefined;
  /** Address of the feed of live trades. @default that of the exchange, or below `baseUrl` */
  readonly feedUrl?: string | undefined;
  /** Time for one request, in ms, from 1 to 2^31 - 1. @default 30,000 */
  readonly requestMsMax?: number | undefined;
  /** Time for the first answer of all, in ms, from 1. @default 4,000 */
  readonly firstMsMax?: number | undefined;
  /** Attempts at a first answer, an integer from 1. @default 3 */
  readonly contactsMax?: number | undefined;
  /** True if the process goes on after a failed first contact; later requests have full time. */
  readonly goesOn?: boolean | undefined;
  /** The longest `Retry-After` to wait out, in ms, from 0. @default Infinity */
  readonly pauseMsMax?: number | undefined;
  /** Largest answer, unpacked, in bytes, from 1. @default 64 MiB */
  readonly bytesMax?: number | undefined;
  /**
   * Runs each request outside of a `Harvest` (products, latest, positionAt), to apply the same
   * bucket and breaker to it. @default runs the request alone
   */
  readonly guard?: (<T>(request: Task<T>, signal: AbortSignal) => Promise<T>) | undefined;
  readonly clock?: Clock | undefined;
}
