/** One Parquet file of the table: the trades of one product on one day, by ascending id. */
export interface TableFile {
  /** Its path in the folder. */
  readonly path: string;
  readonly exchange: string;
  readonly product: string;
  /** The day in UTC, as `2026-01-28`. */
  readonly date: string;
  readonly rows: number;
  readonly firstId: number;
  readonly lastId: number;
  /** Microseconds since 1970 in UTC; of the earliest and the latest trade. */
  readonly firstUs: number;
  readonly lastUs: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** How far the ledger of a product is in the table. */
export interface MergedProduct {
  readonly exchange: string;
  readonly product: string;
  readonly generation: number;
  /** The last commit of the ledger that is in the table; 0 for none. */
  readonly mergedTo: number;
  /** Lines read from raw files, repeats included. */
  readonly read: number;
  /** Trades in the table: lines read without repeats. */
  readonly rows: number;
}

/** One state of the table: which files make it up. Whoever has it sees just this state. */
export interface Manifest {
  /** Grows by one with each change; 0 for a table that has never been written. */
  readonly version: number;
  /** The fencing number of the lease under which it was made; never goes back. */
  readonly fence: number;
  /** By exchange, then product. */
  readonly products: readonly MergedProduct[];
  /** By exchange, product, date, then first id. */
  readonly files: readonly TableFile[];
}
