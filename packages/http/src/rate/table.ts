import { hash } from 'node:crypto';
import type { RateState } from 'spillway/internal';
import type { SharedCount } from './shared.ts';

/** The count of one key. */
export interface RateEntry {
  readonly name: string;
  /** Time from which on the entry may be dropped, since it counts nothing any more. */
  freeAt: number;
  /** The count of this instance alone. */
  state: RateState;
  /** The part of this instance in the count of all, if there is a store. */
  shared: SharedCount | undefined;
}

/** Entries of each rule that new keys share while the table is full. */
const cells = 256;
/** Entries that are examined for each new key, to drop expired ones. */
const steps = 8;

/**
 * A bounded table of counts. An entry is not dropped while it counts: otherwise a client with many
 * addresses could reset all counts. Once the table is full, new keys share counts with each other.
 */
export class RateTable {
  readonly #keysMax: number;
  readonly #entries = new Map<string, RateEntry>();
  readonly #shared = new Map<string, RateEntry>();
  #cursor: Iterator<[string, RateEntry]> = this.#entries.entries();

  constructor(keysMax: number) {
    this.#keysMax = keysMax;
  }

  get stats(): { readonly keys: number; readonly shared: number } {
    return { keys: this.#entries.size, shared: this.#shared.size };
  }

  /** The entry for a key of a rule, of which there are few. */
  find(rule: string, key: string, now: number): RateEntry {
    const name = `${rule}|${key}`;
    const known = this.#entries.get(name);
    if (known !== undefined) return known;
    this.#sweep(now);
    if (this.#entries.size < this.#keysMax) return addTo(this.#entries, name);
    const cell = `${rule}~${Number.parseInt(hash('sha256', name).slice(0, 8), 16) % cells}`;
    return this.#shared.get(cell) ?? addTo(this.#shared, cell);
  }

  /** Sweeps the table a few entries at a time, dropping more of them than one call adds. */
  #sweep(now: number): void {
    for (let i = 0; i < steps; i += 1) {
      const { value } = this.#cursor.next();
      if (value === undefined) {
        this.#cursor = this.#entries.entries();
        return;
      }
      if (value[1].freeAt <= now) this.#entries.delete(value[0]);
    }
  }
}

function addTo(entries: Map<string, RateEntry>, name: string): RateEntry {
  const entry = { name, freeAt: 0, state: [], shared: undefined };
  entries.set(name, entry);
  return entry;
}
