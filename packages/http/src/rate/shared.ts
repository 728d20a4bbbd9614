import { type Clock, type SharedOptions, SpillwayError } from 'spillway';
import { StoreLink } from 'spillway/internal';
import { MemoryRate, type RateSource, type RateVerdict } from './memory.ts';
import type { NamedRule, RateState } from './rule.ts';
import { type RateEntry, RateTable } from './table.ts';

interface Waiter {
  readonly resolve: (verdict: RateVerdict | Promise<RateVerdict>) => void;
  readonly key: string;
}

interface SharedEntry extends RateEntry {
  readonly record: string;
  /** Requests that wait for the store to count them, oldest first. */
  readonly waiters: Waiter[];
  isVisiting: boolean;
  /** Requests that the store has counted already, to be admitted here until `budgetEndsAt`. */
  budget: number;
  budgetEndsAt: number;
  /** Requests to budget beyond those that wait: grows while budgets are used up. */
  ahead: number;
  /** Time before which the store is known to have no room. */
  refusedUntil: number;
  remaining: number;
  /** Time at which the whole limit is free again, as far as this instance knows. */
  fullAt: number;
}

/** Result of one call of the store; times are the store's. */
interface Grant {
  readonly admitted: number;
  readonly budget: number;
  readonly budgetMs: number;
  readonly remaining: number;
  readonly retryAt: number;
  readonly freeAt: number;
}

/** Largest share of the room that one instance budgets, so that others find some too. */
const aheadShare = 1 / 32;
/** Share by which a budget ends early, since two clocks do not run alike. */
const margin = 0.1;
const budgetMsMax = 1_000;

/**
 * Counts in a store, for all instances that share it. Requests that wait are counted at the store's
 * time; requests admitted on a budget are counted as if they came when it ends, so that no window
 * ever sees more than the limit, whenever a budget is used. The unused part of a budget is lost.
 */
export class SharedRate implements RateSource {
  readonly #clock: Clock;
  readonly #link: StoreLink;
  readonly #table: RateTable<SharedEntry>;
  /** Counts of the `open` rules while the store does not answer. */
  readonly #alone: MemoryRate;
  #downUntil = -Infinity;

