import { runUntilAborted } from '../base/abort.ts';
import { check, checkInteger, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { msLeft } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import type { Bucket, BucketOptions, BucketStats } from '../outbound/bucket.ts';
import type { BucketRule } from '../outbound/bucket-state.ts';
import { rejectSoon } from '../wait/reject-soon.ts';
import { Ring } from '../wait/ring.ts';
import { Waiter } from '../wait/wait-queue.ts';
import { SlotSource } from './slot-reserver.ts';
import type { SharedOptions } from './store-link.ts';

export interface SharedBucketOptions extends Omit<BucketOptions, 'burst'>, SharedOptions {
  /** Tokens that may be saved up, at least what accrues in 20 ms; by default in 100 ms. */
  readonly burst?: number | undefined;
  /**
   * The share of the rate that this process gives out by itself while the store is unreachable;
   * from 0 to 1, default 0: then it gives out nothing.
   */
  readonly localShare?: number | undefined;
}

export interface SharedBucketStats extends BucketStats<'shared-bucket'> {
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
 * reserves some tokens ahead, every one with the short time in which it may be used. What is left
 * goes back to the others when it is closed, and expires when its process crashes.
 */
export class SharedBucket
  implements Runner, Pick<Bucket, 'take' | 'tryTake' | 'slow'>, AsyncDisposable
{
  readonly #burst: number;
  readonly #queueMax: number;
  readonly #source: SlotSource;
  readonly #clock: Clock;
  readonly #takers = new Ring<Taker>();
  #timer: Disposable | undefined;
  #fetching: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #pausedUntil = 0;
  /** Tokens that those in the queue wait for. */
  #wanted = 0;
  /** What this process lately took in the time of a batch. */
  #usual = 0;
  #fetchedAt = 0;
  #takenBefore = 0;
  #taken = 0;
  #refused = 0;
  #slowed = 0;

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
    const { hand, ratePerSecond, borrowed, trips, reachable } = this.#source;
    return {
      kind: 'shared-bucket',
      tokens: hand.left,
      ratePerSecond,
      waiting: this.#takers.size,
      taken: this.#taken,
      refused: this.#refused,
      slowed: this.#slowed,
      pausedMs: Math.max(0, this.#pausedUntil - this.#clock.now()),
      borrowed,
      trips,
      reachable,
    };
  }

  /** Resolves when `n` tokens are there and all who came before in this process have theirs. */
  async take(n = 1, { signal }: RunOptions = {}): Promise<void> {
    signal?.throwIfAborted();
    if (this.tryTake(n)) return;
    const retryAfterMs = ((this.#wanted + n) / this.#source.ratePerSecond) * 1000;
    if (this.#takers.size >= this.#queueMax || retryAfterMs > msLeft(signal)) {
      this.#refused += 1;
      const message = `${this.#takers.size} waiting for tokens`;
      return rejectSoon(new SpillwayError('BUCKET_FULL', message, { retryAfterMs }));
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

  /** Takes a token, waiting for it if need be, and runs the task. */
  async run<T>(task: Task<T>, options: RunOptions = {}): Promise<T> {
    await this.take(1, options);
    return await runUntilAborted(task, options.signal);
  }

  /** Takes `n` of the tokens reserved here, at most the burst; else asks for some. */
  tryTake(n = 1): boolean {
    checkInteger('n', n, 1, this.#burst);
    if (this.#closing !== undefined) throw closed();
    if (this.#takers.size > 0) return false;
    const taken = this.#spend(n);
    const msUntilAsk = this.#msUntilAsk(taken ? 0 : n);
    if (msUntilAsk === 0) this.#fetch(taken ? 0 : n);
    return taken;
  }

  /** To be told of a 429: all processes pause and slow down, within a second. */
  slow({ retryAfterMs = 0 }: { readonly retryAfterMs?: number | undefined } = {}): void {
    checkNumber('retryAfterMs', retryAfterMs, 0, Number.MAX_SAFE_INTEGER);
    this.#pausedUntil = Math.max(this.#pausedUntil, this.#clock.now() + retryAfterMs);
    this.#source.slow(retryAfterMs).then(
      (halved) => {
        if (halved) this.#slowed += 1;
      },
      () => {},
    );
    this.#serve();
  }

  /** Refuses all who wait, and gives back what was reserved. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#refuseAll(closed());
    // What is asked for now must be given back as well.
    await this.#fetching;
    await this.#source.giveBack();
  }

  #refuseAll(reason: unknown): void {
    this.#timer?.[Symbol.dispose]();
    this.#wanted = 0;
    for (let taker = this.#takers.shift(); taker; taker = this.#takers.shift()) {
      taker.refuse(reason);
    }
  }

  #spend(n: number): boolean {
    const now = this.#source.now();
    const { hand, trustedUntil } = this.#source;
    if (now >= trustedUntil || !hand.spend(n, now)) return false;
    this.#taken += n;
    return true;
  }

  readonly #serve = (): void => {
    this.#timer?.[Symbol.dispose]();
    let { first } = this.#takers;
    for (; first && this.#spend(first.n); { first } = this.#takers) {
      this.#takers.remove(first);
      this.#wanted -= first.n;
      first.grant();
    }
    if (first && this.#closing === undefined) this.#await(first.n);
  };

  /** The first has to wait: until its slots have come, or until it is time to ask for some. */
  #await(n: number): void {
    const now = this.#source.now();
    const askMs = this.#msUntilAsk(n) ?? Infinity;
    if (askMs === 0) this.#fetch(n);
    const slotMs = this.#source.hand.msUntil(n, now) ?? Infinity;
    const isTrusted = now + slotMs < this.#source.trustedUntil;
    // An answer that is on its way goes on from here by itself.
    const ms = Math.min(isTrusted ? slotMs : Infinity, askMs === 0 ? Infinity : askMs);
    this.#timer = this.#clock.after(ms, this.#serve);
  }

  /** Milliseconds until it is time to ask the store; undefined while there is no need to. */
  #msUntilAsk(n: number): number | undefined {
    const now = this.#source.now();
    if (this.#fetching !== undefined) return undefined;
    if (now < this.#pausedUntil) return this.#pausedUntil - now;
    const { hand, trustedUntil, leadMs, batch } = this.#source;
    const slotMs = n > 0 ? hand.msUntil(n, now) : 0;
    if (slotMs === undefined) return 0;
    // What is there has to be confirmed first, and may be far ahead.
    if (now + slotMs >= trustedUntil) return slotMs - leadMs < 1 ? 0 : slotMs - leadMs;
    // A quarter of it is left: a visit for a token or two is not worth it yet.
    const target = Math.min(batch, Math.max(n, this.#wanted, Math.ceil(this.#usual)));
    return hand.left * 4 < target ? 0 : undefined;
  }

  #fetch(together: number): void {
    const { hand } = this.#source;
    const isHere = together === 0 || hand.msUntil(together, this.#source.now()) !== undefined;
    const n = Math.max(isHere ? 0 : together, this.#missing());
    this.#fetching = this.#ask(n, isHere ? 0 : together);
  }

  /** What to reserve for those who wait, up to a batch, so that none needs parts of two. */
  #missing(): number {
    const { hand, batch } = this.#source;
    let covered = hand.left;
    let sum = 0;
    for (const { n } of this.#takers) {
      if (sum === 0 && n <= covered) covered -= n;
      else if (sum > 0 && sum + n > batch) break;
      else sum += n;
    }
    return Math.max(sum, Math.min(batch, Math.ceil(this.#usual)) - hand.left);
  }

  async #ask(n: number, together: number): Promise<void> {
    let error: unknown;
    try {
      await this.#source.fetch(n, together);
    } catch (reason) {
      error = reason;
    }
    this.#fetching = undefined;
    if (error === undefined) this.#learn();
    else this.#refuseAll(error);
    this.#serve();
  }

  #learn(): void {
    const now = this.#clock.now();
    const { batch, ratePerSecond } = this.#source;
    const ms = Math.max(1, now - this.#fetchedAt);
    this.#usual = ((this.#taken - this.#takenBefore) * batch * 1000) / ratePerSecond / ms;
    this.#takenBefore = this.#taken;
    this.#fetchedAt = now;
  }
}

function closed(): SpillwayError {
  return new SpillwayError('BUCKET_CLOSED', 'the bucket is closed');
}
