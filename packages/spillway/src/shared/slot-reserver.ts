import { SpillwayError } from '../base/errors.ts';
import type { BucketRule } from '../outbound/bucket-state.ts';
import { Hand } from './reserved-slots.ts';
import {
  freshSlots,
  rateAt,
  reserve,
  restore,
  type SlotState,
  slotLifeMs,
  slotStateMs,
  slowSlots,
  trustMs,
} from './shared-bucket-state.ts';
import { type SharedOptions, type Sighting, StoreLink, type Updated } from './store-link.ts';
import { StoreTime } from './store-time.ts';

/** A visit to the store shall bring tokens for at least so long, and at most. */
const batchMsMin = 50;
const batchMsMax = 500;
/** Between the two, so many are enough: then what a visit costs is shared by many. */
const batchEnough = 32;
/** One slow answer must not make it ask ages ahead. */
const tripMsMax = 100;
/** So many answers are too slow to tell the time by before the store counts as unreachable. */
const attemptsMax = 3;

interface Change<T> {
  readonly value: T;
  readonly isChanged: boolean;
}

/** What this process gives out by itself while the store is away. */
interface OwnShare {
  readonly rule: BucketRule;
  readonly state: SlotState;
  readonly time: StoreTime;
  readonly hand: Hand;
}

/** A shared bucket's slots, from the store or, without it, of this process's own share. */
export class SlotSource {
  readonly #rule: BucketRule;
  readonly #link: StoreLink;
  readonly #record: string;
  readonly #time = new StoreTime();
  readonly #shared: Hand;
  readonly #own: OwnShare | undefined;
  #isOwn = false;
  /** The state and version it last left behind; only if nobody had changed it the time before. */
  #left: { readonly state: SlotState; readonly version: number } | undefined;
  #isAlone = false;
  #round = 0;
  /** Grows when all that is here or on its way becomes void. */
  #voids = 0;
  #lastAt = -Infinity;
  #trustedUntil = 0;
  /** How long a visit takes, at most of late. */
  #tripMs = 0;
  #retryAt = 0;
  ratePerSecond: number;
  borrowed = 0;
  trips = 0;
  reachable = true;

  constructor(options: SharedOptions, rule: BucketRule, localShare: number) {
    this.#rule = rule;
    this.#link = new StoreLink(options);
    this.#record = `bucket/${options.name}`;
    this.#shared = new Hand(rule, this.#time);
    this.ratePerSecond = rule.ratePerSecond;
    if (localShare > 0) this.#own = ownShare(rule, localShare, this.#link.clock.now());
  }

