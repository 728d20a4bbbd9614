import type { Clock } from '../base/clock.ts';
import { number, or, type Rules, settle } from '../base/options.ts';
import type { Random } from '../base/random.ts';
import { FairQueue } from '../wait/fair-queue.ts';
import { Ring } from '../wait/ring.ts';
import type { LanePermit } from './permit.ts';

/**
 * Under lasting overload a full queue serves only callers that have hardly any time left. With this
 * rule, once the queue was never empty for an interval, callers that waited longer than the target
 * are refused (`LANE_STALE`), and the newest is served first. Shorter bursts are left alone.
 */
export interface CodelOptions {
  /** Milliseconds for which a caller may wait in a standing queue, from 0. @default 5 */
  readonly targetMs?: number | undefined;
  /** Milliseconds without being empty after which a queue is standing, from 0. @default 100 */
  readonly intervalMs?: number | undefined;
}

const codelRules = {
  targetMs: or(number(0), 5),
  intervalMs: or(number(0), 100),
} satisfies Rules<CodelOptions>;

const never = { targetMs: Infinity, intervalMs: Infinity };
/**
 * The queue is standing once a waiter was let in after this share of the time it could wait. At 0.9
 * of the capacity random arrivals keep waits below it. Above the capacity the queue reaches it
 * within seconds, and in order of arrival everybody would wait for as long as possible.
 */
const standingShare = 0.1;
/**
 * Share of their patience for which callers may wait even if the service takes longer than all of
 * it: with no wait at all, nobody would be served who could show that it has become faster.
 */
const waitShareMin = 0.1;

/** Reason why the time of a waiter is over. */
export type Lateness = 'deadline' | 'late' | 'stale';

/** The waiters of a lane in fair order, each with a time limit, on one timer for all. */
export class LaneQueue {
  readonly #clock: Clock;
  readonly #waitMsMax: number;
  readonly #targetMs: number;
  readonly #intervalMs: number;
  readonly #isMeasured: boolean;
  readonly #onDue: (now: number) => void;
  readonly #waiters: FairQueue<LanePermit>;
  /** Heavy waiters that free permits are reserved for, in order of rising priority. */
  readonly #reserved = new Ring<LanePermit>();
  /** Milliseconds that must be left of a waiter's deadline. */
  #needMs = 0;
  /** Milliseconds of waiting after which a caller would give up before it is served. */
  #goneMs = Infinity;
  /** The time at which the queue was last empty. */
  #emptyAt = 0;
  /** True from the moment a waiter was let in late until the queue is empty. */
  #isLate = false;
  /** Number of waiters that have a deadline of their own. */
  #owners = 0;
  /** Fires when the next waiter's time may be over; set only while somebody waits. */
  #timer: Disposable | undefined;
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

  /** Sets the time that must be left of a waiter's deadline, and the measured patience. */
  adapt(needMs: number, patienceMs: number): void {
    this.#needMs = needMs;
    this.#goneMs = Math.max(patienceMs - needMs, patienceMs * waitShareMin);
  }

  push(waiter: LanePermit): void {
    if (this.size === 0) this.#emptyAt = waiter.arrivedAt;
    this.#waiters.push(waiter);
    if (waiter.entry.deadlineAt !== undefined) {
      this.#owners += 1;
      // To find the earliest of all with each arrival would take quadratic time.
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
   * Reserves free permits for the next waiter, which needs more than are free now. Otherwise, where
   * the newest or a new key is served first, lighter callers would take each one that comes back.
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

  /** True if at most that many waiters are served before a newcomer. */
  hasAhead(newcomer: LanePermit, most: number): boolean {
    if (this.size <= most) return true;
    const reserved = this.#reserved.fold(0, (sum, { priority }) => {
      return priority < newcomer.priority ? sum : sum + 1;
    });
    return reserved <= most && this.#waiters.hasAhead(newcomer, most - reserved);
  }

  /** The waiters whose time is over, each to be removed by the caller of this. */
  *overdue(now: number): Generator<[LanePermit, Lateness]> {
    // With deadlines of their own they are not in order, and finding each takes quadratic time.
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

  /** Milliseconds for which a waiter may wait on. */
  leftMs({ arrivedAt, dueAt }: LanePermit, now: number): number {
    return Math.min(dueAt - this.#needMs, arrivedAt + this.#goneMs) - now;
  }

  /** The waiter to refuse when the queue is too long. */
  surplus(newcomer: LanePermit | undefined, now: number): LanePermit | undefined {
    const surplus = this.#waiters.surplus(newcomer, this.isStanding(now));
    const { first } = this.#reserved;
    if (surplus === undefined || first === undefined) return surplus ?? first;
    return first.priority < surplus.priority ? first : surplus;
  }

  /**
   * The reason why this waiter's time is over, if it is. It compares the very sums that the timer
   * is set for: rounded differently, the timer would fire a moment too early, again and again.
   */
  lateness(waiter: LanePermit, now: number): Lateness | undefined {
    if (now >= waiter.dueAt) return 'deadline';
    if (now >= waiter.dueAt - this.#needMs) return 'late';
    if (now >= waiter.arrivedAt + this.#goneMs) return 'late';
    if (now >= waiter.arrivedAt + this.#waitMsMax) return 'stale';
    return now >= waiter.arrivedAt + this.#targetMs && this.isStanding(now) ? 'stale' : undefined;
  }

  /** True if the queue is standing, by CoDel's interval or by the waits: the newest goes first. */
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

  /** Sets the timer for the next waiter whose time may be over. */
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
