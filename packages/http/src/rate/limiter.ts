import { type Clock, type Random, type Store, systemClock } from 'spillway';
import {
  callback,
  clockRule,
  integer,
  type MaybeRule,
  maybe,
  number,
  or,
  type Rules,
  settle,
  storeRule,
} from 'spillway/internal';
import { matching } from '../base/rules.ts';
import type { NamedRule } from './rule.ts';
import { SharedRate } from './shared.ts';
import { type RateEntry, RateTable } from './table.ts';

export interface RateLimiterOptions {
  /**
   * Counts that this instance keeps, for all rules together. An integer from 1 to 10,000,000. If
   * more are in use, new keys share 256 counts for each rule. @default 100_000
   */
  readonly keysMax?: number | undefined;
  /** Store in which all instances count together. @default each instance counts alone */
  readonly store?: Store | undefined;
  /** Name that all instances which count together share. 1 to 64 characters. @default 'http' */
  readonly name?: string | undefined;
  /** Time that a call of the store may take, in milliseconds, from 10. @default 1_000 */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/** One count that a request is charged to. */
export interface RateClaim {
  readonly rule: NamedRule;
  readonly key: string;
}

/** The decision of one rule about one request. */
export interface RateVerdict {
  readonly admitted: boolean;
  /** Requests that would still be admitted now. */
  readonly remaining: number;
  /** Milliseconds until the whole limit is free; after a refusal, until one is admitted. */
  readonly resetMs: number;
}

/** The verdict of the rule that refuses, or that has the least left. */
export interface RateDecision extends RateVerdict {
  readonly rule: NamedRule;
}

/** A decision that comes at once where no store has to be asked. */
type Charged = RateDecision | undefined | Promise<RateDecision | undefined>;

/** The rules of the options of a limiter. */
export const limiterRules: Rules<RateLimiterOptions> & {
  readonly store: MaybeRule<Store>;
  readonly deadlineMs: MaybeRule<number>;
  readonly random: MaybeRule<Random>;
} = {
  keysMax: or(integer(1, 10_000_000), 100_000),
  store: maybe(storeRule),
  name: or(matching(/^[\x20-\x7e]{1,64}$/, '1 to 64 characters of ASCII'), 'http' as string),
  deadlineMs: maybe(number(10, Number.MAX_SAFE_INTEGER)),
  clock: or(clockRule, systemClock),
  random: maybe(callback),
};

/** Counts requests against rules, in this process or in a shared store. */
export class RateLimiter {
  readonly #clock: Clock;
  readonly #table: RateTable;
  readonly #shared: SharedRate | undefined;

  constructor(options: RateLimiterOptions = {}) {
    const settings = settle('RateLimiter', options, limiterRules);
    const { keysMax, name, clock, store, deadlineMs, random } = settings;
    this.#clock = clock;
    this.#table = new RateTable(keysMax);
    this.#shared = store && new SharedRate({ store, name, clock, deadlineMs, random }, takeHere);
  }

  get stats(): { readonly keys: number; readonly shared: number } {
    return this.#table.stats;
  }

  /** Charges one request to all of the counts, or to none if one is known to have no room. */
  async take(claims: readonly RateClaim[]): Promise<RateDecision | undefined> {
    return this.charge(claims);
  }

  /** {@link take} with a decision that comes at once where no store has to be asked. */
  charge(claims: readonly RateClaim[]): Charged {
    const now = this.#clock.now();
    if (claims.length > 1) {
      for (const { rule, key } of claims) {
        const entry = this.#table.find(rule.name, key, now);
        const refusal = this.#shared
          ? this.#shared.refusal(entry, now)
          : refusalHere(rule, entry, now);
        if (refusal !== undefined) return { ...refusal, rule };
      }
    }
    return this.#takeFrom(claims, 0, undefined);
  }

  #takeFrom(claims: readonly RateClaim[], at: number, least: RateDecision | undefined): Charged {
    const claim = claims[at];
    if (claim === undefined) return least;
    const { rule, key } = claim;
    const go = (verdict: RateVerdict) => {
      const decision = { ...verdict, rule };
      if (!verdict.admitted) return decision;
      const isLeast = least === undefined || verdict.remaining < least.remaining;
      return this.#takeFrom(claims, at + 1, isLeast ? decision : least);
    };
    const now = this.#clock.now();
    const entry = this.#table.find(rule.name, key, now);
    const verdict = (this.#shared ? this.#shared.take : takeHere)(rule, entry, now);
    return verdict instanceof Promise ? verdict.then(go) : go(verdict);
  }
}

function takeHere(rule: NamedRule, entry: RateEntry, now: number): RateVerdict {
  const refused = refusalHere(rule, entry, now);
  if (refused !== undefined) return refused;
  const { window } = rule;
  entry.state = window.charge(entry.state, 1, now, now);
  entry.freeAt = window.freeAt(entry.state);
  return {
    admitted: true,
    remaining: window.room(entry.state, now),
    resetMs: entry.freeAt - now,
  };
}

function refusalHere({ window }: NamedRule, { state }: RateEntry, now: number) {
  if (window.room(state, now) > 0) return undefined;
  return { admitted: false, remaining: 0, resetMs: window.retryAt(state, now) - now };
}
