import type { Bucket, BucketOptions, BucketStats } from './bucket.ts';
import type { BucketRule } from './bucket-state.ts';
import { check, checkInteger, checkNumber } from './check.ts';
import { type Clock, systemClock } from './clock.ts';
import { SpillwayError } from './errors.ts';
import { LinkedList } from './linked-list.ts';
import { batchMs, SlotSource } from './shared-bucket-source.ts';
import type { Grant } from './shared-bucket-state.ts';
import type { SharedOptions } from './store-link.ts';
import { Waiter } from './wait-queue.ts';

export interface SharedBucketOptions extends Omit<BucketOptions, 'burst'>, SharedOptions {
  /** Tokens that may be saved up, at least what accrues in 20 ms; by default in 100 ms. */
  readonly burst?: number | undefined;
  /**
   * The share of the rate that this process gives out by itself while the store is unreachable;
   * from 0 to 1, default 0: then it gives out nothing.
   */
  readonly localShare?: number | undefined;
}

export interface SharedBucketStats extends BucketStats {
  /** Tokens this process has reserved. */
  readonly borrowed: number;
  /** Times the store was asked for tokens. */
  readonly trips: number;
  readonly reachable: boolean;
}

class Taker extends Waiter<void> {
  readonly n: number;

  constructor(n: number, signal: AbortSignal | undefined, left: () => void) {
    super(signal, left);
    this.n = n;
  }
}

/**
 * A bucket that many processes take from, who together stay within rate + burst in any second. Each
 * reserves some tokens ahead, every one with the short time in which it may be used. What is not
 * used in time is lost, so nothing has to be given back by a process that crashes.
 */
