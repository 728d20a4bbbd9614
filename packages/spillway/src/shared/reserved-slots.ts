import { type BucketRule, type SlotRun, slotLifeMs } from '../outbound/slots.ts';
import type { StoreTime } from './store-time.ts';

/** An upper bound of the rounding errors of sums in this file, in milliseconds. */
const roundingMs = 0.001;
/** Extra uncertainty of the store's time when the last answer is at its oldest, in milliseconds. */
const waitingMs = 2;

/** A run whose first slots are used up. They are counted, since sums of steps are not exact. */
interface UsedRun extends SlotRun {
  used: number;
}

/** Slots for tokens that will be used together, and when. */
interface Use {
  /** Milliseconds until then. */
  readonly ms: number;
  /** Slots that it costs. */
  readonly slots: number;
}

/**
 * The slots that this process has reserved. `n` tokens used together need `n` slots, 1 / rate
 * apart, of which the last has come and the first is not too old:
 *
 *     store time   ──┬────┬────┬────┬────┬────┬──────>
 *     slots          1    2    3    4    5    6
 *     now is here                  [~~~~~~]            known only to lie between two moments
 *     3 together                   at the earliest 2 3 4, at the latest 3 4 5: 2 to 5 are used up
 */
export class ReservedSlots {
  readonly #rule: BucketRule;
  readonly #time: StoreTime;
  #runs: UsedRun[] = [];

  constructor(rule: BucketRule, time: StoreTime) {
    this.#rule = rule;
    this.#time = time;
  }

  get left(): number {
    return this.#runs.reduce((sum, { n, used }) => sum + n - used, 0);
  }

  add(run: SlotRun): void {
    this.#runs = [...this.#runs, { ...run, used: 0 }].sort((a, b) => a.at - b.at);
  }

  clear(): void {
    this.#runs = [];
  }

  /** The length of a run that is enough for `n` tokens together. */
  cost(n: number, now: number): number {
    const uncertaintyMs = this.#time.uncertaintyMs(now) + waitingMs;
    const slots = Math.ceil(((uncertaintyMs - this.#slackMs(n)) * this.#rule.ratePerSecond) / 1000);
    return n + Math.max(0, slots);
  }

  /** Milliseconds until `n` may be used together; undefined if no run is long enough. */
  msUntil(n: number, now: number): number | undefined {
    return this.#find(n, now)?.use.ms;
  }

  /** Takes the slots of `n` tokens; false, and nothing taken, if they may not be used now. */
  spend(n: number, now: number): boolean {
    const found = this.#find(n, now);
    if (found === undefined || found.use.ms > 0) return false;
    found.run.used += found.use.slots;
    return true;
  }

  #find(n: number, now: number): { readonly run: UsedRun; readonly use: Use } | undefined {
    const runs = this.#runs;
    while (runs[0] !== undefined && this.#use(runs[0], 1, now) === undefined) runs.shift();
    for (const run of runs) {
      const use = this.#use(run, n, now);
      if (use !== undefined) return { run, use };
    }
    return undefined;
  }

  #use({ at, stepMs, n, used }: UsedRun, count: number, now: number): Use | undefined {
    const last = at + (used + count - 1) * stepMs + roundingMs;
    const usedAt = Math.max(now, this.#time.arrival(last));
    // A slot ahead is used soon after an answer, so the time will be known as well as now.
    const isAhead = usedAt > now;
    const latest = isAhead ? last + this.#time.uncertaintyMs(now) : this.#time.at(now).latest;
    const lateMs = latest - last - this.#slackMs(count);
    const slots = count + Math.max(0, Math.ceil(lateMs / stepMs));
    // A shorter timer would not move the clock, and be set again and again.
    const ms = usedAt - now > roundingMs / 2 ? usedAt - now : 0;
    return used + slots <= n ? { ms, slots } : undefined;
  }

  /** Time after the slot of the last in which the first is not too old. */
  #slackMs(n: number): number {
    return slotLifeMs(this.#rule) - ((n - 1) * 1000) / this.#rule.ratePerSecond - 2 * roundingMs;
  }
}
