import { hash } from 'node:crypto';

/** The count of one key. */
export interface RateEntry {
  /** Time from which on the entry may be dropped, since it counts nothing any more. */
  freeAt: number;
}

/** Entries of each rule that new keys share while the table is full. */
const cells = 256;
/** Entries that each new key examines, to drop those that are over. */
const steps = 8;

/**
 * A bounded table of counts. An entry is not dropped while it counts: otherwise a client with many
 * addresses could reset all counts. Once the table is full, new keys share counts with each other.
 */
export class RateTable<Entry extends RateEntry> {
  readonly #keysMax: number;
  readonly #create: (name: string) => Entry;
  readonly #entries = new Map<string, Entry>();
  readonly #shared = new Map<string, Entry>();
  #cursor: Iterator<[string, Entry]>;

  constructor(keysMax: number, create: (name: string) => Entry) {
    this.#keysMax = keysMax;
    this.#create = create;
    this.#cursor = this.#entries.entries();
  }

  get stats(): { readonly keys: number; readonly shared: number } {
    return { keys: this.#entries.size, shared: this.#shared.size };
  }

  /** The entry for a key of a rule, of which there are few. */
  find(rule: string, key: string, now: number): Entry {
    const name = `${rule}|${key}`;
    const known = this.#entries.get(name);
    if (known !== undefined) return known;
    this.#sweep(now);
    if (this.#entries.size < this.#keysMax) return this.#add(this.#entries, name);
    const cell = `${rule}~${Number.parseInt(hash('sha256', name).slice(0, 8), 16) % cells}`;
    return this.#shared.get(cell) ?? this.#add(this.#shared, cell);
  }

  #add(entries: Map<string, Entry>, name: string): Entry {
    const entry = this.#create(name);
    entries.set(name, entry);
    return entry;
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
