import { checkInteger } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import {
  checkStoreChanges,
  checkStoreNames,
  jsonText,
  type NamedRecord,
  type Store,
  type StoreChange,
  type StoreCommit,
  type StoredRecord,
  type StoreReading,
} from './store.ts';

interface Entry {
  /** As text: neither the writer's object nor a reader's can change the record. */
  readonly text: string;
  readonly version: number;
  readonly expiresAt: number | undefined;
}

/** A store within this process: for one process, and for tests. */
export class MemoryStore implements Store {
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();
  #version = 0;

  constructor(options: { readonly clock?: Clock | undefined } = {}) {
    this.#clock = options.clock ?? systemClock;
  }

  async read(names: readonly string[], signal?: AbortSignal): Promise<StoreReading> {
    signal?.throwIfAborted();
    checkStoreNames(names);
    const now = this.#clock.now();
    const records = names.map((name) => {
      const entry = this.#get(name, now);
      return entry === undefined ? undefined : toRecord(entry);
    });
    return { now, records };
  }

  async commit(
    changes: readonly StoreChange[],
    signal?: AbortSignal,
  ): Promise<StoreCommit | undefined> {
    signal?.throwIfAborted();
    checkStoreChanges(changes);
    const texts = changes.map(({ value }) => (value === undefined ? undefined : jsonText(value)));
    const now = this.#clock.now();
    for (const { name, ifVersion } of changes) {
      if (ifVersion !== undefined && (this.#get(name, now)?.version ?? 0) !== ifVersion)
        return undefined;
    }
    this.#version += 1;
    for (const [at, { name, ttlMs, checkOnly }] of changes.entries()) {
      if (checkOnly) continue;
      const text = texts[at];
      const expiresAt = ttlMs === undefined ? undefined : now + ttlMs;
      if (text === undefined) this.#entries.delete(name);
      else this.#entries.set(name, { text, version: this.#version, expiresAt });
    }
    return { now, version: this.#version };
  }

  async list(prefix: string, max: number, signal?: AbortSignal): Promise<readonly NamedRecord[]> {
    signal?.throwIfAborted();
    if (prefix !== '') checkStoreNames([prefix]);
    checkInteger('max', max, 1, 10_000);
    const now = this.#clock.now();
    const names = [...this.#entries.keys()].filter((name) => name.startsWith(prefix));
    const found: NamedRecord[] = [];
    for (const name of names.sort(byCodePoint)) {
      const entry = found.length < max ? this.#get(name, now) : undefined;
      if (entry !== undefined) found.push({ name, ...toRecord(entry) });
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#entries.clear();
  }

  #get(name: string, now: number): Entry | undefined {
    const entry = this.#entries.get(name);
    if (entry?.expiresAt === undefined || entry.expiresAt > now) return entry;
    this.#entries.delete(name);
    return undefined;
  }
}

function toRecord({ text, version, expiresAt }: Entry): StoredRecord {
  return { value: JSON.parse(text), version, expiresAt };
}

/** The order of UTF-8 bytes; that of JavaScript differs beyond the first 65,536 characters. */
function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
