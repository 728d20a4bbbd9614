import { instance, integer, maybe, number, oneOf, settle } from 'spillway/internal';
import { type RateKeyPart, shortKey } from './key.ts';

/**
 * At most `limit` requests in any window, wherever it begins; used requests become free up to a
 * sixteenth of a window late.
 */
export interface RateRule {
  /** Requests in a window. An integer from 1 to 1,000,000,000. */
  readonly limit: number;
  /** Length of a window, in milliseconds, from 10 to 31 days. */
  readonly windowMs: number;
  /** Parts of the key of a count; a route's rule counts by route as well. @default ['client'] */
  readonly by?: readonly RateKeyPart[] | undefined;
  /**
   * Behaviour while the shared store does not answer: `closed` refuses with 503, `open` counts on
   * this instance alone, so that N instances admit up to N times the limit.
   * @default 'closed'
   */
  readonly whenDown?: 'open' | 'closed' | undefined;
}

/** State of one key: slot, count, slot, count and so on, by time; empty at first. */
export type RateState = readonly number[];

/** Slots of a window: more of them free used requests sooner, fewer make a smaller state. */
const slots = 16;
const dayMs = 86_400_000;

/** A rule with its arithmetic and a unique name, the same on all instances. */
export interface NamedRule {
  readonly name: string;
  readonly rule: RateRule;
  readonly window: SlidingWindow;
}

const parts = oneOf('client', 'address', 'route');
const rules = {
  limit: integer(1, 1e9),
  windowMs: number(10, 31 * dayMs),
  by: maybe(
    instance(
      (value) => Array.isArray(value) && value.every(parts.holds),
      "a list of 'client', 'address' and 'route'",
    ),
  ),
  whenDown: maybe(oneOf('open', 'closed')),
};

/** Checks the rule and makes it ready for use. */
export function namedRule(name: string, rule: RateRule): NamedRule {
  const { limit, windowMs } = settle<RateRule, typeof rules>('rate limit', rule, rules);
  return { name: shortKey(name), rule, window: new SlidingWindow(limit, windowMs) };
}

/** The arithmetic of a rule. A slot counts until all of it is older than a window. */
export class SlidingWindow {
  readonly #limit: number;
  readonly #windowMs: number;
  readonly #slotMs: number;

  constructor(limit: number, windowMs: number) {
    this.#limit = limit;
    this.#windowMs = windowMs;
    this.#slotMs = windowMs / slots;
  }

  /** Requests that may be admitted now. */
  room(state: RateState, now: number): number {
    let used = 0;
    for (let i = this.#alive(state, now); i < state.length; i += 2) used += state[i + 1] as number;
    return Math.max(0, this.#limit - used);
  }

  /** The state after `n` more were admitted, to be used until `at`, which is now or later. */
  charge(state: RateState, n: number, now: number, at: number): RateState {
    const next = state.slice(this.#alive(state, now));
    const slot = Math.floor(at / this.#slotMs);
    let i = 0;
    while (i < next.length && (next[i] as number) < slot) i += 2;
    if (next[i] === slot) next[i + 1] = (next[i + 1] as number) + n;
    else next.splice(i, 0, slot, n);
    return next;
  }

  /** Time at which there will be room again, if there is none now. */
  retryAt(state: RateState, now: number): number {
    return this.#endOf(state[this.#alive(state, now)] ?? -slots);
  }

  /** Time from which on the state is the same as none. */
  freeAt(state: RateState): number {
    return this.#endOf(state.at(-2) ?? -slots);
  }

  #endOf(slot: number): number {
    return (slot + 1) * this.#slotMs + this.#windowMs;
  }

  #alive(state: RateState, now: number): number {
    let first = 0;
    while (first < state.length && this.#endOf(state[first] as number) <= now) first += 2;
    return first;
  }
}