  /** The time here. If it has gone back, it cannot tell any more when the slots are. */
  now(): number {
    const now = this.#link.clock.now();
    if (now < this.#lastAt) this.#void();
    this.#lastAt = now;
    return now;
  }

  /** What may be used now or later. */
  get hand(): Hand {
    return this.#own && this.#isOwn ? this.#own.hand : this.#shared;
  }

  /** From then on what is in the hand has to be confirmed by a visit before it is used. */
  get trustedUntil(): number {
    return this.#isOwn ? Infinity : this.#trustedUntil;
  }

  /** How long before tokens are needed it is time to ask, in milliseconds. */
  get leadMs(): number {
    return 2 + 2 * this.#tripMs;
  }

  /** How many tokens one visit shall bring, if they are wanted. */
  get batch(): number {
    const perMs = this.ratePerSecond / 1000;
    const enough = Math.min(batchEnough, perMs * batchMsMax);
    return Math.ceil(Math.max(enough, perMs * (batchMsMin + 2 * this.#tripMs)));
  }

  /** Reserves `n` slots, of them in one run as many as `together` tokens need, and confirms all. */
  async fetch(n: number, together: number): Promise<void> {
    if (this.#isOwn && !this.reachable) return this.#fetchOwn(n, together);
    try {
      await this.#visit(n, together);
      this.reachable = true;
      this.#isOwn = false;
    } catch (error) {
      this.reachable = false;
      if (!this.#own) throw error;
      this.#isOwn = true;
      return this.#fetchOwn(n, together);
    }
  }

  /** Tells all; true when it halved the rate. */
  async slow(retryAfterMs: number): Promise<boolean> {
    this.#void();
    if (this.#own) {
      slowSlots(this.#own.rule, this.#own.state, this.#link.clock.now(), retryAfterMs);
    }
    const { value } = await this.#change((state, now) => {
      const { round } = state;
      const value = slowSlots(this.#rule, state, now, retryAfterMs);
      return { value, isChanged: state.round !== round };
    });
    return value;
  }

  /** Leaves to the others what is still in the hand; if the store cannot be told, it expires. */
  async giveBack(): Promise<void> {
    const runs = this.#shared.clear();
    if (runs.length === 0) return;
    const given = this.#change(
      (state) => {
        const isChanged = state.round === this.#round;
        if (isChanged) restore(state, runs);
        return { value: undefined, isChanged };
      },
      // Given back twice, they would be given out twice.
      { once: true },
    );
    await given.catch(() => {});
  }

  /** Whether it is known well enough when the slots come and go. */
  #knowsTime(at: number): boolean {
    return this.#time.unsureMs(at) <= slotLifeMs(this.#rule) / 2;
  }

  #void(): void {
    this.#voids += 1;
    this.#shared.clear();
    this.#own?.hand.clear();
  }

  async #visit(n: number, together: number, attempt = 1): Promise<void> {
    const { clock } = this.#link;
    const lifeMs = slotLifeMs(this.#rule);
    const startedAt = this.now();
    const voids = this.#voids;
    this.trips += 1;
    const { value, seen } = await this.#change(
      (state, now) => {
        const here = clock.now();
        const inOne = together > 0 ? this.#shared.cost(together, here) : 0;
        // A slot must still be worth something when the answer has come.
        const restMs = Math.min(lifeMs / 2, this.#time.unsureMs(here) + 5 + 2 * this.#tripMs);
        const wish = { n: Math.max(n, inOne), together: inOne, now, restMs };
        const isOfUse = wish.n > 0 && this.#knowsTime(here);
        const runs = isOfUse ? reserve(this.#rule, state, wish) : [];
        const { round } = state;
        const rate = rateAt(this.#rule, state, now);
        return { value: { runs, round, rate }, isChanged: runs.length > 0 };
      },
      { mayGuess: n > 0 },
    );
    const endedAt = this.now();
    // No visit lasts that long: the clock here has jumped, and what it told is worth nothing.
    if (endedAt - startedAt > 2 * this.#link.storeMsMax) this.#void();
    if (voids !== this.#voids) return;
    if (value.round !== this.#round) this.#shared.clear();
    this.#round = value.round;
    this.#trustedUntil = seen.sentAt + trustMs;
    this.ratePerSecond = value.rate;
    this.#tripMs = Math.min(tripMsMax, Math.max(endedAt - startedAt, this.#tripMs * 0.8));
    if (!this.#knowsTime(endedAt)) {
      // One slow answer says little; the next may be quick, and then nothing is lost.
      if (attempt < attemptsMax) return this.#visit(n, together, attempt + 1);
      throw tooSlow(this.#time.unsureMs(endedAt));
    }
    this.#shared.add(value.runs);
    this.borrowed += value.runs.reduce((sum, run) => sum + run.n, 0);
  }

  async #change<T>(
    change: (state: SlotState, now: number) => Change<T>,
    { mayGuess = false, once = false } = {},
  ): Promise<Updated<T>> {
    const guess = mayGuess && this.#isAlone ? this.#guess() : undefined;
    const before = this.#left;
    let after: SlotState | undefined;
    const decide = (seen: Sighting) => {
      const [record] = seen.records;
      if (seen !== guess) {
        this.#time.note(seen);
        this.#isAlone = record !== undefined && record.version === before?.version;
      }
      const { now } = seen;
      after =
        structuredClone(record?.value as SlotState | undefined) ?? freshSlots(this.#rule, now);
      const { value, isChanged } = change(after, now);
      const ttlMs = slotStateMs(this.#rule, after, now);
      const changed = { name: this.#record, ifVersion: record?.version ?? 0, value: after, ttlMs };
      return { value, changes: isChanged ? [changed] : undefined };
    };
    const updated = await this.#link.update([this.#record], decide, { guess, once });
    if (updated.done && after) {
      this.#time.note(updated.done);
      this.#left = { state: after, version: updated.done.version };
    }
    return updated;
  }

  /** The record as it must be if nobody else has been there, at the earliest it can be. */
  #guess(): Sighting | undefined {
    const at = this.#link.clock.now();
    if (this.#left === undefined || !this.#knowsTime(at)) return undefined;
    const record = { value: this.#left.state, version: this.#left.version, expiresAt: undefined };
    return { now: this.#time.min(at), sentAt: at, receivedAt: at, records: [record] };
  }

  #fetchOwn(n: number, together: number): void {
    const { rule, state, time, hand } = this.#own as OwnShare;
    const now = this.#link.clock.now();
    time.note({ sentAt: now, receivedAt: now, now });
    if (now >= this.#retryAt) void this.#seekStore();
    const inOne = together > 0 ? hand.cost(together, now) : 0;
    hand.add(reserve(rule, state, { n: Math.max(n, inOne), together: inOne, now, restMs: 5 }));
    this.ratePerSecond = rateAt(rule, state, now);
  }

  /** Nobody waits for this: the share is given out until the store answers again. */
  async #seekStore(): Promise<void> {
    this.#retryAt = Infinity;
    try {
      this.#time.note(await this.#link.read([this.#record]));
      this.reachable = true;
      this.#own?.hand.clear();
    } catch {}
    this.#retryAt = this.#link.clock.now() + this.#link.storeMsMax;
  }
}

function ownShare(whole: BucketRule, share: number, now: number): OwnShare {
  const ratePerSecond = whole.ratePerSecond * share;
  const burst = Math.max(1, Math.ceil(whole.burst * share + (ratePerSecond % 1)));
  const rule = { ...whole, burst, ratePerSecond };
  const time = new StoreTime();
  return { rule, state: freshSlots(rule, now), time, hand: new Hand(rule, time) };
}

function tooSlow(unsureMs: number): SpillwayError {
  const message = `the store's time is known to ${Math.ceil(unsureMs)} ms: burst is too small`;
  return new SpillwayError('STORE_UNREACHABLE', message);
}
