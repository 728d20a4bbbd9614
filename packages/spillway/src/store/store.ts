import { check, checkInteger, checkNumber, misuse } from '../base/check.ts';

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
  /** 1 to 512 characters of well-formed Unicode without NUL; once in a commit. */
  readonly name: string;
  /** The version it must have for anything to be changed; 0 if it must not exist. @default any */
  readonly ifVersion?: number | undefined;
  /** What it shall hold; undefined removes it. */
  readonly value?: Json | undefined;
  /** For how long, in milliseconds on the store's clock, from 0 to 2^48. @default for good */
  readonly ttlMs?: number | undefined;
  /** Changes nothing: only `ifVersion`, which it then needs, is checked. @default false */
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
  /** Reads all of them, at most 10,000, as of one moment; what is read is the caller's own copy. */
  read(names: readonly string[], signal?: AbortSignal): Promise<StoreReading>;
  /** Makes all changes, 1 to 10,000, or none; undefined when a version is not as it should be. */
  commit(changes: readonly StoreChange[], signal?: AbortSignal): Promise<StoreCommit | undefined>;
  /** All records whose name begins so, at most `max`, by the code points of their names. */
  list(prefix: string, max: number, signal?: AbortSignal): Promise<readonly NamedRecord[]>;
}

export interface NamedRecord extends StoredRecord {
  readonly name: string;
}

const namesMax = 10_000;
const nameLengthMax = 512;
const ttlMsMax = 2 ** 48;

/** Every store refuses the same names; not all databases can hold the others. */
export function checkStoreNames(names: readonly string[]): void {
  check(Array.isArray(names) && names.length <= namesMax, 'names', `at most ${namesMax}`, names);
  for (const name of names) checkName(name);
}

/** Every store refuses the same commits. */
export function checkStoreChanges(changes: readonly StoreChange[]): void {
  const isList = Array.isArray(changes) && changes.length > 0 && changes.length <= namesMax;
  check(isList, 'changes', `an array of 1 to ${namesMax}`, changes);
  const names = new Set<string>();
  for (const { name, ifVersion, ttlMs, checkOnly } of changes) {
    checkName(name);
    check(!names.has(name), 'name', 'there once in a commit', name);
    names.add(name);
    if (ifVersion !== undefined) checkInteger('ifVersion', ifVersion, 0);
    if (ttlMs !== undefined) checkNumber('ttlMs', ttlMs, 0, ttlMsMax);
    if (checkOnly) check(ifVersion !== undefined, 'ifVersion', 'given for a check', ifVersion);
  }
}

function checkName(name: string): void {
  const isText = typeof name === 'string' && name.isWellFormed() && !name.includes('\0');
  const rule = `1 to ${nameLengthMax} characters of well-formed Unicode without NUL`;
  check(isText && name !== '' && name.length <= nameLengthMax, 'name', rule, name);
}

/** The value as JSON; refuses what JSON would silently make something else. */
export function jsonText(value: Json): string {
  try {
    return JSON.stringify(value, (_key, part: unknown) => {
      const isLost =
        (typeof part === 'number' && !Number.isFinite(part)) ||
        typeof part === 'function' ||
        typeof part === 'symbol';
      if (isLost) throw new TypeError(`${String(part)} is not JSON`);
      return part;
    });
  } catch (cause) {
    throw misuse('value', 'JSON', value, cause);
  }
}
