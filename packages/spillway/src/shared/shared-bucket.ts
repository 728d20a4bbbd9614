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

/** Tokens to reserve beyond those that callers wait for, while other processes wait as well. */
const contendedMax = 4;

/**
 * A bucket of many processes, which together stay within rate + burst in any second. Each process
 * reserves some tokens ahead, which expire if they are not used soon. Without the store no tokens
 * are given out.
 */
export class SharedBucket extends TokenQueue implements Part, AsyncDisposable {
  readonly name: string;
  readonly #burst: number;
  readonly #reserver: SlotReserver;
  readonly #clock: Clock;
  readonly #closing: Closing;
  #reserving: Promise<void> | undefined;
  #pausedUntil = -Infinity;
  /** Tokens that this process takes in the time of a batch, by the last visit. */
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
    // If the store is away, the next 429 is reported instead.
    if (!(await this.#reserver.slow(retryAfterMs).catch(() => false))) return;
    this.#slowed += 1;
    this.#pausedUntil = Math.max(this.#pausedUntil, pausedUntil);
    this.serve();
  }

  protected override spend(n: number): boolean {
    const now = this.#reserver.now();
    return now < this.#reserver.trustedUntil && this.#reserver.slots.spend(n, now);
  }

  /** A lower bound, since other processes may take tokens as well. */
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
    // A visit that is under way serves the queue when it ends.
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
    // The slots have to be confirmed first, shortly before their time.
    if (now + slotMs >= trustedUntil) return slotMs - leadMs < 1 ? 0 : slotMs - leadMs;
    // A visit only pays when less than a quarter is left.
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
   * Tokens to keep reserved, whether callers wait or not. While other processes wait as well it is
   * bounded: by what it lately got, a process would take an ever larger share.
   */
  get #ahead(): number {
    const most = this.#reserver.isContended ? contendedMax : Infinity;
    return Math.ceil(Math.min(most, this.#usual));
  }

  /**
   * Counts the tokens to reserve for waiters, up to a batch of whole requests. While other
   * processes wait as well, it adds as many again for the next callers, if so many came lately:
   * that halves the visits, and shares still follow the number of waiters.
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
