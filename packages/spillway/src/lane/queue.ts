import type { Clock } from '../base/clock.ts';
import { number, or, type Rules, settle } from '../base/options.ts';
import type { Random } from '../base/random.ts';
import { FairQueue } from '../wait/fair-queue.ts';
import type { LanePermit } from './permit.ts';

/**
 * Under lasting overload a full queue serves only work that is nearly dead. With this rule, once
 * the queue has not been empty for an interval, what has waited longer than the target is refused
 * (`LANE_STALE`) and the newest is served first; a burst that drains within an interval is let be.
 */
export interface CodelOptions {
  /** Milliseconds that work may wait in a standing queue, from 0. @default 5 */
  readonly targetMs?: number | undefined;
  /** Milliseconds after which a queue that was never empty stands, from 0. @default 100 */
  readonly intervalMs?: number | undefined;
}

const codelRules = {
  targetMs: or(number(0), 5),
  intervalMs: or(number(0), 100),
} satisfies Rules<CodelOptions>;

const never = { targetMs: Infinity, intervalMs: Infinity };

/** The waiters of a lane: in fair order, each with a time limit, on one timer for all. */
export class LaneQueue {
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #targetMs: number;
  readonly #intervalMs: number;
  readonly #onDue: (now: number) => void;
  readonly #waiters: FairQueue<LanePermit>;
  /** When the queue was last empty. */
  #emptyAt = 0;
  /** Fires when the oldest waiter's time may be over; armed only while somebody waits. */
  #timer: Disposable | undefined;

  constructor(options: {
    readonly clock: Clock;
    readonly deadlineMs: number;
    readonly codel: CodelOptions | undefined;
    readonly random: Random;
    readonly onDue: (now: number) => void;
  }) {
    const { codel } = options;
    const standing = codel === undefined ? never : settle('Lane: codel', codel, codelRules);
    this.#waiters = new FairQueue(options.random() * 2 ** 32);
    this.#clock = options.clock;
    this.#deadlineMs = options.deadlineMs;
    this.#targetMs = standing.targetMs;
    this.#intervalMs = standing.intervalMs;
    this.#onDue = options.onDue;
  }

  get size(): number {
    return this.#waiters.size;
  }

  push(waiter: LanePermit): void {
    if (this.#waiters.size === 0) this.#emptyAt = waiter.arrivedAt;
    this.#waiters.push(waiter);
    if (this.#timer === undefined) this.#arm(waiter.arrivedAt);
  }

  remove(waiter: LanePermit): boolean {
    const removed = this.#waiters.remove(waiter);
    if (this.#waiters.size === 0) this.#disarm();
    return removed;
  }

  /** Takes out the waiter that `next` has just given. */
  take(waiter: LanePermit): void {
    this.#waiters.take(waiter);
    if (this.#waiters.size === 0) this.#disarm();
  }

  next(now: number): LanePermit | undefined {
    return this.#waiters.next(this.#isStanding(now));
  }

  [Symbol.iterator](): Iterator<LanePermit> {
    return this.#waiters[Symbol.iterator]();
  }

  oldest(): LanePermit | undefined {
    return this.#waiters.oldest();
  }

  surplus(newcomer: LanePermit | undefined): LanePermit | undefined {
    return this.#waiters.surplus(newcomer);
  }

  /**
   * The reason why this waiter's time is over, if it is. The sums are those that the timer is set
   * by: with a difference instead, fractions would have it fire a moment too early, for ever.
   */
  lateness(waiter: LanePermit, now: number): 'deadline' | 'stale' | undefined {
    if (now >= waiter.arrivedAt + this.#deadlineMs) return 'deadline';
    return now >= waiter.arrivedAt + this.#targetMs && this.#isStanding(now) ? 'stale' : undefined;
  }

  /** Looks again when the next waiter may be due. */
  #arm(now: number): void {
    const oldest = this.#waiters.oldest();
    if (oldest === undefined) return;
    const staleAt = Math.max(this.#emptyAt + this.#intervalMs, oldest.arrivedAt + this.#targetMs);
    const dueAt = Math.min(oldest.arrivedAt + this.#deadlineMs, staleAt);
    this.#timer = this.#clock.after(Math.max(0, dueAt - now), () => {
      this.#timer = undefined;
      this.#onDue(Math.max(dueAt, this.#clock.now()));
      if (this.#timer === undefined) this.#arm(this.#clock.now());
    });
  }

  #disarm(): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }

  #isStanding(now: number): boolean {
    return now >= this.#emptyAt + this.#intervalMs && this.#waiters.size > 0;
  }
}
