import { type Clock, type SharedOptions, SpillwayError } from 'spillway';
import { chargeRate, type RateGrant, StoreLink } from 'spillway/internal';
import type { RateVerdict } from './limiter.ts';
import type { NamedRule } from './rule.ts';
import type { RateEntry } from './table.ts';

/** The part of one instance in the count of a key that all instances share. */
export interface SharedCount {
  /** Requests that wait for the store to count them, oldest first. */
  readonly waiters: ((verdict: RateVerdict | Promise<RateVerdict>) => void)[];
  isVisiting: boolean;
  /** Requests that the store has counted already, to be admitted here until `budgetEndsAt`. */
  budget: number;
  budgetEndsAt: number;
  /** Budget to ask for beyond the requests that wait: grows while budgets are used up. */
  ahead: number;
  /** Time before which the store is known to have no room. */
  refusedUntil: number;
  remaining: number;
  /** Time at which the whole limit is free again, as far as this instance knows. */
  fullAt: number;
}

type Take = (rule: NamedRule, entry: RateEntry, now: number) => RateVerdict;

/** Share by which a budget ends early, since two clocks do not run alike. */
const margin = 0.1;

/**
 * Counts in a store, for all instances that share it.
 *
 *     this instance, for one key                the store's count of the key
 *     ──────────────────────────                ────────────────────────────
 *     3 requests wait ──── waiting: 3, ahead: 5 ──> 3 counted now, 5 as if they came later
 *     winners: admitted  <── admitted: 3, budget: 5
 *     requests that came meanwhile, and later ones: admitted on the budget, until it ends
 *     budget used up: the next request waits, and asks for more ahead
 *     no room         <── retryAt: all that wait, and all that come before, are refused here
 *
 * Requests on a budget are counted as if they came when it ends, so that no window ever sees more
 * than the limit, whenever a budget is used. The unused part of a budget is lost.
 */
export class SharedRate {
  readonly #clock: Clock;
  readonly #link: StoreLink;
  readonly #prefix: string;
  readonly #takeHere: Take;
  #downUntil = -Infinity;

  constructor(options: SharedOptions, takeHere: Take) {
    this.#link = new StoreLink(options);
    this.#clock = this.#link.clock;
    this.#prefix = `rate/${options.name}/`;
    this.#takeHere = takeHere;
  }

  /** Gives the refusal if it is known without asking the store. Charges nothing. */
  refusal(entry: RateEntry, now: number): RateVerdict | undefined {
    const count = countOf(entry);
    if (hasBudget(count, now) || now >= count.refusedUntil) return undefined;
    return refused(count.refusedUntil - now);
  }

  readonly take = (
    rule: NamedRule,
    entry: RateEntry,
    now: number,
  ): RateVerdict | Promise<RateVerdict> => {
    const count = countOf(entry);
    if (hasBudget(count, now)) {
      count.budget -= 1;
      return admitted(count, now);
    }
    if (now < count.refusedUntil) return refused(count.refusedUntil - now);
    if (now < this.#downUntil) return this.#withoutStore(rule, entry);
    // As many wait as a window admits: the next ones are refused at once.
    if (count.waiters.length >= rule.rule.limit) return refused(this.#link.deadlineMs);
    const { promise, resolve } = Promise.withResolvers<RateVerdict>();
    count.waiters.push(resolve);
    if (!count.isVisiting) void this.#serve(rule, entry, count);
    return promise;
  };

  /** Visits the store for one key; requests that come meanwhile are counted by the next visit. */
  async #serve(rule: NamedRule, entry: RateEntry, count: SharedCount): Promise<void> {
    count.isVisiting = true;
    entry.freeAt = Infinity;
    try {
      while (count.waiters.length > 0) await this.#visit(rule, entry, count);
    } catch {
      this.#downUntil = this.#clock.now() + this.#link.deadlineMs;
      for (const resolve of count.waiters.splice(0)) resolve(this.#withoutStore(rule, entry));
    } finally {
      count.isVisiting = false;
      entry.freeAt = Math.max(count.fullAt, rule.window.freeAt(entry.state));
    }
  }

  async #visit(rule: NamedRule, entry: RateEntry, count: SharedCount): Promise<void> {
    const isUsedUp = count.budget === 0 && this.#clock.now() < count.budgetEndsAt;
    if (isUsedUp) count.ahead = Math.min(count.ahead * 2 + 1, rule.rule.limit);
    else if (count.budget > 0) count.ahead = Math.floor(count.ahead / 2);
    const { limit, windowMs } = rule.rule;
    const wish = { limit, windowMs, waiting: count.waiters.length, ahead: count.ahead };
    // A count is in slots of its window: with another window it would never end, or not count.
    const name = `${this.#prefix}${windowMs}/${entry.name}`;
    const seen = await this.#link.apply(name, chargeRate, wish);
    const grant = seen.answer as RateGrant;
    // The store answered after `sentAt`, so its times are no earlier than this on our clock.
    const here = (storeMs: number) => seen.sentAt + (storeMs - seen.now);
    count.budget = grant.budget;
    count.budgetEndsAt = seen.sentAt + grant.budgetMs * (1 - margin);
    count.remaining = grant.remaining;
    count.fullAt = here(grant.freeAt) + (seen.receivedAt - seen.sentAt);
    if (grant.remaining + grant.budget === 0) count.refusedUntil = here(grant.retryAt);
    const now = this.#clock.now();
    const winners = count.waiters.splice(0, grant.admitted);
    // Requests that came during the call are admitted on the budget that it brought.
    const late = hasBudget(count, now) ? count.waiters.splice(0, count.budget) : [];
    count.budget -= late.length;
    const losers = now < count.refusedUntil ? count.waiters.splice(0) : [];
    for (const resolve of [...winners, ...late]) resolve(admitted(count, now));
    for (const resolve of losers) resolve(refused(count.refusedUntil - now));
  }

  async #withoutStore(rule: NamedRule, entry: RateEntry): Promise<RateVerdict> {
    const now = this.#clock.now();
    if (rule.rule.whenDown === 'open') return this.#takeHere(rule, entry, now);
    const retryAfterMs = Math.max(1, this.#downUntil - now);
    const message = 'the store of the rate limits does not answer';
    throw new SpillwayError('STORE_UNREACHABLE', message, { retryAfterMs });
  }
}

function countOf(entry: RateEntry): SharedCount {
  entry.shared ??= {
    waiters: [],
    isVisiting: false,
    budget: 0,
    budgetEndsAt: -Infinity,
    ahead: 0,
    refusedUntil: -Infinity,
    remaining: 0,
    fullAt: 0,
  };
  return entry.shared;
}

function hasBudget(count: SharedCount, now: number): boolean {
  return count.budget > 0 && now < count.budgetEndsAt;
}

function admitted(count: SharedCount, now: number): RateVerdict {
  const remaining = count.remaining + count.budget;
  return { admitted: true, remaining, resetMs: Math.max(0, count.fullAt - now) };
}

function refused(resetMs: number): RateVerdict {
  return { admitted: false, remaining: 0, resetMs };
}
