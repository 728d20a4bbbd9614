import type { Folder } from './folder.ts';
import type { Manifest } from './manifest.ts';
import type { RawEntry } from './raw-file.ts';

/** How raw lines of one exchange become rows: SQL that its connector gives. */
export interface LineMapping {
  /** Arguments of `read_json` after the file list: `columns = {…}` at least. */
  readonly read: string;
  /** Gives trade_id, trade_ts, price, quantity, maker_side, taker_side, with these names. */
  readonly select: string;
}

export interface TradeTableOptions {
  readonly folder: Folder;
  /** By exchange. */
  readonly mappings: Readonly<Record<string, LineMapping>>;
  /** How much DuckDB may hold in memory before it uses the disk, in MB; from 64, default 160. */
  readonly memoryMb?: number | undefined;
  /** How many threads DuckDB may use; from 1, default 2. */
  readonly threads?: number | undefined;
  /** How many manifests are kept for readers of older states; from 1, default 10. */
  readonly manifestsMax?: number | undefined;
}

/** The lease under which the table is changed: a `Lease` is one. */
export interface TableFence {
  readonly fence: number;
  readonly signal: AbortSignal;
}

export interface Merged {
  /** The version after it; the one before when there was nothing to do. */
  readonly version: number;
  /** Raw files that were new. */
  readonly files: number;
  /** Lines read from them. */
  readonly read: number;
  /** Trades that the table did not have before. */
  readonly added: number;
  /** Partitions that were written. */
  readonly partitions: number;
}

export interface QueryOptions {
  /** Rows after which the rest is left out; from 1, default 10,000. */
  readonly rowsMax?: number | undefined;
  /** The version to look at, of those that are kept. @default the newest */
  readonly version?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What a query gave: whole numbers beyond 2^53 and all decimals are text, to the last digit. */
export interface QueryResult {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  /** There were more rows than `rowsMax`. */
  readonly cut: boolean;
}

/** The curated trades: Parquet files by exchange, product and day, and one manifest of them. */
export interface TradeTableSurface extends AsyncDisposable {
  /** The newest state, as it was last read or written. */
  readonly manifest: Manifest;
  /** Looks for a newer state that another process made. */
  refresh(signal?: AbortSignal): Promise<Manifest>;
  /** Adds what the table has not yet; entries that it has are passed over. One atomic change. */
  merge(entries: readonly RawEntry[], fence: TableFence): Promise<Merged>;
  /** Makes the products that these entries are of anew, from these entries alone. */
  rebuild(entries: readonly RawEntry[], fence: TableFence): Promise<Merged>;
  /** Joins small files of a day; the number of files that are gone. */
  compact(fence: TableFence): Promise<number>;
  /** Reads the view `trades`; refuses what would write, or reach anything else. */
  query(sql: string, options?: QueryOptions): Promise<QueryResult>;
}
