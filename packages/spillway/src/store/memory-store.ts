import { type Clock, microtask, systemClock } from '../base/clock.ts';
import { SpillwayError } from '../base/errors.ts';
import { type Json, jsonText } from '../base/json.ts';
import { clockRule, integer, oneOf, or, settle } from '../base/options.ts';
import {
  checkStoreChanges,
  checkStoreList,
  checkStoreNames,
  type Durability,
  type NamedRecord,
  type Store,
  type StoreApplied,
  type StoreCallOptions,
  type StoreChange,
  type StoreCommit,
  type StoreDecision,
  type StoredRecord,
  type StoreListOptions,
  type StoreNews,
  type StoreReading,
  type StoreWatch,
} from './store.ts';
import { Watchers } from './watchers.ts';

export interface MemoryStoreOptions {
  /** Records at most. An integer from 1. @default 1_000_000 */
  readonly recordsMax?: number | undefined;
  /** Characters of names and values at most, as JSON. An integer from 1. @default 268_435_456 */
  readonly charactersMax?: number | undefined;
  /**
   * Behaviour of a commit for which there is no room: `refuse` throws `STORE_FULL`; `forget` first
   * removes records with a `ttlMs`, those that changed longest ago first. @default 'refuse'
   */
  readonly whenFull?: 'refuse' | 'forget' | undefined;
  /** Source of time. @default systemClock */
  readonly clock?: Clock | undefined;
}

export interface MemoryStoreStats {
  readonly kind: 'store';
  /** Records that are held, with those that have expired and are not purged yet. */
  readonly records: number;
  /** Characters of their names and values. */
  readonly characters: number;
  readonly durability: Durability;
}

interface Entry {
  /** The value as JSON, so that a caller that changes its object does not change the record. */
  readonly text: string;
  readonly version: number;
  readonly expiresAt: number | undefined;
}

/** Records that each commit looks at, besides one for each change, to purge the expired ones. */
const purgeLooks = 8;
/** Records that a commit looks at before it is refused because the store is full. */
const purgeLooksFull = 1_000;

/** A store within this process: for a service of one process, and for tests. */
export class MemoryStore implements Store {
  readonly durability = 'none';
  readonly #clock: Clock;
  readonly #recordsMax: number;
  readonly #charactersMax: number;
  readonly #forgets: boolean;
  readonly #entries = new Map<string, Entry>();
  /** Iterates over the entries for ever; entries may be added and removed meanwhile. */
  #purgeCursor: MapIterator<[string, Entry]> | undefined = undefined;
  #characters = 0;
  #version = 0;
  /** Store time, and the clock's time then: only the difference to the next reading counts. */
  #time: number;
  #clockAt: number;
  readonly #watchers = new Watchers();

  constructor(options: MemoryStoreOptions = {}) {
    const { recordsMax, charactersMax, whenFull, clock } = settle('MemoryStore', options, {
      recordsMax: or(integer(1), 1_000_000),
      charactersMax: or(integer(1), 2 ** 28),
      whenFull: or(oneOf('refuse', 'forget'), 'refuse'),
      clock: or(clockRule, systemClock),
    });
    this.#recordsMax = recordsMax;
    this.#charactersMax = charactersMax;
    this.#forgets = whenFull === 'forget';
    this.#clock = clock;
    this.#clockAt = clock.now();
    this.#time = this.#clockAt;
  }

  get stats(): MemoryStoreStats {
    return {
      kind: 'store',
      records: this.#entries.size,
      characters: this.#characters,
      durability: this.durability,
    };
  }

