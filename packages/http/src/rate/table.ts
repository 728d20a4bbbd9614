import { hash } from 'node:crypto';

/** What is kept for one key. */
export interface RateEntry {
  /** From when on it may be dropped; until then somebody's count is in it. */
  freeAt: number;
}

/** How many entries those share who find the table full, for each rule. */
const cells = 256;
/** How many entries a newcomer looks at, to find some that may be dropped. */
const steps = 8;

/**
 * A bounded table of counts. None is dropped while it counts: then whoever has many addresses could
 * reset them all. Once it is full, newcomers share counts with other newcomers instead.
 */
export class RateTable<Entry extends RateEntry> {
  readonly #keysMax: number;
  readonly #create: (name: string) => Entry;
  readonly #entries = new Map<string, Entry>();
  readonly #shared = new Map<string, Entry>();
  #hand: Iterator<[string, Entry]>;

  constructor(keysMax: number, create: (name: string) => Entry) {
    this.#keysMax = keysMax;
    this.#create = create;
    this.#hand = this.#entries.entries();
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

  /** Goes round the table a few steps at a time, dropping more than one newcomer can add. */
  #sweep(now: number): void {
    for (let i = 0; i < steps; i += 1) {
      const { value } = this.#hand.next();
      if (value === undefined) {
        this.#hand = this.#entries.entries();
        return;
      }
      if (value[1].freeAt <= now) this.#entries.delete(value[0]);
    }
  }
}
