import type { Json } from '../base/json.ts';
import type { StoreDecision } from '../store/store.ts';
import { foreignForm } from './store-link.ts';

/** State of the count of one key: slot, count, slot, count and so on, by time; empty at first. */
export type RateState = readonly number[];

/** Slots of a window: more of them free used requests sooner, fewer make a smaller state. */
const slots = 16;

/** The arithmetic of a rate limit. A slot counts until all of it is older than a window. */
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

/** The wish of one instance: requests that wait, at least one, and those that it expects. */
export type RateWish = {
  readonly limit: number;
  readonly windowMs: number;
  readonly waiting: number;
  readonly ahead: number;
};

/** The answer to a wish; times are the store's. */
export type RateGrant = {
  /** Requests of those that wait. */
  readonly admitted: number;
  /** Requests counted as if they came when `budgetMs` are over, and to be admitted until then. */
  readonly budget: number;
  readonly budgetMs: number;
  /** Requests that would still be admitted now. */
  readonly remaining: number;
  readonly retryAt: number;
  readonly freeAt: number;
};

/** Largest share of the room that one instance budgets, so that others find some too. */
const aheadShare = 1 / 32;
const budgetMsMax = 1_000;

/** Charges requests to a count that all instances share. */
export const chargeRate: StoreDecision = {
  name: 'rate/charge',
  decide(value, argument, now) {
    const { limit, windowMs, waiting, ahead } = argument as RateWish;
    const state = (value ?? []) as RateState;
    if (!Array.isArray(state)) throw foreignForm('a count');
    const window = new SlidingWindow(limit, windowMs);
    const budgetMs = Math.min(budgetMsMax, windowMs / 10);
    const room = window.room(state, now);
    const admitted = Math.min(room, waiting);
    let next = admitted > 0 ? window.charge(state, admitted, now, now) : state;
    const budget = Math.min(ahead, Math.floor((room - admitted) * aheadShare));
    if (budget > 0) next = window.charge(next, budget, now, now + budgetMs);
    const remaining = window.room(next, now);
    const retryAt = window.retryAt(next, now);
    const freeAt = window.freeAt(next);
    const answer: RateGrant = { admitted, budget, budgetMs, remaining, retryAt, freeAt };
    if (admitted === 0) return { answer };
    return { answer, next: { value: next as Json, ttlMs: Math.max(1, freeAt - now) } };
  },
};
