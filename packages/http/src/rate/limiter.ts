import { type Clock, type Random, type Store, systemClock } from 'spillway';
import { check, checkInteger } from 'spillway/internal';
import { MemoryRate, type RateSource, type RateVerdict } from './memory.ts';
import type { NamedRule } from './rule.ts';
import { SharedRate } from './shared.ts';

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

/** The verdict of the rule that refuses, or that has the least left. */
export interface RateDecision extends RateVerdict {
  readonly rule: NamedRule;
}

/** Counts requests against rules, in this process or in a shared store. */
export class RateLimiter {
  readonly #source: RateSource;

  constructor(options: RateLimiterOptions = {}) {
    const { keysMax = 100_000, name = 'http', clock = systemClock, store } = options;
    checkInteger('keysMax', keysMax, 1, 10_000_000);
    check(/^[\x20-\x7e]{1,64}$/.test(name), 'name', '1 to 64 characters of ASCII', name);
    const { deadlineMs, random } = options;
    this.#source =
      store === undefined
        ? new MemoryRate(clock, keysMax)
        : new SharedRate({ store, name, clock, deadlineMs, random }, keysMax);
  }

  get stats(): { readonly keys: number; readonly shared: number } {
    return this.#source.stats;
  }

  /** Charges one request to all of the counts, or to none if one is known to have no room. */
  async take(claims: readonly RateClaim[]): Promise<RateDecision | undefined> {
    return this.charge(claims);
  }

  /** {@link take} with a decision that comes at once where no store has to be asked. */
  charge(
    claims: readonly RateClaim[],
  ): RateDecision | undefined | Promise<RateDecision | undefined> {
    if (claims.length > 1) {
      for (const { rule, key } of claims) {
        const refusal = this.#source.refusal(rule, key);
        if (refusal !== undefined) return { ...refusal, rule };
      }
    }
    return this.#takeFrom(claims, 0, undefined);
  }

  #takeFrom(
    claims: readonly RateClaim[],
    at: number,
    least: RateDecision | undefined,
  ): RateDecision | undefined | Promise<RateDecision | undefined> {
    const claim = claims[at];
    if (claim === undefined) return least;
    const { rule, key } = claim;
    const go = (verdict: RateVerdict) => {
      const decision = { ...verdict, rule };
      if (!verdict.admitted) return decision;
      const isLeast = least === undefined || verdict.remaining < least.remaining;
      return this.#takeFrom(claims, at + 1, isLeast ? decision : least);
    };
    const verdict = this.#source.take(rule, key);
    return verdict instanceof Promise ? verdict.then(go) : go(verdict);
  }
}
