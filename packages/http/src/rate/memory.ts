import type { Clock } from 'spillway';
import type { NamedRule, RateState } from './rule.ts';
import { type RateEntry, RateTable } from './table.ts';

/** The decision of one rule about one request. */
export interface RateVerdict {
  readonly admitted: boolean;
  /** Requests that would still be admitted now. */
  readonly remaining: number;
  /** Milliseconds until the whole limit is free; after a refusal, until one is admitted. */
  readonly resetMs: number;
}

/** A counter of requests: in memory, or in a store. */
export interface RateSource {
  /** Number of counts, and of those that new keys share because the table is full. */
  readonly stats: { readonly keys: number; readonly shared: number };
  /** Gives the refusal if it is known without asking the store. Charges nothing. */
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
