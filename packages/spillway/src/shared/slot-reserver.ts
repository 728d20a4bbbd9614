import { SpillwayError } from '../base/errors.ts';
import { type BucketRule, roundMs, type SlotRun, slotLifeMs } from '../outbound/slots.ts';
import {
  reserveSlots,
  type SlotGrant,
  type SlotWish,
  slowBucket,
  trustMs,
} from './bucket-record.ts';
import { ReservedSlots } from './reserved-slots.ts';
import { type SharedOptions, StoreLink } from './store-link.ts';
import { StoreTime } from './store-time.ts';

/** The shortest and the longest time whose tokens one visit reserves, in milliseconds. */
const batchMsMin = 50;
const batchMsMax = 500;
/** Between the two, a visit reserves this many: enough to share its cost. */
const batchEnough = 32;
/** The longest trip that counts, in milliseconds: one slow answer must not set the lead. */
const tripMsMax = 100;
/** A gap before new slots that is longer, in milliseconds, means that others reserved some. */
const gapMsMax = 0.01;
/** Answers in a row that are too slow to tell the time by; then the store is unreachable. */
const attemptsMax = 3;

/**
 * Reserves a shared bucket's slots ahead for this process.
 *
 *     this process                    store's record          another process
 *     ────────────                    ──────────────          ───────────────
 *     visit ────────────────────────> next: 1 .. 8   <─────────────── visit
 *     <── slots 1 .. 8 reserved       next: 9 .. 16     9 .. 16 reserved ──>
 *     uses 1 .. 8, each in its time
 *     visit, when a quarter is left ─> next: 17 ..
 *     <── 17 .. reserved, and the rest confirmed for 900 ms
 *                                     slow: halved   <──── slow, after a 429
 *                                     round + 1, nothing before 1,000 ms
 *     visit ────────────────────────> another round
 *     <── what was reserved is void
 */
export class SlotReserver {
  /** With the length of a round, which stores need that decide in their own language. */
  readonly #rule: BucketRule & { readonly roundMs: number };
  readonly #link: StoreLink;
  readonly #name: string;
  readonly #time = new StoreTime();
  readonly slots: ReservedSlots;
  #round = 0;
  /** Grows when all slots become void, those of a visit under way too. */
  #voids = 0;
  #lastAt = -Infinity;
  /** Local time from which on reserved slots have to be confirmed by a visit before use. */
  trustedUntil = 0;
  /** The longest time of a visit, of late. */
  #tripMs = 0;
  /** The end of the last slots reserved here, in the store's time. */
  #endsAt = -Infinity;
  /** True if other processes reserved slots since the last visit, and no slot is free at once. */
  isContended = false;
  ratePerSecond: number;
  borrowed = 0;
  trips = 0;
  isReachable = true;

  constructor(options: SharedOptions, { ratePerSecond, burst, recoverMs }: BucketRule) {
    this.#rule = { ratePerSecond, burst, recoverMs, roundMs };
    this.#link = new StoreLink(options);
    this.#name = `bucket/${options.name}`;
    this.slots = new ReservedSlots(this.#rule, this.#time);
    this.ratePerSecond = ratePerSecond;
  }

  /** The local time. If it has gone back, the times of the slots are not known any more. */
  now(): number {
    const now = this.#link.clock.now();
    if (now < this.#lastAt) this.#void();
    this.#lastAt = now;
    return now;
  }

  /** Time before tokens are needed at which to ask, in milliseconds. */
  get leadMs(): number {
    return 2 + 2 * this.#tripMs;
  }

  /** The number of tokens that one visit reserves, if callers want them. */
  get batch(): number {
    const perMs = this.ratePerSecond / 1000;
    const enough = Math.min(batchEnough, perMs * batchMsMax);
    return Math.ceil(Math.max(enough, perMs * (batchMsMin + 2 * this.#tripMs)));
  }

  /** Reserves `n` slots, at least those for `together` tokens in one run; confirms all others. */
  async reserve(n: number, together: number): Promise<void> {
    try {
      await this.#visit(n, together);
      this.isReachable = true;
    } catch (error) {
      this.isReachable = false;
      throw error;
    }
  }

  /** Tells all processes of a 429; true when it halved the rate. */
  async slow(retryAfterMs: number): Promise<boolean> {
    const argument = { rule: { ...this.#rule }, retryAfterMs };
    const { answer } = await this.#link.apply(this.#name, slowBucket, argument);
    if (answer === 'halved') this.#void();
    return answer === 'halved';
  }

  /** True if the store's time is known well enough to use slots by it. */
  #knowsTime(at: number): boolean {
    return this.#time.uncertaintyMs(at) <= slotLifeMs(this.#rule) / 2;
  }

  #void(): void {
    this.#voids += 1;
    this.slots.clear();
  }

  async #visit(n: number, together: number): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const startedAt = this.now();
      const voids = this.#voids;
      this.trips += 1;
      const wish = this.#wish(n, together, attempt);
      const argument = { rule: { ...this.#rule }, ...wish };
      const done = await this.#link.apply(this.#name, reserveSlots, argument);
      this.#time.note(done);
      const endedAt = this.now();
      // No visit lasts that long: the local clock has jumped.
      if (endedAt - startedAt > 2 * this.#link.deadlineMs) this.#void();
      if (voids !== this.#voids) return;
      const grant = done.answer as unknown as SlotGrant;
      if (grant.round !== this.#round) this.slots.clear();
      this.#round = grant.round;
      this.trustedUntil = done.sentAt + trustMs;
      this.ratePerSecond = grant.ratePerSecond;
      this.#tripMs = Math.min(tripMsMax, Math.max(endedAt - startedAt, this.#tripMs * 0.8));
      if (this.#knowsTime(endedAt)) {
        if (wish.n > 0) this.#add({ at: grant.at, stepMs: grant.stepMs, n: wish.n }, done.now);
        return;
      }
      // One slow answer says little; the next may be quick, and then nothing is lost.
      if (attempt < attemptsMax) continue;
      const uncertaintyMs = Math.ceil(this.#time.uncertaintyMs(endedAt));
      const message = `the store's time is known to ${uncertaintyMs} ms: burst is too small`;
      throw new SpillwayError('STORE_UNREACHABLE', message);
    }
  }

  #add(run: SlotRun, now: number): void {
    this.isContended = run.at > Math.max(now, this.#endsAt) + gapMsMax;
    this.#endsAt = run.at + run.n * run.stepMs;
    this.slots.add(run);
    this.borrowed += run.n;
  }

  /** The slots to ask for. While the time is not known, single slots once, then none. */
  #wish(n: number, together: number, attempt: number): SlotWish {
    const here = this.#link.clock.now();
    const lifeMs = slotLifeMs(this.#rule);
    if (!this.#knowsTime(here)) {
      const isWorthIt = attempt === 1 && together <= 1;
      return { n: isWorthIt ? n : 0, restMs: lifeMs / 2 };
    }
    const inOne = this.slots.cost(together, here);
    // A slot must still be valid for a while when the answer has come.
    const uncertaintyMs = this.#time.uncertaintyMs(here);
    const restMs = Math.min(lifeMs / 2, uncertaintyMs + 5 + 2 * this.#tripMs);
    return { n: Math.max(n, inOne), restMs };
  }
}