export class SharedBucket
  implements Pick<Bucket, 'take' | 'tryTake' | 'slow' | 'stats'>, AsyncDisposable
{
  readonly #burst: number;
  readonly #queueMax: number;
  readonly #source: SlotSource;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  readonly #takers = new LinkedList<Taker>();
  #grants: Grant[] = [];
  #timer: Disposable | undefined;
  #borrowing = false;
  #pausedUntil = 0;
  /** Grows with each slowing down: what was asked for before is void. */
  #round = 0;
  /** Tokens that those in the queue wait for. */
  #wanted = 0;
  /** What this process lately took in the time of a batch. */
  #usual = 0;
  #grantedAt = 0;
  #takenBefore = 0;
  #taken = 0;
  #refused = 0;
  #slowed = 0;
  #borrowed = 0;

  constructor(options: SharedBucketOptions) {
    const { ratePerSecond, queueMax, recoverMs = 60_000, roundMs = 1_000 } = options;
    const { localShare = 0 } = options;
    const rateRule = 'a number above 0, up to 100000';
    check(ratePerSecond > 0 && ratePerSecond <= 100_000, 'ratePerSecond', rateRule, ratePerSecond);
    const burst = options.burst ?? Math.ceil(ratePerSecond / 10);
    checkInteger('burst', burst, Math.max(1, Math.ceil(ratePerSecond / 50)));
    checkInteger('queueMax', queueMax, 0);
    checkNumber('recoverMs', recoverMs, 1, Number.MAX_SAFE_INTEGER);
    checkNumber('roundMs', roundMs, 0, Number.MAX_SAFE_INTEGER);
    checkNumber('localShare', localShare, 0, 1);
    const rule: BucketRule = { ratePerSecond, burst, recoverMs, roundMs };
    this.#burst = burst;
    this.#queueMax = queueMax;
    this.#clock = options.clock ?? systemClock;
    this.#source = new SlotSource(options, rule, localShare);
  }

  get stats(): SharedBucketStats {
    return {
      tokens: this.#left(),
      ratePerSecond: this.#source.ratePerSecond,
      waiting: this.#takers.size,
      taken: this.#taken,
      refused: this.#refused,
      slowed: this.#slowed,
      pausedMs: Math.max(0, this.#pausedUntil - this.#clock.now()),
      borrowed: this.#borrowed,
      trips: this.#source.trips,
      reachable: this.#source.reachable,
    };
  }

  /** Resolves when `n` tokens are there and all who came before in this process have theirs. */
  async take(n = 1, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (this.tryTake(n)) return;
    if (this.#takers.size >= this.#queueMax) {
      this.#refused += 1;
      throw new SpillwayError('BUCKET_FULL', `${this.#takers.size} waiting for tokens`, {
        retryAfterMs: ((this.#wanted + n) / this.#source.ratePerSecond) * 1000,
      });
    }
    const taker: Taker = new Taker(n, signal, () => {
      this.#wanted -= n;
      this.#serve();
    });
    this.#takers.push(taker);
    this.#wanted += n;
    if (this.#takers.size === 1) this.#serve();
    return taker.promise;
  }

  /** Takes `n` of the tokens reserved here, at most half the burst; else asks for some. */
  tryTake(n = 1): boolean {
    checkInteger('n', n, 1, Math.ceil(this.#burst / 2));
    if (this.#closing.signal.aborted) throw closed();
    if (this.#takers.size > 0) return false;
    if (this.#msUntil(n) === 0) {
      this.#spend(n);
      this.#borrow(0);
      return true;
    }
    this.#borrow(n);
    return false;
  }

  /** To be told of a 429: all processes pause and slow down, as soon as each asks the store. */
  slow({ retryAfterMs = 0 }: { readonly retryAfterMs?: number | undefined } = {}): void {
    checkNumber('retryAfterMs', retryAfterMs, 0, Number.MAX_SAFE_INTEGER);
    const now = this.#clock.now();
    this.#round += 1;
    this.#grants = [];
    this.#pausedUntil = Math.max(this.#pausedUntil, now + retryAfterMs);
    this.#source.slow(retryAfterMs).then(
      (halved) => {
        if (halved) this.#slowed += 1;
      },
      () => {},
    );
    this.#serve();
  }

  /** Refuses all who wait; what was reserved expires by itself. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(closed());
    this.#grants = [];
    this.#refuseAll(this.#closing.signal.reason);
  }

  #refuseAll(reason: unknown): void {
    this.#timer?.[Symbol.dispose]();
    this.#wanted = 0;
    for (let taker = this.#takers.shift(); taker; taker = this.#takers.shift()) {
      taker.refuse(reason);
    }
  }

  #left(): number {
    return this.#grants.reduce((sum, grant) => sum + grant.left, 0);
  }

  #msUntil(n: number): number | undefined {
    for (;;) {
      const ms = this.#grants[0]?.msUntil(n, this.#clock.now());
      if (ms !== undefined || this.#grants.length === 0) return ms;
      this.#grants.shift();
    }
  }

  #spend(n: number): void {
    this.#grants[0]?.spend(n);
    this.#taken += n;
  }

  readonly #serve = (): void => {
    this.#timer?.[Symbol.dispose]();
    for (let { first } = this.#takers; first; { first } = this.#takers) {
      const ms = this.#msUntil(first.n);
      if (ms !== 0) {
        this.#await(ms, first.n);
        break;
      }
      this.#takers.remove(first);
      this.#wanted -= first.n;
      this.#spend(first.n);
      first.grant();
    }
  };

  /** The first has to wait: for the slots it has, or for the store to have some. */
  #await(ms: number | undefined, n: number): void {
    const now = this.#clock.now();
    const mayBorrowAt = Math.max(this.#source.notBefore, this.#pausedUntil);
    this.#borrow(n);
    const waitMs = ms ?? (mayBorrowAt > now ? mayBorrowAt - now : undefined);
    // Without either, the store is being asked, and its answer goes on from here.
    if (waitMs !== undefined) this.#timer = this.#clock.after(waitMs, this.#serve);
  }

  #borrow(nMin: number): void {
    const now = this.#clock.now();
    if (this.#borrowing || now < this.#source.notBefore || now < this.#pausedUntil) return;
    const left = this.#left();
    const target = Math.max(nMin, this.#wanted, Math.ceil(this.#usual));
    // Half of it is left: a visit for a token or two is not worth it yet.
    if (left >= nMin && left * 2 >= target) return;
    this.#borrowing = true;
    void this.#fetch(Math.max(nMin, target - left));
  }

  async #fetch(n: number): Promise<void> {
    const { signal } = this.#closing;
    const round = this.#round;
    try {
      const grant = await this.#source.fetch(n, signal);
      if (round === this.#round) this.#accept(grant);
    } catch (error) {
      if (!signal.aborted) this.#refuseAll(error);
    }
    this.#borrowing = false;
    if (!signal.aborted) this.#serve();
  }

  #accept(grant: Grant): void {
    const now = this.#clock.now();
    const ms = Math.max(1, now - this.#grantedAt);
    const most = Math.ceil((this.#source.ratePerSecond * batchMs) / 1000);
    this.#usual = Math.min(most, ((this.#taken - this.#takenBefore) * batchMs) / ms);
    this.#takenBefore = this.#taken;
    this.#grantedAt = now;
    this.#grants.push(grant);
    this.#borrowed += grant.left;
  }
}

function closed(): SpillwayError {
  return new SpillwayError('BUCKET_CLOSED', 'the bucket is closed');
}
