import { check, checkInteger, checkNumber } from '../base/check.ts';
import type { Json } from '../base/json.ts';

/** A record as it was when it was read. */
export interface StoredRecord {
  readonly value: Json;
  /** Grows with every change of any record: no version is ever given twice. */
  readonly version: number;
  /** Expiry of the record, in milliseconds of store time; undefined for never. */
  readonly expiresAt: number | undefined;
}

/** A record with its name, as {@link Store.list} gives it. */
export interface NamedRecord extends StoredRecord {
  readonly name: string;
}

/** One change of a {@link Store.commit}. */
export interface StoreChange {
  /** 1 to 512 characters of well-formed Unicode without NUL; each name once in a commit. */
  readonly name: string;
  /** The version that the record must have, 0 if it must not exist; any version if absent. */
  readonly ifVersion?: number | undefined;
  /** The new value; undefined removes the record. */
  readonly value?: Json | undefined;
  /** Lifetime in milliseconds of store time, from 0 to 2^48; the record stays if absent. */
  readonly ttlMs?: number | undefined;
  /** Only checks `ifVersion`, which it then needs, and changes nothing. @default false */
  readonly checkOnly?: boolean | undefined;
  /** Text for the watchers of the name, at most 7,000 bytes; a store may leave it out. */
  readonly news?: string | undefined;
}

/** The `news` of a change, and the version of the commit that made it. */
export interface StoreNews {
  readonly version: number;
  readonly text: string;
}

/** The answer to {@link Store.read}. */
export interface StoreReading {
  /** Store time in milliseconds; the only time that counts for expiry. */
  readonly now: number;
  /** One for each name asked for, in that order; undefined if the record does not exist. */
  readonly records: readonly (StoredRecord | undefined)[];
}

/** The answer to a {@link Store.commit} that was made. */
export interface StoreCommit {
  /** Store time of the commit, in milliseconds. */
  readonly now: number;
  /** The version of all records that the commit changed. */
  readonly version: number;
}

/** A decision about one record, for {@link Store.apply}. */
export interface StoreDecision {
  /** The name by which a store knows this decision, if it has a version of its own. */
  readonly name: string;
  /** The reference: a store's own version gives the same answers. It does not change its value. */
  decide(value: Json | undefined, argument: Json, now: number): Decided;
}

/** The outcome of a {@link StoreDecision}. */
export interface Decided {
  readonly answer: Json;
  /** The new value of the record and its lifetime in milliseconds; absent if it stays as it is. */
  readonly next?: { readonly value: Json; readonly ttlMs?: number | undefined } | undefined;
}

/** The answer to a {@link Store.apply} that was made. */
export interface StoreApplied {
  /** Store time of the decision, in milliseconds. */
  readonly now: number;
  readonly answer: Json;
}

