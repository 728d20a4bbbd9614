import { check, checkInteger, checkNumber } from 'spillway/internal';
import { type RateKeyPart, shortKey } from './key.ts';

/**
 * Algorithm of a limit. `sliding`: at most `limit` in any window, wherever it begins; used requests
 * become free up to a sixteenth of a window late. `bucket`: a burst of `limit`, which refills
 * evenly within a window. `fixed`: at most `limit` in each window of the clock, so up to twice that
 * around the moment where one ends.
 */
export type RateMode = 'sliding' | 'bucket' | 'fixed';

export interface RateRule {
  /** Requests in a window. An integer from 1 to 1,000,000,000. */
  readonly limit: number;
  /** Length of a window, in milliseconds, from 10 to 31 days. */
  readonly windowMs: number;
  /** @default 'sliding' */
  readonly mode?: RateMode | undefined;
  /** Parts of the key of a count; a route's rule counts by route as well. @default ['client'] */
  readonly by?: readonly RateKeyPart[] | undefined;
  /**
   * Behaviour while the shared store does not answer: `closed` refuses with 503, `open` counts on
   * this instance alone, so that N instances admit up to N times the limit.
   * @default 'closed'
   */
  readonly whenDown?: 'open' | 'closed' | undefined;
}

/** State of one key: numbers whose meaning depends on the mode; none at first. */
export type RateState = readonly number[];

/** The arithmetic of one mode, without a clock or a place to keep its state. */
export interface RateCount {
  /** Requests that may be admitted now, to be used until `at`, which is now or later. */
  room(state: RateState, now: number, at: number): number;
  /** The state after `n` more were admitted, to be used until `at`. */
  charge(state: RateState, n: number, now: number, at: number): RateState;
  /** Time at which there will be room again, if there is none now. */
  retryAt(state: RateState, now: number): number;
  /** Time from which on the state is the same as none. */
  freeAt(state: RateState): number;
}

/** Slots of a window: more of them free used requests sooner, fewer make a smaller state. */
const slots = 16;
const dayMs = 86_400_000;

/** A rule with its arithmetic and a unique name, the same on all instances. */
export interface NamedRule {
  readonly name: string;
  readonly rule: RateRule;
  readonly count: RateCount;
}

const counts = { bucket, fixed, sliding };

/** Checks the rule and makes it ready for use. */
export function namedRule(name: string, rule: RateRule): NamedRule {
  const { limit, windowMs, mode = 'sliding', by = [], whenDown = 'closed' } = rule;
  checkInteger('limit', limit, 1, 1e9);
  checkNumber('windowMs', windowMs, 10, 31 * dayMs);
  check(Object.hasOwn(counts, mode), 'mode', "'sliding', 'bucket' or 'fixed'", mode);
  const isBy =
    Array.isArray(by) && by.every((part) => ['client', 'address', 'route'].includes(part));
  check(isBy, 'by', "a list of 'client', 'address' and 'route'", by);
  check(whenDown === 'open' || whenDown === 'closed', 'whenDown', "'open' or 'closed'", whenDown);
  return { name: shortKey(name), rule, count: counts[mode](limit, windowMs) };
}

/** State: slot, count, slot, count and so on, by time. A slot counts until all of it is too old. */
function sliding(limit: number, windowMs: number): RateCount {
  const slotMs = windowMs / slots;
  const endOf = (slot: number) => (slot + 1) * slotMs + windowMs;
  const alive = (state: RateState, now: number): number => {
    let first = 0;
    while (first < state.length && endOf(state[first] as number) <= now) first += 2;
    return first;
  };
  return {
    room(state, now) {
      let used = 0;
      for (let i = alive(state, now); i < state.length; i += 2) used += state[i + 1] as number;
      return Math.max(0, limit - used);
    },
    charge(state, n, now, at) {
      const next = state.slice(alive(state, now));
      const slot = Math.floor(at / slotMs);
      let i = 0;
      while (i < next.length && (next[i] as number) < slot) i += 2;
      if (next[i] === slot) next[i + 1] = (next[i + 1] as number) + n;
      else next.splice(i, 0, slot, n);
      return next;
    },
    retryAt: (state, now) => endOf(state[alive(state, now)] ?? -slots),
    freeAt: (state) => endOf(state.at(-2) ?? -slots),
  };
}

/** State: the moment at which the bucket is full again (the generic cell rate algorithm). */
function bucket(limit: number, windowMs: number): RateCount {
  const eachMs = windowMs / limit;
  return {
    room(state, now, at) {
      const spentMs = Math.max(state[0] ?? at, at) - now;
      // A billionth: sums of fractions must not cost a whole request.
      return Math.max(0, Math.floor((windowMs - spentMs) / eachMs + 1e-9));
    },
    charge: ([fullAt = 0], n, _now, at) => [Math.max(fullAt, at) + n * eachMs],
    retryAt: ([fullAt = 0]) => fullAt + eachMs - windowMs,
    freeAt: ([fullAt = 0]) => fullAt,
  };
}

/** State: the number of the window, and the requests admitted in it. */
function fixed(limit: number, windowMs: number): RateCount {
  const windowOf = (ms: number) => Math.floor(ms / windowMs);
  const endOf = ([window = -1]: RateState) => (window + 1) * windowMs;
  return {
    room([window, used = 0], now, at) {
      if (windowOf(at) !== windowOf(now)) return 0;
      return window === windowOf(now) ? Math.max(0, limit - used) : limit;
    },
    charge([window, used = 0], n, now) {
      return [windowOf(now), (window === windowOf(now) ? used : 0) + n];
    },
    retryAt: endOf,
    freeAt: endOf,
  };
}
