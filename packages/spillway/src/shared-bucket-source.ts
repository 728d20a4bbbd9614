import type { BucketRule } from './bucket-state.ts';
import { SpillwayError } from './errors.ts';
import {
  freshSlots,
  Grant,
  rateAt,
  reserve,
  type SlotState,
  slotLifeMs,
  slotStateMs,
  slowSlots,
} from './shared-bucket-state.ts';
import { type SharedOptions, StoreLink, type Updated } from './store-link.ts';
import { StoreTime } from './store-time.ts';

/** A visit to the store shall bring enough for this long. */
export const batchMs = 50;

/** Where a shared bucket's slots come from: the store, or this process's share without it. */
export class SlotSource {
  readonly #rule: BucketRule;
  readonly #localRule: BucketRule | undefined;
  readonly #link: StoreLink;
  readonly #record: string;
  readonly #time = new StoreTime();
  readonly #local: SlotState;
  /** How long a visit takes, at most of late. */
  #tripMs = 0;
  #retryAt = 0;
  /** It has nothing more to give before then. */
  notBefore = 0;
  ratePerSecond: number;
  trips = 0;
  reachable = true;

  constructor(options: SharedOptions, rule: BucketRule, localShare: number) {
    this.#rule = rule;
    this.#link = new StoreLink(options);
    this.#record = `bucket/${options.name}`;
    this.ratePerSecond = rule.ratePerSecond;
    if (localShare > 0) {
      const burst = Math.max(1, Math.floor(rule.burst * localShare));
      this.#localRule = { ...rule, burst, ratePerSecond: rule.ratePerSecond * localShare };
    }
    this.#local = freshSlots(this.#localRule ?? rule, this.#link.clock.now());
  }

  /** Reserves up to `n` slots, from now on to a short time ahead. */
  async fetch(n: number, signal: AbortSignal): Promise<Grant> {
    if (!this.reachable && this.#localRule) return this.#ownShare(this.#localRule, n, signal);
    try {
      const grant = await this.#visit(n, signal);
      this.reachable = true;
      return grant;
    } catch (error) {
      if (signal.aborted) throw error;
      this.reachable = false;
      if (!this.#localRule) throw error;
      return this.#ownShare(this.#localRule, n, signal);
    }
  }

  /** Tells all; true when it halved the rate. */
  async slow(retryAfterMs: number): Promise<boolean> {
    const { clock } = this.#link;
    if (this.#localRule) slowSlots(this.#localRule, this.#local, clock.now(), retryAfterMs);
    const { value } = await this.#change((state, now) => ({
      value: slowSlots(this.#rule, state, now, retryAfterMs),
      isChanged: true,
    }));
    return value;
  }

  async #visit(wish: number, signal: AbortSignal): Promise<Grant> {
    const { clock } = this.#link;
    const rule = this.#rule;
    const startedAt = clock.now();
    const lifeMs = slotLifeMs(rule);
    const aheadMs = batchMs + 2 * this.#tripMs;
    // A slot must still be worth something when the answer has come.
    const restMs = Math.min(lifeMs / 2, 1 + 2 * this.#tripMs);
    const n = Math.min(wish, Math.ceil((rule.ratePerSecond * aheadMs) / 1000) + 1);
    this.trips += 1;
    const { value } = await this.#change((state, now) => {
      const slots = reserve(rule, state, { n, now, aheadMs, restMs });
      const waitMs = slots.length < n ? state.next - now - aheadMs : 0;
      const rate = rateAt(rule, state, now);
      return { value: { slots, waitMs, rate }, isChanged: slots.length > 0 };
    }, signal);
    const now = clock.now();
    this.ratePerSecond = value.rate;
    this.#tripMs = Math.max(now - startedAt, this.#tripMs * 0.8);
    // Not as soon as there is one more: by then there shall be some, and not all come in step.
    const moreMs = Math.min(batchMs, (n * 1000) / value.rate);
    this.notBefore = value.waitMs > 0 ? now + value.waitMs + this.#link.jitter(moreMs) : now;
    const sureMs = lifeMs - (this.#time.latest(0) - this.#time.earliest(0));
    const spreadMs = ((Math.ceil(rule.burst / 2) - 1) / rule.ratePerSecond) * 1000;
    if (sureMs <= spreadMs) throw this.#tooSlow(lifeMs - sureMs);
    return new Grant(
      rule,
      value.slots.map((slot) => this.#time.latest(slot)),
      sureMs,
    );
  }

  #change<T>(
    change: (state: SlotState, now: number) => { readonly value: T; readonly isChanged: boolean },
    signal?: AbortSignal,
  ): Promise<Updated<T>> {
    const rule = this.#rule;
    return this.#link.update(
      [this.#record],
      (seen) => {
        this.#time.note(seen);
        const [record] = seen.records;
        const { now } = seen;
        const state: SlotState = { ...((record?.value as SlotState) ?? freshSlots(rule, now)) };
        const { value, isChanged } = change(state, now);
        const ifVersion = record?.version ?? 0;
        const ttlMs = slotStateMs(rule, state, now);
        const changed = { name: this.#record, ifVersion, value: state, ttlMs };
        return { value, changes: isChanged ? [changed] : undefined };
      },
      signal,
    );
  }

  #ownShare(rule: BucketRule, wish: number, signal: AbortSignal): Grant {
    const now = this.#link.clock.now();
    if (now >= this.#retryAt) void this.#seekStore(signal);
    const n = Math.min(wish, Math.ceil((rule.ratePerSecond * batchMs) / 1000) + 1);
    const slots = reserve(rule, this.#local, { n, now, aheadMs: batchMs, restMs: 1 });
    this.notBefore = slots.length < n ? Math.max(now, this.#local.next - batchMs) : now;
    this.ratePerSecond = rateAt(rule, this.#local, now);
    return new Grant(rule, slots, slotLifeMs(rule));
  }

  /** Nobody waits for this: the share is given out until the store answers again. */
  async #seekStore(signal: AbortSignal): Promise<void> {
    this.#retryAt = Infinity;
    try {
      this.#time.note(await this.#link.read([this.#record], signal));
      this.reachable = true;
    } catch {}
    this.#retryAt = this.#link.clock.now() + this.#link.storeMsMax;
  }

  #tooSlow(unsureMs: number): SpillwayError {
    const message = `the store's time is known to ${Math.ceil(unsureMs)} ms: burst is too small`;
    return new SpillwayError('STORE_UNREACHABLE', message);
  }
}
