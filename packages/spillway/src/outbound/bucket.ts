import { check, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { clockRule, integer, number, or, positive, type Rules, settle } from '../base/options.ts';
import {
  type BucketRule,
  freshSlots,
  give,
  nextRun,
  rateAt,
  resizeSlots,
  type SlotRun,
  type SlotState,
  slotLifeMs,
  slowSlots,
} from './slots.ts';
import { TokenQueue } from './token-queue.ts';

export interface BucketOptions {
  /**
   * Tokens that accrue each second; above 0, up to 1,000,000, fractions allowed. Any second lets at
   * most this and the burst through: "50 in any second" is a rate of 49 and a burst of 1.
   */
  readonly ratePerSecond: number;
  /** Tokens that may be saved up; an integer from 1. @default what accrues in 20 ms */
  readonly burst?: number | undefined;
  /** Callers that may wait for tokens; one more is refused. An integer from 0. */
  readonly queueMax: number;
  /**
   * The longest time to get back to the rate after a second with 429s, in ms; from 1. Each one that
   * halves the rate again before that doubles it, up to twelve times. @default 5_000
   */
  readonly recoverMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface SlowOptions {
  /** The silence that the other side asks for, in milliseconds; from 0. @default 0 */
  readonly retryAfterMs?: number | undefined;
}

export interface BucketStats<Kind extends string = 'bucket'> {
  readonly kind: Kind;
  readonly tokens: number;
  /** The rate now: below the configured one while the bucket recovers from a 429. */
  readonly ratePerSecond: number;
  readonly waiting: number;
  /** Tokens given out. */
  readonly taken: number;
  /** Callers turned away because the queue was full, or their deadline too near. */
  readonly refused: number;
  /** Times that the rate was halved. */
  readonly slowed: number;
  /** Milliseconds until tokens accrue again; 0 when they do. */
  readonly pausedMs: number;
}

/** The highest rate of a bucket: a time since 1970 is exact to a quarter of a microsecond. */
export const rateMax = 1_000_000;
/** A token due within a microsecond is there: timers too short would not move the clock. */
const dueMs = 0.001;

/**
 * Token bucket: how many may start per second. Starts full, serves in order of arrival, and never
 * lets more than rate + burst through in any second.
 */
export class Bucket extends TokenQueue {
  #options: BucketOptions;
  #rule: BucketRule;
  readonly #clock: Clock;
  readonly #state: SlotState;
  #slowed = 0;

  constructor(options: BucketOptions) {
    // Timers are rarely more than 20 ms late, and what accrues meanwhile must not be lost.
    const settled = settle('Bucket', options, bucketRules(options, 50, 1));
    super(settled);
    this.#options = options;
    this.#rule = settled;
    this.#clock = settled.clock;
    const now = this.#clock.now();
    this.#state = freshSlots(this.#rule, this.#oldest(now, false), now);
  }

  get stats(): BucketStats {
    const now = this.#clock.now();
    const { at, stepMs } = this.#next(1, now);
    return {
      kind: 'bucket',
      tokens: at > now + dueMs ? 0 : Math.floor((now + dueMs - at) / stepMs) + 1,
      ratePerSecond: rateAt(this.#rule, this.#state, now),
      waiting: this.waiting,
      taken: this.taken,
      refused: this.refused,
      slowed: this.#slowed,
      pausedMs: Math.max(0, this.#state.pausedUntil - now),
    };
  }

  /**
   * Call after each 429. A stray one lowers the rate by the share of the calls of the last second
   * or two that was refused. When that was more than a quarter, or the other side asks for more
   * than a second of silence, there is no token for `retryAfterMs` and then half the rate, never
   * below 1/16 of the configured one. The rate grows back evenly.
   */
  slow({ retryAfterMs = 0 }: SlowOptions = {}): void {
    checkNumber('retryAfterMs', retryAfterMs, 0, Number.MAX_SAFE_INTEGER);
    const slowing = slowSlots(this.#rule, this.#state, this.#clock.now(), retryAfterMs);
    if (slowing === 'halved') this.#slowed += 1;
    this.serve();
  }

  /**
   * Changes the rate. What is due to the next caller comes sooner or later in proportion; a burst
   * that was not given follows the rate.
   */
  resize(change: Pick<BucketOptions, 'ratePerSecond'>): void {
    check(Object(change) === change, 'Bucket.resize: options', 'an object', change);
    const options = { ...this.#options, ratePerSecond: change.ratePerSecond };
    const settled = settle('Bucket.resize', options, bucketRules(options, 50, 1));
    // A caller that waits for more than the new burst would never be served.
    const burst = Math.max(settled.burst, ...this.wants());
    const rule = { ...settled, burst };
    resizeSlots(this.#rule, rule, this.#state, this.#clock.now());
    this.#options = options;
    this.#rule = rule;
    this.change(rule);
  }

  /**
   * The time of the oldest slot that can still be given out. Unused tokens are kept up to `burst`;
   * those that accrue while a caller waits and the timer is late, for as long as a slot lives.
   */
  #oldest(now: number, isContended: boolean): number {
    const { ratePerSecond, burst } = this.#rule;
    const savedMs = ((burst - 1) / ratePerSecond) * 1000;
    return now - Math.max(savedMs, isContended ? slotLifeMs(this.#rule) - 2 * dueMs : 0);
  }

  #next(n: number, now: number): SlotRun {
    return nextRun(this.#rule, this.#state, n, this.#oldest(now, this.waiting > 0));
  }

  protected override spend(n: number): boolean {
    const now = this.#clock.now();
    const run = this.#next(n, now);
    if (lastOf(run) > now + dueMs) return false;
    give(this.#state, run, now);
    return true;
  }

  protected override msUntil(n: number): number {
    const now = this.#clock.now();
    return Math.max(0, lastOf(this.#next(n, now)) - now);
  }
}

function lastOf({ at, stepMs, n }: SlotRun): number {
  return at + (n - 1) * stepMs;
}

/** The rules of all buckets; by default a burst is what accrues in a second over `perSecond`. */
export function bucketRules(
  options: Pick<BucketOptions, 'ratePerSecond'>,
  perSecond: number,
  burstMin: number,
): Rules<BucketOptions> {
  const { ratePerSecond }: Pick<BucketOptions, 'ratePerSecond'> = Object(options);
  return {
    // The first one: the others are made from it.
    ratePerSecond: positive(rateMax),
    burst: or(integer(burstMin), Math.ceil(ratePerSecond / perSecond)),
    queueMax: integer(0),
    recoverMs: or(number(1, Number.MAX_SAFE_INTEGER), 5_000),
    clock: or(clockRule, systemClock),
  };
}