/** Options of every call of a {@link Store}. */
export interface StoreCallOptions {
  /** Ends the waiting; a commit that was under way may be done all the same. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of {@link Store.commit}. */
export interface StoreCommitOptions extends StoreCallOptions {
  /**
   * `'none'` if a crash of the server may undo the commit, as for news that is soon outdated. A
   * store may then acknowledge it sooner.
   * @default the durability of the store
   */
  readonly durability?: 'none' | undefined;
}

/** Options of {@link Store.list}. */
export interface StoreListOptions extends StoreCallOptions {
  /** The most records to give. An integer from 1 to 10,000. */
  readonly max: number;
  /** A name: only records behind it are given. Pass the last name of a page to get the next one. */
  readonly after?: string | undefined;
}

/**
 * The loss that an acknowledged commit survives: `none` it is gone with the process that holds the
 * records, `process` it survives the end of that process, `disk` also a power failure, `replicas`
 * also the loss of the machine, as far as the engine promises it.
 */
export type Durability = 'none' | 'process' | 'disk' | 'replicas';

/**
 * Atomic read-check-write over named, versioned, optionally expiring records. Many processes may
 * use one store, and only its clock counts. Values that JSON would change are refused.
 */
export interface Store extends AsyncDisposable {
  /** The loss that an acknowledged commit survives; undefined if the store does not tell. */
  readonly durability?: Durability | undefined;
  /** Reads up to 10,000 records as of one moment; the values are the caller's own copies. */
  read(names: readonly string[], options?: StoreCallOptions): Promise<StoreReading>;
  /** Makes all of 1 to 10,000 changes or none; undefined if a version was another one. */
  commit(
    changes: readonly StoreChange[],
    options?: StoreCommitOptions,
  ): Promise<StoreCommit | undefined>;
  /**
   * Makes a decision inside the store: one trip, and no conflict with other processes. Undefined if
   * the store does not know the decision; stores that know none leave the method out. Callers then
   * decide between a read and a commit. Watchers may not be called.
   */
  apply?(
    name: string,
    decision: StoreDecision,
    argument: Json,
    options?: StoreCallOptions,
  ): Promise<StoreApplied> | undefined;
  /**
   * Calls back soon after a commit has changed one of the names, in any process; a call may also
   * come for nothing. Stores that cannot do that leave it out: then changes are found by reading.
   */
  watch?(names: readonly string[], changed: (news?: StoreNews) => void): StoreWatch;
  /** Lists the records whose names begin with the prefix, ordered by the code points of names. */
  list(prefix: string, options: StoreListOptions): Promise<readonly NamedRecord[]>;
}

/** A subscription made by {@link Store.watch}; disposing it ends the calls. */
export interface StoreWatch extends Disposable {
  /** False while changes may go unnoticed, as when a connection is lost. */
  readonly isLive: boolean;
}

const namesMax = 10_000;
const nameLengthMax = 512;
const ttlMsMax = 2 ** 48;
/** Postgres takes 7,999 bytes in a notification, with the version. */
const newsBytesMax = 7_000;

/** Refuses names that not every store can hold. */
export function checkStoreNames(names: readonly string[]): void {
  check(Array.isArray(names) && names.length <= namesMax, 'names', `at most ${namesMax}`, names);
  names.forEach(checkName);
}

/** Refuses the arguments of {@link Store.list} that not every store can answer. */
export function checkStoreList(prefix: string, options: StoreListOptions): void {
  const isOptions = typeof options === 'object' && options !== null;
  check(isOptions, 'options', 'an object with `max`', options);
  const { max, after } = options;
  if (prefix !== '') checkName(prefix);
  checkInteger('max', max, 1, namesMax);
  if (after !== undefined) checkName(after);
}

/** Refuses commits that are meaningless, or that not every store can make. */
export function checkStoreChanges(changes: readonly StoreChange[]): void {
  const isList = Array.isArray(changes) && changes.length > 0 && changes.length <= namesMax;
  check(isList, 'changes', `an array of 1 to ${namesMax}`, changes);
  const names = new Set<string>();
  for (const { name, ifVersion, ttlMs, checkOnly, news } of changes) {
    checkName(name);
    check(!names.has(name), 'name', 'there once in a commit', name);
    names.add(name);
    if (ifVersion !== undefined) checkInteger('ifVersion', ifVersion, 0);
    if (ttlMs !== undefined) checkNumber('ttlMs', ttlMs, 0, ttlMsMax);
    if (checkOnly) check(ifVersion !== undefined, 'ifVersion', 'given for a check', ifVersion);
    if (news === undefined) continue;
    const isShort = isText(news) && Buffer.byteLength(news) <= newsBytesMax;
    check(isShort, 'news', `at most ${newsBytesMax} bytes of Unicode without NUL`, news);
  }
}

function checkName(name: string): void {
  const rule = `1 to ${nameLengthMax} characters of well-formed Unicode without NUL`;
  check(isText(name) && name !== '' && name.length <= nameLengthMax, 'name', rule, name);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.isWellFormed() && !value.includes('\0');
}
