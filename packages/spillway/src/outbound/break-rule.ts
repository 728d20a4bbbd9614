import { checkInteger } from '../base/check.ts';
import type { Json } from '../base/json.ts';
import { integer, number, positive, settle } from '../base/options.ts';

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

/**
 * Counts of the calls of the last `windowMs`, give or take a tenth. Plain data of fixed size: a
 * ring of slots, of which the oldest is emptied as a whole.
 */
interface CallCounts {
  /** Number of the newest slot, counted from the beginning of time. */
  slot: number;
  readonly calls: number[];
  /** Calls of these that failed. */
  readonly marked: number[];
}

const slots = 10;

/** Breaks when that share of the calls in a sliding window has failed. */
export function failureShare(options: FailureShareOptions): BreakRule {
  const { share, windowMs, callsMin } = settle('failureShare', options, {
    share: positive(1),
    windowMs: number(1, Number.MAX_SAFE_INTEGER),
    callsMin: integer(1),
  });
  const none = new Array<number>(slots).fill(0);
  const rule: BreakRule<CallCounts> = {
    plain: { share, windowMs, callsMin },
    start: () => ({ slot: 0, calls: [...none], marked: [...none] }),
    breaks(memory, failed, now) {
      slide(memory, Math.floor((now / windowMs) * slots));
      const at = memory.slot % slots;
      memory.calls[at] = (memory.calls[at] ?? 0) + 1;
      if (failed) memory.marked[at] = (memory.marked[at] ?? 0) + 1;
      const calls = sumOf(memory.calls);
      return failed && calls >= callsMin && sumOf(memory.marked) >= share * calls;
    },
  };
  return rule;
}

/** Moves on to this slot, and empties those whose time has come again. */
function slide(memory: CallCounts, slot: number): void {
  const passed = Math.min(slots, slot - memory.slot);
  for (let i = 0; i < passed; i += 1) {
    memory.calls[(slot - i) % slots] = 0;
    memory.marked[(slot - i) % slots] = 0;
  }
  memory.slot = Math.max(memory.slot, slot);
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
