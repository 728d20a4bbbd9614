import { instance, integer, maybe, number, oneOf, SlidingWindow, settle } from 'spillway/internal';
import { type RateKeyPart, shortKey } from './key.ts';

/**
 * At most `limit` requests in any window, wherever it begins; a request stops counting up to a
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

const dayMs = 86_400_000;

/** A checked rule with its window and a unique name, the same on all instances. */
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
  const { limit, windowMs } = settle('rate limit', rule, rules);
  return { name: shortKey(name), rule, window: new SlidingWindow(limit, windowMs) };
}