  constructor(options: SharedOptions, keysMax: number) {
    this.#link = new StoreLink(options);
    this.#clock = this.#link.clock;
    this.#alone = new MemoryRate(this.#clock, keysMax);
    this.#table = new RateTable(keysMax, (name) => ({
      freeAt: 0,
      record: `rate/${options.name}/${name}`,
      waiters: [],
      isVisiting: false,
      budget: 0,
      budgetEndsAt: -Infinity,
      ahead: 0,
      refusedUntil: -Infinity,
      remaining: 0,
      fullAt: 0,
    }));
  }

  get stats(): { readonly keys: number; readonly shared: number } {
    return this.#table.stats;
  }

  refusal(rule: NamedRule, key: string): RateVerdict | undefined {
    const now = this.#clock.now();
    const entry = this.#table.find(rule.name, key, now);
    if (this.#hasBudget(entry, now) || now >= entry.refusedUntil) return undefined;
    return refused(entry.refusedUntil - now);
  }

  take(rule: NamedRule, key: string): RateVerdict | Promise<RateVerdict> {
    const now = this.#clock.now();
    const entry = this.#table.find(rule.name, key, now);
    if (this.#hasBudget(entry, now)) {
      entry.budget -= 1;
      return admitted(entry, now);
    }
    if (now < entry.refusedUntil) return refused(entry.refusedUntil - now);
    if (now < this.#downUntil) return this.#withoutStore(rule, key);
    // No more than these can be let through in a window, so that more need not wait to hear it.
    if (entry.waiters.length >= rule.rule.limit) return refused(this.#link.deadlineMs);
    const { promise, resolve } = Promise.withResolvers<RateVerdict>();
    entry.waiters.push({ resolve, key });
    if (!entry.isVisiting) void this.#serve(rule, entry);
    return promise;
  }

  #hasBudget(entry: SharedEntry, now: number): boolean {
    return entry.budget > 0 && now < entry.budgetEndsAt;
  }

  /** One visit at a time for each key; whoever comes meanwhile is counted by the next. */
  async #serve(rule: NamedRule, entry: SharedEntry): Promise<void> {
    entry.isVisiting = true;
    entry.freeAt = Infinity;
    try {
      while (entry.waiters.length > 0) await this.#visit(rule, entry);
    } catch {
      this.#downUntil = this.#clock.now() + this.#link.deadlineMs;
      const waiters = entry.waiters.splice(0);
      for (const { resolve, key } of waiters) resolve(this.#withoutStore(rule, key));
    } finally {
      entry.isVisiting = false;
      entry.freeAt = entry.fullAt;
    }
  }

  async #visit(rule: NamedRule, entry: SharedEntry): Promise<void> {
    const isUsedUp = entry.budget === 0 && this.#clock.now() < entry.budgetEndsAt;
    if (isUsedUp) entry.ahead = Math.min(entry.ahead * 2 + 1, rule.rule.limit);
    else if (entry.budget > 0) entry.ahead = Math.floor(entry.ahead / 2);
    const { value: grant, seen } = await this.#link.update([entry.record], (sighting) => {
      const [record] = sighting.records;
      const state = (record?.value ?? []) as RateState;
      const { grant: value, next } = decide(rule, entry, state, sighting.now);
      if (value.admitted === 0) return { value };
      const ttlMs = Math.max(1, value.freeAt - sighting.now);
      const change = { name: entry.record, value: next, ifVersion: record?.version ?? 0, ttlMs };
      return { value, changes: [change] };
    });
    // The store was asked after `sentAt`, so its moments do not come earlier here than this.
    const here = (storeMs: number) => seen.sentAt + (storeMs - seen.now);
    entry.budget = grant.budget;
    entry.budgetEndsAt = seen.sentAt + grant.budgetMs * (1 - margin);
    entry.remaining = grant.remaining;
    entry.fullAt = here(grant.freeAt) + (seen.receivedAt - seen.sentAt);
    if (grant.remaining + grant.budget === 0) entry.refusedUntil = here(grant.retryAt);
    const now = this.#clock.now();
    const winners = entry.waiters.splice(0, grant.admitted);
    // Requests that came during the call are admitted on the budget that it brought.
    const late = this.#hasBudget(entry, now) ? entry.waiters.splice(0, entry.budget) : [];
    entry.budget -= late.length;
    const losers = now < entry.refusedUntil ? entry.waiters.splice(0) : [];
    for (const { resolve } of [...winners, ...late]) resolve(admitted(entry, now));
    for (const { resolve } of losers) resolve(refused(entry.refusedUntil - now));
  }

  async #withoutStore(rule: NamedRule, key: string): Promise<RateVerdict> {
    if (rule.rule.whenDown === 'open') return this.#alone.take(rule, key);
    throw new SpillwayError('STORE_UNREACHABLE', 'the store of the rate limits does not answer', {
      retryAfterMs: Math.max(1, this.#downUntil - this.#clock.now()),
    });
  }
}

function admitted(entry: SharedEntry, now: number): RateVerdict {
  const remaining = entry.remaining + entry.budget;
  return { admitted: true, remaining, resetMs: Math.max(0, entry.fullAt - now) };
}

function refused(resetMs: number): RateVerdict {
  return { admitted: false, remaining: 0, resetMs };
}

/** Decides how many requests this instance gets, given the count of all instances. */
function decide(
  { rule, count }: NamedRule,
  entry: SharedEntry,
  state: RateState,
  now: number,
): { readonly grant: Grant; readonly next: RateState } {
  const budgetMs = Math.min(budgetMsMax, rule.windowMs / 10);
  const room = count.room(state, now, now);
  const admitted = Math.min(room, entry.waiters.length);
  let next = admitted > 0 ? count.charge(state, admitted, now, now) : state;
  const until = now + budgetMs;
  const budget = Math.min(
    entry.ahead,
    Math.floor((room - admitted) * aheadShare),
    count.room(next, now, until),
  );
  if (budget > 0) next = count.charge(next, budget, now, until);
  const remaining = count.room(next, now, now);
  const grant = { admitted, budget, budgetMs, remaining, retryAt: count.retryAt(next, now) };
  return { grant: { ...grant, freeAt: count.freeAt(next) }, next };
}
