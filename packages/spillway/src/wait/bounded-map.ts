import { checkNumber } from '../base/check.ts';
import { callback, type Filled, integer, oneOf, or, settle } from '../base/options.ts';

export interface BoundedMapOptions<K, V> {
  /** The number of entries kept. An integer from 1. */
  readonly countMax: number;
  /** The bytes kept, all entries together. An integer from 1. @default no bound */
  readonly bytesMax?: number | undefined;
  /** The size of one entry in bytes; required with `bytesMax`. Asked once, when it is set. */
  readonly bytesOf?: ((value: V, key: K) => number) | undefined;
  /** The entry that goes first: the one set longest ago, or the one used longest ago. */
  readonly first?: 'oldest' | 'least recently used' | undefined;
}

/**
 * A Map with a bound by count and by bytes. By default it is an LRU cache; with `first: 'oldest'` a
 * read does not keep an entry. Entries do not expire: store a time in the value if they have to.
 */
export class BoundedMap<K, V> {
  readonly #entries = new Map<K, { readonly value: V; readonly bytes: number }>();
  readonly #options: Filled<BoundedMapOptions<K, V>>;
  #bytes = 0;

  constructor(options: BoundedMapOptions<K, V>) {
    this.#options = settle('BoundedMap', options, {
      countMax: integer(1),
      bytesMax: or(integer(1), Infinity),
      bytesOf: Object(options).bytesMax === undefined ? or(callback, () => 0) : callback,
      first: or(oneOf('oldest', 'least recently used'), 'least recently used'),
    });
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

  /** The value; in an LRU cache its entry is the last to go from now on. */
  get(key: K): V | undefined {
    const entry = this.#entries.get(key);
    if (entry !== undefined && this.#options.first === 'least recently used') {
      this.#entries.delete(key);
      this.#entries.set(key, entry);
    }
    return entry?.value;
  }

  /** Sets the entry as the last to go. One that exceeds `bytesMax` alone is not kept. */
  set(key: K, value: V): void {
    const { countMax, bytesMax, bytesOf } = this.#options;
    const bytes = bytesOf(value, key);
    checkNumber('BoundedMap: bytesOf', bytes, 0);
    this.delete(key);
    if (bytes > bytesMax) return;
    this.#entries.set(key, { value, bytes });
    this.#bytes += bytes;
    for (const first of this.#entries.keys()) {
      if (this.#entries.size <= countMax && this.#bytes <= bytesMax) return;
      this.delete(first);
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
