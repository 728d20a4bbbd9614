import { check, checkInteger, checkNumber } from '../base/check.ts';
import type { Json } from '../base/json.ts';
import { addToWindow, emptyWindow, type ShareWindow, windowTotals } from '../meter/share-window.ts';

/** A pure algorithm that says when to break; what breaking does is the breaker's own matter. */
export interface BreakRule<Memory = unknown> {
  /** The memory of the rule when the breaker closes: plain data. */
  start(): Memory;
  /** Notes the end of a call; true when it is time to open. */
  breaks(memory: Memory, failed: boolean, now: number): boolean;
  /** The rule as plain data, if stores know it by that: then they decide by themselves. */
  readonly plain?: Json | undefined;
}

/** Breaks when that many calls fail in a row. */
export function consecutiveFailures(failuresMax: number): BreakRule {
  checkInteger('failuresMax', failuresMax, 1);
  const rule: BreakRule<{ inRow: number }> = {
    plain: { failuresMax },
    start: () => ({ inRow: 0 }),
    breaks(memory, failed) {
      memory.inRow = failed ? memory.inRow + 1 : 0;
      return memory.inRow >= failuresMax;
    },
  };
  return rule;
}

export interface FailureShareOptions {
  /** The share of failed calls at which it breaks; above 0, up to 1. */
  readonly share: number;
  /** Span in which calls count, in milliseconds; from 1. */
  readonly windowMs: number;
  /** With fewer calls than this in the window it never breaks; an integer from 1. */
  readonly callsMin: number;
}

/** Breaks when that share of the calls in a sliding window has failed. */
export function failureShare(options: FailureShareOptions): BreakRule {
  const { share, windowMs, callsMin } = options;
  check(share > 0 && share <= 1, 'share', 'a number above 0, up to 1', share);
  checkNumber('windowMs', windowMs, 1, Number.MAX_SAFE_INTEGER);
  checkInteger('callsMin', callsMin, 1);
  const rule: BreakRule<ShareWindow> = {
    plain: { share, windowMs, callsMin },
    start: emptyWindow,
    breaks(memory, failed, now) {
      addToWindow(memory, windowMs, now, { calls: 1, marked: failed ? 1 : 0 });
      const { calls, marked } = windowTotals(memory, windowMs, now);
      return failed && calls >= callsMin && marked >= share * calls;
    },
  };
  return rule;
}
