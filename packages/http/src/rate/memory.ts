import type { Clock } from 'spillway';
import type { NamedRule, RateState } from './rule.ts';
import { type RateEntry, RateTable } from './table.ts';

/** What one rule says to one request. */
export interface RateVerdict {
  readonly admitted: boolean;
  /** How many more would be admitted now. */
  readonly remaining: number;
  /** In how many milliseconds all is as at first; if it was refused, one will be admitted. */
  readonly resetMs: number;
}

/** Where requests are counted. */
export interface RateSource {
  /** How many counts there are, and how many that newcomers share because the table is full. */
  readonly stats: { readonly keys: number; readonly shared: number };
  /** The refusal, if it is known without asking anybody that there is no room. Charges nothing. */
  refusal(rule: NamedRule, key: string): RateVerdict | undefined;
  /** Charges one request. */
  take(rule: NamedRule, key: string): RateVerdict | Promise<RateVerdict>;
}

interface MemoryEntry extends RateEntry {
  state: RateState;
}

/** Counts within this process. */
export class MemoryRate implements RateSource {
  readonly #clock: Clock;
  readonly #table: RateTable<MemoryEntry>;

  constructor(clock: Clock, keysMax: number) {
    this.#clock = clock;
    this.#table = new RateTable(keysMax, () => ({ freeAt: 0, state: [] }));
  }

  get stats(): { readonly keys: number; readonly shared: number } {
    return this.#table.stats;
  }

  refusal(rule: NamedRule, key: string): RateVerdict | undefined {
    const now = this.#clock.now();
    return refusal(rule, this.#table.find(rule.name, key, now), now);
  }

  take(rule: NamedRule, key: string): RateVerdict {
    const now = this.#clock.now();
    const entry = this.#table.find(rule.name, key, now);
    const refused = refusal(rule, entry, now);
    if (refused !== undefined) return refused;
    const { count } = rule;
    entry.state = count.charge(entry.state, 1, now, now);
    entry.freeAt = count.freeAt(entry.state);
    const remaining = count.room(entry.state, now, now);
    return { admitted: true, remaining, resetMs: entry.freeAt - now };
  }
}

function refusal({ count }: NamedRule, entry: MemoryEntry, now: number): RateVerdict | undefined {
  if (count.room(entry.state, now, now) > 0) return undefined;
  return { admitted: false, remaining: 0, resetMs: count.retryAt(entry.state, now) - now };
}
