import { untilAborted } from '../base/abort.ts';
import { checkNumber } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import { SpillwayError } from '../base/errors.ts';
import { settle } from '../base/options.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import {
  type BucketOptions,
  type BucketStats,
  bucketRules,
  type SlowOptions,
} from '../outbound/bucket.ts';
import { TokenQueue } from '../outbound/token-queue.ts';
import { SlotReserver } from './slot-reserver.ts';
import { type SharedOptions, sharedRules } from './store-link.ts';

export interface SharedBucketOptions extends Omit<BucketOptions, 'burst'>, SharedOptions {
  /**
   * Tokens that may be saved up; an integer, at least what accrues in 20 ms.
   * @default what accrues in 100 ms
   */
  readonly burst?: number | undefined;
}

export interface SharedBucketStats extends BucketStats<'shared-bucket'> {
  /** Tokens this process has reserved. */
  readonly borrowed: number;
  /** Times the store was asked for tokens. */
  readonly trips: number;
  readonly reachable: boolean;
}

/** Tokens to keep reserved beyond those that callers wait for, while others wait as well. */
const contendedMax = 4;

/**
 * A bucket that many processes take from, who together stay within rate + burst in any second. Each
 * reserves some tokens ahead, every one with the short time in which it may be used. What is left
 * when a process ends expires. Without the store it gives out nothing.
 */
export class SharedBucket extends TokenQueue implements Part, AsyncDisposable {
  readonly name: string;
  readonly #burst: number;
  readonly #reserver: SlotReserver;
  readonly #clock: Clock;
  readonly #closing: Closing;
  #reserving: Promise<void> | undefined;
  #pausedUntil = -Infinity;
  /** Tokens that this process lately took in the time of a batch. */
  #usual = 0;
  #reservedAt = 0;
  #takenBefore = 0;
  #slowed = 0;

  constructor(options: SharedBucketOptions) {
    const burstMin = Math.max(1, Math.ceil(Object(options).ratePerSecond / 50));
    const rules = { ...bucketRules(options, 10, burstMin), ...sharedRules };
    const settled = settle('SharedBucket', options, rules);
    super(settled);
    this.name = settled.name;
    this.#burst = settled.burst;
    this.#clock = settled.clock;
    this.#reserver = new SlotReserver(settled, settled);
    this.#closing = new Closing(this.#clock, (limit) => this.#close(limit));
  }

