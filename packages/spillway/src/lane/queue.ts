import type { Clock } from '../base/clock.ts';
import { number, or, type Rules, settle } from '../base/options.ts';
import type { Random } from '../base/random.ts';
import { FairQueue } from '../wait/fair-queue.ts';
import { Ring } from '../wait/ring.ts';
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
/**
 * Share of the time that a waiter has to spare after which, once one is let in so late, the newest
 * is served first until nobody waits. Arrivals by chance keep the wait below it at nine tenths of
 * the load; above the load the queue grows to it within seconds, and all who are let in by order of
 * arrival would have waited as long as they can.
 */
const standingShare = 0.1;
/**
 * Share of their patience that callers may wait, though usual work takes longer than that: else
 * those who have to queue for a moment would never be served, and what is usual never be learnt.
 */
const waitShareLeast = 0.1;

/** Reason why the time of a waiter is over. */
export type Lateness = 'deadline' | 'late' | 'stale';

/** The waiters of a lane: in fair order, each with a time limit, on one timer for all. */
export class LaneQueue {
  readonly #clock: Clock;
  readonly #waitMsMax: number;
  readonly #targetMs: number;
  readonly #intervalMs: number;
  readonly #isMeasured: boolean;
  readonly #onDue: (now: number) => void;
  readonly #waiters: FairQueue<LanePermit>;
  /** Waiters that free permits are reserved for; each has a higher priority than those before it. */
  readonly #reserved = new Ring<LanePermit>();
  /** Milliseconds that must be left of a waiter's deadline. */
  #needMs = 0;
  /** Milliseconds after its arrival at which a waiter is hardly served before it gives up. */
  #goneMs = Infinity;
  /** The time at which the queue was last empty. */
  #emptyAt = 0;
  /** True from a waiter that was let in late until nobody waits. */
  #isLate = false;
  /** Number of waiters that have a deadline of their own. */
  #owners = 0;
  /** Fires when the next waiter's time may be over; armed only while somebody waits. */
  #timer: Disposable | undefined;
  /** Moment for which the timer is set. */
  #armedFor = Infinity;

  constructor(options: {
    readonly clock: Clock;
    readonly waitMsMax: number;
    readonly codel: CodelOptions | undefined;
    readonly random: Random;
    readonly onDue: (now: number) => void;
  }) {
    const { codel } = options;
    const standing = codel === undefined ? never : settle('Lane: codel', codel, codelRules);
    this.#waiters = new FairQueue(options.random() * 2 ** 32);
    this.#clock = options.clock;
    this.#waitMsMax = options.waitMsMax;
    this.#targetMs = standing.targetMs;
    this.#intervalMs = standing.intervalMs;
    this.#isMeasured = codel === undefined;
    this.#onDue = options.onDue;
  }

  get size(): number {
    return this.#waiters.size + this.#reserved.size;
  }

  /** Sets what must be left of a waiter's deadline, and how long waiters are known to wait. */
  adapt(needMs: number, patienceMs: number): void {
    this.#needMs = needMs;
    this.#goneMs = Math.max(patienceMs - needMs, patienceMs * waitShareLeast);
  }

