import type { Clock } from '../base/clock.ts';
import { type Random, systemRandom } from '../base/random.ts';
import { FairQueue } from '../wait/fair-queue.ts';
import type { LanePermit } from './permit.ts';

/**
 * Under lasting overload a full queue serves only work that is nearly dead. With this rule, once
 * the queue has not been empty for an interval, what has waited longer than the target is refused
 * (`LANE_STALE`) and the newest is served first; a burst that drains within an interval is let be.
 */
export interface CodelOptions {
  /** How long work may wait in a standing queue, in milliseconds. @default 5 */
  readonly targetMs?: number | undefined;
  /** How long a queue may go without being empty, in milliseconds. @default 100 */
  readonly intervalMs?: number | undefined;
}

/** Who comes, and how it is to be treated. */
export interface Entry {
  /** Leaves the queue, or aborts the permit's signal, when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** How many permits it takes. An integer from 1 to the lane's limit. @default 1 */
  readonly weight?: number | undefined;
  /** From 0 to 7; higher ones are always served first. @default 0 */
  readonly priority?: number | undefined;
  /** Whose work it is (a tenant, a user); keys are served in turn. @default all the same */
  readonly key?: string | undefined;
}

/** Those who wait in a lane: in fair order, each with a time limit, on one timer for all. */
export class LaneQueue {
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #targetMs: number;
  readonly #intervalMs: number;
  readonly #onDue: () => void;
  readonly #waiters: FairQueue<LanePermit>;
  /** When the queue was last empty. */
  #emptyAt = 0;
  /** Goes off when the oldest waiter's time may be over; there is one only while somebody waits. */
  #timer: Disposable | undefined;

  constructor(options: {
    readonly clock: Clock;
    readonly deadlineMs: number;
    readonly codel: CodelOptions | undefined;
    readonly random: Random | undefined;
    readonly onDue: () => void;
  }) {
    const { random = systemRandom } = options;
    this.#waiters = new FairQueue(random() * 2 ** 32);
    this.#clock = options.clock;
    this.#deadlineMs = options.deadlineMs;
    this.#targetMs = options.codel ? (options.codel.targetMs ?? 5) : Infinity;
    this.#intervalMs = options.codel ? (options.codel.intervalMs ?? 100) : Infinity;
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

  /** Takes out the one that `next` has just given. */
  take(waiter: LanePermit): void {
    this.#waiters.take(waiter);
    if (this.#waiters.size === 0) this.#disarm();
  }

  next(now: number): LanePermit | undefined {
    return this.#waiters.next(this.#isStanding(now));
  }

  oldest(): LanePermit | undefined {
    return this.#waiters.oldest();
  }

  surplus(newcomer: LanePermit | undefined): LanePermit | undefined {
    return this.#waiters.surplus(newcomer);
  }

  /** Why this waiter's time is over, if it is. */
  lateness(waiter: LanePermit, now: number): 'deadline' | 'stale' | undefined {
    const waitMs = now - waiter.arrivedAt;
    if (waitMs >= this.#deadlineMs) return 'deadline';
    return waitMs >= this.#targetMs && this.#isStanding(now) ? 'stale' : undefined;
  }

  /** Looks again when the next one may be due. */
  #arm(now: number): void {
    const oldest = this.#waiters.oldest();
    if (oldest === undefined) return;
    const staleAt = Math.max(this.#emptyAt + this.#intervalMs, oldest.arrivedAt + this.#targetMs);
    const dueAt = Math.min(oldest.arrivedAt + this.#deadlineMs, staleAt);
    this.#timer = this.#clock.after(Math.max(0, dueAt - now), () => {
      this.#timer = undefined;
      this.#onDue();
      if (this.#timer === undefined) this.#arm(this.#clock.now());
    });
  }

  #disarm(): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }

  #isStanding(now: number): boolean {
    return now - this.#emptyAt >= this.#intervalMs && this.#waiters.size > 0;
  }
}