  get stats(): SharedBucketStats {
    const { slots, ratePerSecond, borrowed, trips, isReachable } = this.#reserver;
    return {
      kind: 'shared-bucket',
      tokens: slots.left,
      ratePerSecond,
      waiting: this.waiting,
      taken: this.taken,
      refused: this.refused,
      slowed: this.#slowed,
      pausedMs: Math.max(0, this.#pausedUntil - this.#clock.now()),
      borrowed,
      trips,
      reachable: isReachable,
    };
  }

  /** Takes `n` of the tokens reserved here, at most the burst; else asks for some. */
  override tryTake(n = 1): boolean {
    if (this.#closing.hasBegun) throw closed();
    const isTaken = super.tryTake(n);
    const missing = isTaken ? 0 : n;
    if (this.waiting === 0 && this.#msUntilAsk(missing) === 0) this.#reserve(missing);
    return isTaken;
  }

  /** Call after each 429: as {@link Bucket.slow}, for all processes, within a second. */
  slow({ retryAfterMs = 0 }: SlowOptions = {}): void {
    checkNumber('retryAfterMs', retryAfterMs, 0, Number.MAX_SAFE_INTEGER);
    void this.#slow(retryAfterMs);
  }

  /** True while the store answers, until `close`. */
  get ready(): boolean {
    return this.#reserver.isReachable && !this.#closing.hasBegun;
  }

  /** Refuses all who wait; what is reserved expires. */
  close(options?: CloseOptions): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(limit: AbortSignal): Promise<void> {
    this.refuseAll(closed());
    await untilAborted(this.#reserving ?? Promise.resolve(), limit);
  }

  async #slow(retryAfterMs: number): Promise<void> {
    const pausedUntil = this.#clock.now() + retryAfterMs;
    // A store that cannot be told hears of the next 429.
    if (!(await this.#reserver.slow(retryAfterMs).catch(() => false))) return;
    this.#slowed += 1;
    this.#pausedUntil = Math.max(this.#pausedUntil, pausedUntil);
    this.serve();
  }

  protected override spend(n: number): boolean {
    const now = this.#reserver.now();
    return now < this.#reserver.trustedUntil && this.#reserver.slots.spend(n, now);
  }

  /** At the least: other processes may come in between. */
  protected override msUntil(n: number): number {
    const { slots, ratePerSecond } = this.#reserver;
    return (Math.max(0, n - slots.left - this.#burst) / ratePerSecond) * 1000;
  }

  /** Until its slots have come, or until it is time to ask for some. */
  protected override msUntilServed(n: number): number {
    const now = this.#reserver.now();
    const askMs = this.#msUntilAsk(n) ?? Infinity;
    if (askMs === 0) this.#reserve(n);
    const slotMs = this.#reserver.slots.msUntil(n, now) ?? Infinity;
    const isTrusted = now + slotMs < this.#reserver.trustedUntil;
    // An answer that is on its way goes on from here by itself.
    return Math.min(isTrusted ? slotMs : Infinity, askMs === 0 ? Infinity : askMs);
  }

  /** Milliseconds until it is time to ask the store; undefined while there is no need to. */
  #msUntilAsk(n: number): number | undefined {
    const now = this.#reserver.now();
    if (this.#reserving !== undefined) return undefined;
    if (now < this.#pausedUntil) return this.#pausedUntil - now;
    const { slots, trustedUntil, leadMs, batch } = this.#reserver;
    const slotMs = n > 0 ? slots.msUntil(n, now) : 0;
    if (slotMs === undefined) return 0;
    // What is there has to be confirmed first, and may be far ahead.
    if (now + slotMs >= trustedUntil) return slotMs - leadMs < 1 ? 0 : slotMs - leadMs;
    // A quarter of it is left: a visit for a token or two is not worth it yet.
    const target = Math.min(batch, Math.max(n, this.wanted, this.#ahead));
    return slots.left * 4 < target ? 0 : undefined;
  }

  #reserve(together: number): void {
    const { slots } = this.#reserver;
    const isHere = together === 0 || slots.msUntil(together, this.#reserver.now()) !== undefined;
    const inOne = isHere ? 0 : together;
    this.#reserving = this.#visit(Math.max(inOne, this.#missing()), inOne);
  }

  /**
   * Tokens to keep reserved, whoever waits. Whoever reserved ahead by what it got, while others
   * wait as well, would get ever more of what all want.
   */
  get #ahead(): number {
    const most = this.#reserver.isContended ? contendedMax : Infinity;
    return Math.ceil(Math.min(most, this.#usual));
  }

  /**
   * Counts what to reserve for those who wait, up to a batch, so that none needs parts of two.
   * While others wait as well, for as many again as wait, who come next, if so many came of late:
   * visits are half as many then, and shares still go by who waits.
   */
  #missing(): number {
    const { slots, batch, isContended } = this.#reserver;
    let covered = slots.left;
    let sum = 0;
    for (const n of this.wants()) {
      if (sum === 0 && n <= covered) covered -= n;
      else if (sum > 0 && sum + n > batch) break;
      else sum += n;
    }
    const again = Math.min(this.wanted, batch - sum, 2 * (Math.floor(this.#usual) - contendedMax));
    if (isContended) sum += Math.max(0, again);
    return Math.max(sum, Math.min(batch, this.#ahead) - slots.left);
  }

  async #visit(n: number, together: number): Promise<void> {
    try {
      await this.#reserver.reserve(n, together);
      this.#learn();
    } catch (error) {
      this.refuseAll(error);
    }
    this.#reserving = undefined;
    this.serve();
  }

  #learn(): void {
    const now = this.#clock.now();
    const { batch, ratePerSecond } = this.#reserver;
    const ms = Math.max(1, now - this.#reservedAt);
    this.#usual = ((this.taken - this.#takenBefore) * batch * 1000) / ratePerSecond / ms;
    this.#takenBefore = this.taken;
    this.#reservedAt = now;
  }
}

function closed(): SpillwayError {
  return new SpillwayError('BUCKET_CLOSED', 'the bucket is closed');
}