  push(waiter: LanePermit): void {
    if (this.size === 0) this.#emptyAt = waiter.arrivedAt;
    this.#waiters.push(waiter);
    if (waiter.entry.deadlineAt !== undefined) {
      this.#owners += 1;
      // To look for the earliest of all whenever one comes would take quadratic time.
      if (waiter.dueAt - this.#needMs < this.#armedFor) this.#disarm();
    }
    if (this.#timer === undefined) this.#arm(waiter.arrivedAt);
  }

  remove(waiter: LanePermit): boolean {
    const isRemoved = this.#reserved.remove(waiter) || this.#waiters.remove(waiter);
    if (isRemoved) this.#forget(waiter);
    return isRemoved;
  }

  /** Takes out the waiter that `next` has just given. */
  take(waiter: LanePermit, now: number): void {
    const { arrivedAt, dueAt } = waiter;
    const spareMs = Math.min(dueAt - arrivedAt - this.#needMs, this.#goneMs);
    if (now - arrivedAt > standingShare * spareMs) this.#isLate = true;
    if (!this.#reserved.remove(waiter)) this.#waiters.take(waiter);
    this.#forget(waiter);
  }

  next(now: number): LanePermit | undefined {
    const next = this.#waiters.next(this.isStanding(now));
    const reserved = this.#reserved.last;
    if (reserved === undefined) return next;
    return next !== undefined && next.priority > reserved.priority ? next : reserved;
  }

  /**
   * Reserves the free permits, and those that come back, for the next waiter, which needs more than
   * are free. Where the newest or a new key goes first, lighter callers would take each of them.
   */
  reserve(now: number): void {
    const waiter = this.next(now);
    if (waiter === undefined || waiter === this.#reserved.last) return;
    this.#waiters.take(waiter);
    this.#reserved.push(waiter);
  }

  *[Symbol.iterator](): Generator<LanePermit> {
    yield* this.#reserved;
    yield* this.#waiters;
  }

  /** True if at most that many waiters are served before a newcomer would be. */
  hasAhead(newcomer: LanePermit, most: number): boolean {
    return this.size <= most || this.#waiters.hasAhead(newcomer, most - this.#reserved.size);
  }

  /** The waiters whose time is over, each of which its reader has to remove. */
  *overdue(now: number): Generator<[LanePermit, Lateness]> {
    // If they are not due in order of arrival, to look for the earliest each time costs n squared.
    for (const waiter of this.#owners > 0 ? [...this] : []) {
      const reason = this.lateness(waiter, now);
      if (reason !== undefined) yield [waiter, reason];
    }
    for (let waiter = this.#earliest(); waiter !== undefined; waiter = this.#earliest()) {
      const reason = this.lateness(waiter, now);
      if (reason === undefined) return;
      yield [waiter, reason];
    }
  }

  /** The waiter whose time is over first. */
  #earliest(): LanePermit | undefined {
    const oldest = this.#oldest();
    if (this.#owners === 0 || oldest === undefined) return oldest;
    let earliest = oldest;
    for (const waiter of this) if (waiter.dueAt < earliest.dueAt) earliest = waiter;
    return earliest;
  }

  #oldest(): LanePermit | undefined {
    return this.#reserved.fold(this.#waiters.oldest(), (oldest, waiter) => {
      return oldest === undefined || waiter.arrivedAt < oldest.arrivedAt ? waiter : oldest;
    });
  }

  /** Milliseconds for which a waiter may still wait. */
  leftMs({ arrivedAt, dueAt }: LanePermit, now: number): number {
    return Math.min(dueAt - this.#needMs, arrivedAt + this.#goneMs) - now;
  }

  /** The waiter that has to go when one too many waits. */
  surplus(newcomer: LanePermit | undefined, now: number): LanePermit | undefined {
    return this.#waiters.surplus(newcomer, this.isStanding(now)) ?? this.#reserved.first;
  }

  /**
   * The reason why this waiter's time is over, if it is. The sums are those that the timer is set
   * by: with a difference instead, fractions would have it fire a moment too early, for ever.
   */
  lateness(waiter: LanePermit, now: number): Lateness | undefined {
    if (now >= waiter.dueAt) return 'deadline';
    if (now >= waiter.dueAt - this.#needMs) return 'late';
    if (now >= waiter.arrivedAt + this.#goneMs) return 'late';
    if (now >= waiter.arrivedAt + this.#waitMsMax) return 'stale';
    return now >= waiter.arrivedAt + this.#targetMs && this.isStanding(now) ? 'stale' : undefined;
  }

  /** True if the queue stands, by the interval of CoDel or by the waits: the newest goes first. */
  isStanding(now: number): boolean {
    if (this.size === 0) return false;
    return this.#isMeasured ? this.#isLate : now >= this.#emptyAt + this.#intervalMs;
  }

  #forget(waiter: LanePermit): void {
    if (waiter.entry.deadlineAt !== undefined) this.#owners -= 1;
    if (this.size > 0) return;
    this.#isLate = false;
    this.#disarm();
  }

  /** Looks again when the next waiter may be due. */
  #arm(now: number): void {
    const oldest = this.#oldest();
    const earliest = this.#earliest();
    if (oldest === undefined || earliest === undefined) return;
    const staleAt = Math.max(this.#emptyAt + this.#intervalMs, oldest.arrivedAt + this.#targetMs);
    const goneAt = oldest.arrivedAt + this.#goneMs;
    const waitedAt = oldest.arrivedAt + this.#waitMsMax;
    const dueAt = Math.min(earliest.dueAt - this.#needMs, goneAt, waitedAt, staleAt);
    this.#armedFor = dueAt;
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
}