  async read(names: readonly string[], options: StoreCallOptions = {}): Promise<StoreReading> {
    options.signal?.throwIfAborted();
    checkStoreNames(names);
    const now = this.#now();
    return { now, records: names.map((name) => recordOf(this.#get(name, now))) };
  }

  async commit(
    changes: readonly StoreChange[],
    options: StoreCallOptions = {},
  ): Promise<StoreCommit | undefined> {
    options.signal?.throwIfAborted();
    checkStoreChanges(changes);
    const texts = changes.map(({ value }) => (value === undefined ? undefined : jsonText(value)));
    const now = this.#now();
    for (const { name, ifVersion } of changes) {
      const version = this.#get(name, now)?.version ?? 0;
      if (ifVersion !== undefined && version !== ifVersion) return undefined;
    }
    this.#purge(now, purgeLooks + changes.length);
    if (!this.#hasRoom(changes, texts)) this.#purge(now, purgeLooksFull);
    if (this.#forgets) this.#makeRoom(changes, texts);
    if (!this.#hasRoom(changes, texts)) {
      const limits = `${this.#recordsMax} records, ${this.#charactersMax} characters`;
      throw new SpillwayError('STORE_FULL', `the store is full (${limits}); nothing was changed`);
    }
    this.#version += 1;
    const version = this.#version;
    for (const [at, { name, ttlMs, checkOnly, news: text }] of changes.entries()) {
      if (checkOnly) continue;
      this.#delete(name);
      const news = text === undefined ? undefined : { version, text };
      // Watchers are called after the commit is answered, as by a store in another process.
      if (this.#watchers.has(name)) microtask(() => this.#watchers.tell(name, news));
      const json = texts[at];
      if (json === undefined) continue;
      const expiresAt = ttlMs === undefined ? undefined : now + ttlMs;
      this.#entries.set(name, { text: json, version, expiresAt });
      this.#characters += name.length + json.length;
    }
    return { now, version };
  }

  async apply(
    name: string,
    decision: StoreDecision,
    argument: Json,
    options: StoreCallOptions = {},
  ): Promise<StoreApplied> {
    options.signal?.throwIfAborted();
    checkStoreNames([name]);
    const now = this.#now();
    const value = recordOf(this.#get(name, now))?.value;
    const { answer, next } = decision.decide(value, argument, now);
    // Nothing comes between: a commit is made before the call of it returns.
    if (next !== undefined) await this.commit([{ name, ...next }]);
    return { now, answer };
  }

  watch(names: readonly string[], changed: (news?: StoreNews) => void): StoreWatch {
    checkStoreNames(names);
    return { isLive: true, [Symbol.dispose]: this.#watchers.add(names, changed) };
  }

  async list(prefix: string, options: StoreListOptions): Promise<readonly NamedRecord[]> {
    checkStoreList(prefix, options);
    const { max, after, signal } = options;
    signal?.throwIfAborted();
    const now = this.#now();
    const names: string[] = [];
    let last: string | undefined;
    for (const name of this.#entries.keys()) {
      if (!name.startsWith(prefix) || this.#get(name, now) === undefined) continue;
      if (after !== undefined && byCodePoint(name, after) <= 0) continue;
      if (last !== undefined && byCodePoint(name, last) > 0) continue;
      names.push(name);
      // Only the first `max` of what may be a million names are kept and sorted.
      if (names.length < 2 * max) continue;
      names.sort(byCodePoint).splice(max);
      last = names.at(-1);
    }
    const page = names.sort(byCodePoint).slice(0, max);
    return page.map((name) => ({ name, ...(recordOf(this.#get(name, now)) as StoredRecord) }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#entries.clear();
    this.#characters = 0;
  }

  /** A clock that jumps ahead and back again neither turns store time back nor stops it. */
  #now(): number {
    const at = this.#clock.now();
    this.#time += Math.max(0, at - this.#clockAt);
    this.#clockAt = at;
    return this.#time;
  }

  #get(name: string, now: number): Entry | undefined {
    const entry = this.#entries.get(name);
    if (entry?.expiresAt === undefined || entry.expiresAt > now) return entry;
    this.#delete(name);
    return undefined;
  }

  #delete(name: string): void {
    const entry = this.#entries.get(name);
    if (entry === undefined) return;
    this.#entries.delete(name);
    this.#characters -= name.length + entry.text.length;
  }

  /** Looks at the next few records: more than one commit adds, so the expired never pile up. */
  #purge(now: number, looks: number): void {
    for (let left = looks; left > 0; left -= 1) {
      this.#purgeCursor ??= this.#entries.entries();
      const { value, done } = this.#purgeCursor.next();
      if (done) {
        this.#purgeCursor = undefined;
        return;
      }
      this.#get(value[0], now);
    }
  }

  /** Forgets records until there is room, those that changed longest ago first; or else none. */
  #makeRoom(changes: readonly StoreChange[], texts: readonly (string | undefined)[]): void {
    const missing = this.#missing(changes, texts);
    const meant = new Set(changes.map(({ name }) => name));
    const forgotten: string[] = [];
    for (const [name, { expiresAt, text }] of this.#entries) {
      if (missing.records <= 0 && missing.characters <= 0) break;
      if (expiresAt === undefined || meant.has(name)) continue;
      forgotten.push(name);
      missing.records -= 1;
      missing.characters -= name.length + text.length;
    }
    if (missing.records > 0 || missing.characters > 0) return;
    for (const name of forgotten) this.#delete(name);
  }

  #hasRoom(changes: readonly StoreChange[], texts: readonly (string | undefined)[]): boolean {
    const { records, characters } = this.#missing(changes, texts);
    return records <= 0 && characters <= 0;
  }

  /** The room that a commit lacks. One that makes the store no larger always fits. */
  #missing(changes: readonly StoreChange[], texts: readonly (string | undefined)[]) {
    let records = 0;
    let characters = 0;
    for (const [at, { name, checkOnly }] of changes.entries()) {
      if (checkOnly) continue;
      const text = texts[at];
      const before = this.#entries.get(name);
      records += Number(text !== undefined) - Number(before !== undefined);
      if (text !== undefined) characters += name.length + text.length;
      if (before !== undefined) characters -= name.length + before.text.length;
    }
    const recordsLeft = Math.max(0, this.#recordsMax - this.#entries.size);
    const charactersLeft = Math.max(0, this.#charactersMax - this.#characters);
    return { records: records - recordsLeft, characters: characters - charactersLeft };
  }
}

function recordOf(entry: Entry | undefined): StoredRecord | undefined {
  if (entry === undefined) return undefined;
  return { value: JSON.parse(entry.text), version: entry.version, expiresAt: entry.expiresAt };
}

/** Compares by code points, as UTF-8 bytes do. JavaScript's own order is that of UTF-16. */
function byCodePoint(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at += 1) {
    const difference = rankOf(a.charCodeAt(at)) - rankOf(b.charCodeAt(at));
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Ranks surrogates, which stand for the code points from 0x10000 on, behind all other units. */
function rankOf(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}
