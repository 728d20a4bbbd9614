import type { BucketRule } from '../outbound/bucket-state.ts';
import { type SlotRun, slotLifeMs, without } from './shared-bucket-state.ts';
import type { StoreTime } from './store-time.ts';

/** More than the rounding error of all that is added up here, in milliseconds. */
const hairMs = 0.001;
/** By how much less is known of the store's time when its answer is as old as it may be. */
const waitingMs = 2;

/** Slots for tokens that will be used together, and when. */
interface Use {
  readonly index: number;
  /** In how many milliseconds. */
  readonly ms: number;
  /** How many slots it costs. */
  readonly slots: number;
}

/**
 * The slots that this process holds. `n` tokens used together count as `n` slots, 1 / rate apart,
 * of which the last has come and the first is not too old. Which slots that is depends on the
 * store's time, and that is known within bounds only: all that it may be are used up.
 */
export class Hand {
  readonly #rule: BucketRule;
  readonly #time: StoreTime;
  #runs: SlotRun[] = [];

  constructor(rule: BucketRule, time: StoreTime) {
    this.#rule = rule;
    this.#time = time;
  }

  get left(): number {
    return this.#runs.reduce((sum, { n }) => sum + n, 0);
  }

  add(runs: readonly SlotRun[]): void {
    this.#runs = [...this.#runs, ...runs].sort((a, b) => a.at - b.at);
  }

  /** Forgets all it holds, and tells what that was. */
  clear(): readonly SlotRun[] {
    const runs = this.#runs;
    this.#runs = [];
    return runs;
  }

  /** How many slots in a run `n` tokens together will cost at the most, if all goes well. */
  cost(n: number, now: number): number {
    const unsureMs = this.#time.unsureMs(now) + waitingMs;
    const slots = Math.ceil(((unsureMs - this.#slackMs(n)) * this.#rule.ratePerSecond) / 1000);
    return n + Math.max(0, slots);
  }

  /** Milliseconds until `n` may be used together; undefined when nothing here will do. */
  msUntil(n: number, now: number): number | undefined {
    return this.#find(n, now)?.ms;
  }

  /** False, and nothing spent, if they may not be used now. */
  spend(n: number, now: number): boolean {
    const use = this.#find(n, now);
    if (use === undefined || use.ms > 0) return false;
    const rest = without(this.#runs[use.index] as SlotRun, use.slots);
    this.#runs.splice(use.index, 1, ...(rest.n > 0 ? [rest] : []));
    return true;
  }

  #find(n: number, now: number): Use | undefined {
    const runs = this.#runs;
    while (runs[0] !== undefined && this.#use(runs[0], 1, now) === undefined) runs.shift();
    for (const [index, run] of runs.entries()) {
      const use = this.#use(run, n, now);
      if (use !== undefined) return { index, ...use };
    }
    return undefined;
  }

  #use({ at, stepMs, n }: SlotRun, count: number, now: number): Omit<Use, 'index'> | undefined {
    const last = at + (count - 1) * stepMs + hairMs;
    const usedAt = Math.max(now, this.#time.latest(last));
    // What lies ahead is used soon after an answer, so the time will be known as well as now.
    const usedMax = usedAt > now ? last + this.#time.unsureMs(now) : this.#time.max(now);
    const lateMs = usedMax - last - this.#slackMs(count);
    const slots = count + Math.max(0, Math.ceil(lateMs / stepMs));
    // A timer too short to move the clock would be asked for again and again.
    const ms = usedAt - now > hairMs / 2 ? usedAt - now : 0;
    return slots <= n ? { ms, slots } : undefined;
  }

  /** How late after the slot of the last the first is still not too old. */
  #slackMs(n: number): number {
    return slotLifeMs(this.#rule) - ((n - 1) * 1000) / this.#rule.ratePerSecond - 2 * hairMs;
  }
}
