import { type Clock, systemClock } from './clock.ts';
import type {
  NamedRecord,
  Store,
  StoreChange,
  StoreCommit,
  StoredRecord,
  StoreReading,
} from './store.ts';

/** A store within this process: for one process, and for tests. */
export class MemoryStore implements Store {
  readonly #clock: Clock;
  readonly #records = new Map<string, StoredRecord>();
  #version = 0;

  constructor(options: { readonly clock?: Clock | undefined } = {}) {
    this.#clock = options.clock ?? systemClock;
  }

  async read(names: readonly string[], signal?: AbortSignal): Promise<StoreReading> {
    signal?.throwIfAborted();
    return { now: this.#clock.now(), records: names.map((name) => this.#get(name)) };
  }

  async commit(
    changes: readonly StoreChange[],
    signal?: AbortSignal,
  ): Promise<StoreCommit | undefined> {
    signal?.throwIfAborted();
    const now = this.#clock.now();
    for (const { name, ifVersion } of changes) {
      if (ifVersion !== undefined && (this.#get(name)?.version ?? 0) !== ifVersion)
        return undefined;
    }
    this.#version += 1;
    for (const { name, value, ttlMs, checkOnly } of changes) {
      if (checkOnly) continue;
      if (value === undefined) {
        this.#records.delete(name);
        continue;
      }
      const expiresAt = ttlMs === undefined ? undefined : now + ttlMs;
      // A copy: what the caller does to its value later is not a change of the record.
      this.#records.set(name, { value: structuredClone(value), version: this.#version, expiresAt });
    }
    return { now, version: this.#version };
  }

  async list(prefix: string, max: number, signal?: AbortSignal): Promise<readonly NamedRecord[]> {
    signal?.throwIfAborted();
    const found: NamedRecord[] = [];
    for (const name of [...this.#records.keys()].sort()) {
      const record = name.startsWith(prefix) ? this.#get(name) : undefined;
      if (record !== undefined && found.length < max) found.push({ name, ...record });
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#records.clear();
  }

  #get(name: string): StoredRecord | undefined {
    const record = this.#records.get(name);
    if (record === undefined) return undefined;
    if (record.expiresAt === undefined || record.expiresAt > this.#clock.now()) return record;
    this.#records.delete(name);
    return undefined;
  }
}
