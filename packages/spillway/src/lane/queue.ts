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
/**
 * Callers beyond those let in, since the queue was last empty, that make it a standing one: a
 * number that chance alone hardly reaches at nine tenths of what can be served, and a share.
 */
const surplusMin = 32;
const surplusShare = 0.25;

/** The waiters of a lane: in fair order, each with a time limit, on one timer for all. */
export class LaneQueue {
  readonly #clock: Clock;
  readonly #waitMsMax: number;
  readonly #targetMs: number;
  readonly #intervalMs: number;
  readonly #isMeasured: boolean;
  readonly #onDue: (now: number) => void;
  readonly #waiters: FairQueue<LanePermit>;
  /** Milliseconds that must be left of a waiter's deadline. */
  #needMs = 0;
  #patienceMs = Infinity;
  /** The time at which the queue was last empty. */
  #emptyAt = 0;
  /** Callers that came, and that were let in, since then. */
  #came = 0;
  #taken = 0;
  /** Number of waiters that have a deadline of their own. */
  #owners = 0;
  /** Fires when the next waiter's time may be over; armed only while somebody waits. */
  #timer: Disposable | undefined;

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
    return this.#waiters.size;
  }

  /** Sets what must be left of a waiter's deadline, and how long waiters are known to wait. */
  adapt(needMs: number, patienceMs: number): void {
    this.#needMs = needMs;
    this.#patienceMs = patienceMs;
  }

  /** Counts a caller that could not be let in at once, whether it waits or is refused. */
  arrive(now: number): void {
    if (this.#waiters.size === 0) {
      this.#emptyAt = now;
      this.#came = 0;
      this.#taken = 0;
    }
    this.#came += 1;
  }

  push(waiter: LanePermit): void {
    this.#waiters.push(waiter);
    if (waiter.entry.deadlineAt !== undefined) {
      this.#owners += 1;
      this.#disarm();
    }
    if (this.#timer === undefined) this.#arm(waiter.arrivedAt);
  }

  remove(waiter: LanePermit): boolean {
    const isRemoved = this.#waiters.remove(waiter);
    if (isRemoved) this.#forget(waiter);
    return isRemoved;
  }

  /** Takes out the waiter that `next` has just given. */
  take(waiter: LanePermit): void {
    this.#waiters.take(waiter);
    this.#taken += 1;
    this.#forget(waiter);
  }

  next(now: number): LanePermit | undefined {
    return this.#waiters.next(this.isStanding(now));
  }

  [Symbol.iterator](): Iterator<LanePermit> {
    return this.#waiters[Symbol.iterator]();
  }

  /** The number of waiters that are served before a newcomer would be. */
  ahead(newcomer: LanePermit): number {
    return this.#waiters.ahead(newcomer);
  }

  /** The waiter whose time is over first. */
  earliest(): LanePermit | undefined {
    const oldest = this.#waiters.oldest();
    if (this.#owners === 0 || oldest === undefined) return oldest;
    let earliest = oldest;
    for (const waiter of this.#waiters) if (waiter.dueAt < earliest.dueAt) earliest = waiter;
    return earliest;
  }

  /** The waiter that has to go when one too many waits. */
  surplus(newcomer: LanePermit | undefined, now: number): LanePermit | undefined {
    return this.#waiters.surplus(newcomer, this.isStanding(now));
  }

  /**
   * The reason why this waiter's time is over, if it is. The sums are those that the timer is set
   * by: with a difference instead, fractions would have it fire a moment too early, for ever.
   */
  lateness(waiter: LanePermit, now: number): 'deadline' | 'late' | 'stale' | undefined {
    if (now >= waiter.dueAt) return 'deadline';
    if (now >= waiter.dueAt - this.#needMs) return 'late';
    if (now >= waiter.arrivedAt + this.#patienceMs - this.#needMs) return 'late';
    if (now >= waiter.arrivedAt + this.#waitMsMax) return 'stale';
    return now >= waiter.arrivedAt + this.#targetMs && this.isStanding(now) ? 'stale' : undefined;
  }

  /** True if the queue has not been empty for an interval: then the newest is served first. */
  isStanding(now: number): boolean {
    if (this.#waiters.size === 0) return false;
    if (!this.#isMeasured) return now >= this.#emptyAt + this.#intervalMs;
    return this.#came - this.#taken > surplusMin + surplusShare * this.#taken;
  }

  #forget(waiter: LanePermit): void {
    if (waiter.entry.deadlineAt !== undefined) this.#owners -= 1;
    if (this.#waiters.size === 0) this.#disarm();
  }

  /** Looks again when the next waiter may be due. */
  #arm(now: number): void {
    const oldest = this.#waiters.oldest();
    const earliest = this.earliest();
    if (oldest === undefined || earliest === undefined) return;
    const staleAt = Math.max(this.#emptyAt + this.#intervalMs, oldest.arrivedAt + this.#targetMs);
    const goneAt = oldest.arrivedAt + this.#patienceMs - this.#needMs;
    const waitedAt = oldest.arrivedAt + this.#waitMsMax;
    const dueAt = Math.min(earliest.dueAt - this.#needMs, goneAt, waitedAt, staleAt);
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
