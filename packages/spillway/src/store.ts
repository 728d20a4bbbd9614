/** What a record may hold: anything that JSON can. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };

/** A record as it was when it was read. */
export interface StoredRecord {
  readonly value: Json;
  /** Grows with every change of any record, so that no version ever comes twice. */
  readonly version: number;
  /** When it ceases to exist, on the store's clock in milliseconds; undefined for never. */
  readonly expiresAt: number | undefined;
}

/** One change of a {@link Store.commit}. */
export interface StoreChange {
  readonly name: string;
  /** The version it must have for anything to be changed; 0 if it must not exist. @default any */
  readonly ifVersion?: number | undefined;
  /** What it shall hold; undefined removes it. */
  readonly value?: Json | undefined;
  /** For how long, in milliseconds from now on the store's clock. @default for good */
  readonly ttlMs?: number | undefined;
  /** Changes nothing: only the version is checked. @default false */
  readonly checkOnly?: boolean | undefined;
}

export interface StoreReading {
  /** The store's time, in milliseconds; the only time that counts for expiry. */
  readonly now: number;
  /** In the order they were asked for; undefined for one that does not exist, or no longer. */
  readonly records: readonly (StoredRecord | undefined)[];
}

export interface StoreCommit {
  /** The store's time when it was done, in milliseconds. */
  readonly now: number;
  /** The version that everything changed got. */
  readonly version: number;
}

/**
 * Atomic read-check-write over named, versioned, optionally expiring records. Many processes may
 * use one store; its clock is the only one that counts.
 */
export interface Store extends AsyncDisposable {
  /** Reads all of them as of one moment. */
  read(names: readonly string[], signal?: AbortSignal): Promise<StoreReading>;
  /** Makes all changes or none; undefined when a version was not as it should be. */
  commit(changes: readonly StoreChange[], signal?: AbortSignal): Promise<StoreCommit | undefined>;
  /** All records whose name begins so, in the order of their names, at most `max`. */
  list(prefix: string, max: number, signal?: AbortSignal): Promise<readonly NamedRecord[]>;
}

export interface NamedRecord extends StoredRecord {
  readonly name: string;
}
