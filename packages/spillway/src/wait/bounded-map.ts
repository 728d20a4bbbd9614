import { callback, integer, maybe, oneOf, or, settle } from '../base/options.ts';

export interface BoundedMapOptions<K, V> {
  /** The number of entries kept. An integer from 1. */
  readonly countMax: number;
  /** The bytes kept, all entries together. An integer from 1. @default no bound */
  readonly bytesMax?: number | undefined;
  /** The size of one entry in bytes; required with `bytesMax`. Asked once, when it is set. */
  readonly bytesOf?: ((value: V, key: K) => number) | undefined;
  /** The entry that goes first: the one set longest ago, or the one used longest ago. */
  readonly first?: 'oldest' | 'least recently used' | undefined;
  /** Called with each entry that has to go for want of room. */
  readonly onEvict?: ((value: V, key: K) => void) | undefined;
}

/**
 * A Map with a bound by count and by bytes. By default it is an LRU cache; with `first: 'oldest'` a
 * read does not keep an entry. It has no expiry: what can grow old carries its own time.
 */
export class BoundedMap<K, V> {
  readonly #entries = new Map<K, { readonly value: V; readonly bytes: number }>();
  readonly #countMax: number;
  readonly #bytesMax: number;
  readonly #bytesOf: ((value: V, key: K) => number) | undefined;
  readonly #isLru: boolean;
  readonly #onEvict: ((value: V, key: K) => void) | undefined;
  #bytes = 0;

  constructor(options: BoundedMapOptions<K, V>) {
    const settled = settle('BoundedMap', options, {
      countMax: integer(1),
      bytesMax: or(integer(1), Infinity),
      bytesOf: options.bytesMax === undefined ? maybe(callback) : callback,
      first: or(oneOf('oldest', 'least recently used'), 'least recently used'),
      onEvict: maybe(callback),
    });
    this.#countMax = settled.countMax;
    this.#bytesMax = settled.bytesMax;
    this.#bytesOf = settled.bytesOf;
    this.#isLru = settled.first === 'least recently used';
    this.#onEvict = settled.onEvict;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The bytes of all entries together, as far as `bytesOf` says. */
  get bytes(): number {
    return this.#bytes;
  }

  has(key: K): boolean {
    return this.#entries.has(key);
  }

  /** The value; in an LRU cache, its entry is now the last to go. */
  get(key: K): V | undefined {
    const entry = this.#entries.get(key);
    if (entry !== undefined && this.#isLru) {
      this.#entries.delete(key);
      this.#entries.set(key, entry);
    }
    return entry?.value;
  }

  /** The value, without counting as a use. */
  peek(key: K): V | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Sets the entry as the last to go. One that is larger than the whole map is not kept. */
  set(key: K, value: V): void {
    const bytes = this.#bytesOf?.(value, key) ?? 0;
    this.delete(key);
    if (bytes > this.#bytesMax) {
      this.#onEvict?.(value, key);
      return;
    }
    this.#entries.set(key, { value, bytes });
    this.#bytes += bytes;
    for (const [first, entry] of this.#entries) {
      if (this.#entries.size <= this.#countMax && this.#bytes <= this.#bytesMax) return;
      this.delete(first);
      this.#onEvict?.(entry.value, first);
    }
  }

  delete(key: K): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    this.#bytes -= entry.bytes;
    return this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
    this.#bytes = 0;
  }

  keys(): MapIterator<K> {
    return this.#entries.keys();
  }

  /** The entries, the next to go first. */
  *[Symbol.iterator](): Generator<[K, V]> {
    for (const [key, { value }] of this.#entries) yield [key, value];
  }
}
