import { runUntilAborted } from '../base/abort.ts';
import { check, checkInteger, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { msLeft } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import { rejectSoon } from '../wait/reject-soon.ts';
import { Ring } from '../wait/ring.ts';
import { Waiter } from '../wait/wait-queue.ts';
import {
  type BucketRule,
  type BucketState,
  fullBucket,
  msUntil,
  refill,
  slowDown,
  spend,
} from './bucket-state.ts';

export interface BucketOptions {
  /** Tokens that accrue each second; above 0, up to 100,000, fractions allowed. */
  readonly ratePerSecond: number;
  /** Tokens that may be saved up; an integer from 1, by default what accrues in 20 ms. */
  readonly burst?: number | undefined;
  /** How many may wait for tokens; one more is refused. An integer from 0. */
  readonly queueMax: number;
  /** The longest time to get back to the rate, in milliseconds; from 1, default 60,000. */
  readonly recoverMs?: number | undefined;
  /** Milliseconds after slowing down in which further 429s are old news; from 0, default 1,000. */
  readonly roundMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface BucketStats<Kind extends string = 'bucket'> {
  readonly kind: Kind;
  readonly tokens: number;
  /** The rate now: below the configured one while the bucket recovers from a 429. */
  readonly ratePerSecond: number;
  readonly waiting: number;
  /** Tokens given out. */
  readonly taken: number;
  /** Callers turned away because the queue was full. */
  readonly refused: number;
  /** How many times the rate was halved. */
  readonly slowed: number;
  /** Milliseconds until tokens accrue again; 0 when they do. */
  readonly pausedMs: number;
}

class Taker extends Waiter<void> {
  readonly n: number;

  constructor(n: number, signal: AbortSignal | undefined, left: () => void) {
    super(signal, left);
    this.n = n;
  }
}

/**
 * Token bucket: how many may start per second. Starts full, serves in order of arrival, and never
 * lets more than rate + burst through in any second.
 */
export class Bucket implements Runner {
  readonly #rule: BucketRule;
  readonly #queueMax: number;
  readonly #clock: Clock;
  readonly #state: BucketState;
  readonly #takers = new Ring<Taker>();
  #timer: Disposable | undefined;
  /** Tokens that those in the queue wait for. */
  #wanted = 0;
  #taken = 0;
  #refused = 0;
  #slowed = 0;

  constructor(options: BucketOptions) {
    const { ratePerSecond, queueMax, recoverMs = 60_000, roundMs = 1_000 } = options;
    check(
      ratePerSecond > 0 && ratePerSecond <= 100_000,
      'ratePerSecond',
      'a number above 0, up to 100000',
      ratePerSecond,
    );
    // Timers are rarely more than 20 ms late, and what accrues meanwhile must not be lost.
    const burst = options.burst ?? Math.ceil(ratePerSecond / 50);
    checkInteger('burst', burst, 1);
    checkInteger('queueMax', queueMax, 0);
    checkNumber('recoverMs', recoverMs, 1, Number.MAX_SAFE_INTEGER);
    checkNumber('roundMs', roundMs, 0, Number.MAX_SAFE_INTEGER);
    this.#rule = { ratePerSecond, burst, recoverMs, roundMs };
    this.#queueMax = queueMax;
    this.#clock = options.clock ?? systemClock;
    this.#state = fullBucket(this.#rule, this.#clock.now());
  }

  get stats(): BucketStats {
    const now = this.#clock.now();
    refill(this.#rule, this.#state, now, this.#takers.size > 0);
    return {
      kind: 'bucket',
      tokens: Math.max(0, this.#state.tokens),
      ratePerSecond: this.#state.ratePerSecond,
      waiting: this.#takers.size,
      taken: this.#taken,
      refused: this.#refused,
      slowed: this.#slowed,
      pausedMs: Math.max(0, this.#state.at - now),
    };
  }

  /** Resolves when `n` tokens are there and all who came before have theirs. */
  async take(n = 1, { signal }: RunOptions = {}): Promise<void> {
    signal?.throwIfAborted();
    if (this.tryTake(n)) return;
    // Those whose timer is late have their tokens already: their places are free.
    if (this.#takers.size >= this.#queueMax) this.#serve();
    const retryAfterMs = msUntil(this.#rule, this.#state, this.#wanted + n, this.#clock.now());
    if (this.#takers.size >= this.#queueMax || retryAfterMs > msLeft(signal)) {
      this.#refused += 1;
      const message = `${this.#takers.size} waiting for tokens`;
      return rejectSoon(new SpillwayError('BUCKET_FULL', message, { retryAfterMs }));
    }
    const taker: Taker = new Taker(n, signal, () => this.#leave(taker));
    this.#takers.push(taker);
    this.#wanted += n;
    if (this.#takers.size === 1) this.#arm();
    return taker.promise;
  }

  /** Takes a token, waiting for it if need be, and runs the task. */
  async run<T>(task: Task<T>, options: RunOptions = {}): Promise<T> {
    await this.take(1, options);
    return await runUntilAborted(task, options.signal);
  }

  /** Takes `n` tokens if they are there now; never ahead of anybody who waits. */
  tryTake(n = 1): boolean {
    checkInteger('n', n, 1, this.#rule.burst);
    return this.#takers.size === 0 && this.#spend(n);
  }

  /**
   * To be told of a 429: no token for `retryAfterMs`, then half the rate (once per round, never
   * below 1/16 of the configured one), which grows back evenly within `recoverMs`.
   */
  slow({ retryAfterMs = 0 }: { readonly retryAfterMs?: number | undefined } = {}): void {
    checkNumber('retryAfterMs', retryAfterMs, 0, Number.MAX_SAFE_INTEGER);
    if (slowDown(this.#rule, this.#state, this.#clock.now(), retryAfterMs)) this.#slowed += 1;
    this.#arm();
  }

  #spend(n: number): boolean {
    const contended = this.#takers.size > 0;
    if (!spend(this.#rule, this.#state, n, this.#clock.now(), contended)) return false;
    this.#taken += n;
    return true;
  }

  readonly #serve = (): void => {
    for (let { first } = this.#takers; first && this.#spend(first.n); { first } = this.#takers) {
      this.#takers.remove(first);
      this.#wanted -= first.n;
      first.grant();
    }
    this.#arm();
  };

  /** One timer, for the oldest: nobody is served before it. */
  #arm(): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    const { first } = this.#takers;
    if (first === undefined) return;
    const ms = msUntil(this.#rule, this.#state, first.n, this.#clock.now());
    this.#timer = this.#clock.after(ms, this.#serve);
  }

  #leave(taker: Taker): void {
    this.#wanted -= taker.n;
    // The next may want less than the one that left, so its tokens may be there already.
    this.#serve();
  }
}
