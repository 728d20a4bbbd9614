import type { BucketRule } from './bucket-state.ts';

/** What a shared bucket remembers, in the store's time: tokens are slots, one behind the other. */
export type SlotState = {
  /** The slot of the next token to be given out. */
  next: number;
  /** The rate at `since`; from then on it grows back. */
  ratePerSecond: number;
  since: number;
  /** Until then a 429 is news of the round that has been answered already. */
  roundEndsAt: number;
};

/** Slowing down never goes below this share of the configured rate. */
const rateShareMin = 1 / 16;

/**
 * For how long a token may be used after its slot. Slots are at least 1 / rate apart, so the uses
 * in any second have slots in a span of less than floor(rate) + burst of them.
 */
export function slotLifeMs({ ratePerSecond, burst }: BucketRule): number {
  return ((burst - (ratePerSecond % 1)) / ratePerSecond) * 1000;
}

export function freshSlots(rule: BucketRule, now: number): SlotState {
  const { ratePerSecond } = rule;
  return { next: now - slotLifeMs(rule), ratePerSecond, since: now, roundEndsAt: now };
}

export interface SlotWish {
  readonly n: number;
  readonly now: number;
  /** No slot is given out that lies further ahead, in milliseconds. */
  readonly aheadMs: number;
  /** No slot is given out that can only be used for less than this, in milliseconds. */
  readonly restMs: number;
}

/** Gives out up to `n` slots. */
export function reserve(rule: BucketRule, state: SlotState, wish: SlotWish): number[] {
  const { n, now, aheadMs, restMs } = wish;
  state.next = Math.max(state.next, now - slotLifeMs(rule) + restMs);
  const slots: number[] = [];
  while (slots.length < n && state.next <= now + aheadMs) {
    slots.push(state.next);
    state.next += 1000 / rateAt(rule, state, state.next);
  }
  return slots;
}

/** Answers a 429 as a bucket of one process does; true when it halved the rate. */
export function slowSlots(
  rule: BucketRule,
  state: SlotState,
  now: number,
  retryAfterMs: number,
): boolean {
  const pauseEndsAt = now + retryAfterMs;
  const halves = now >= state.roundEndsAt;
  if (halves) {
    const rateMin = rule.ratePerSecond * rateShareMin;
    state.ratePerSecond = Math.max(rateMin, rateAt(rule, state, now) / 2);
    state.since = pauseEndsAt;
    state.roundEndsAt = now + rule.roundMs;
  }
  state.next = Math.max(state.next, pauseEndsAt);
  state.roundEndsAt = Math.max(state.roundEndsAt, pauseEndsAt);
  return halves;
}

/** In how many milliseconds the state is as good as a fresh one. */
export function slotStateMs(rule: BucketRule, state: SlotState, now: number): number {
  const slowMs = (rule.ratePerSecond - state.ratePerSecond) * msPerRate(rule);
  const endsAt = Math.max(state.next, state.since + slowMs, state.roundEndsAt, now);
  return endsAt - now + slotLifeMs(rule) + 1;
}

export function rateAt(rule: BucketRule, state: SlotState, at: number): number {
  const gained = Math.max(0, at - state.since) / msPerRate(rule);
  return Math.min(rule.ratePerSecond, state.ratePerSecond + gained);
}

function msPerRate(rule: BucketRule): number {
  return rule.recoverMs / rule.ratePerSecond;
}

/** Time enough for rounding errors, in milliseconds. */
const hairMs = 0.001;

/** Slots that were given to this process, each with the local time in which it may be used. */
export class Grant {
  readonly #slots: readonly number[];
  readonly #lifeMs: number;
  readonly #spacingMs: number;
  #at = 0;

  /** `slots` in local time, from when it is sure that they have come. */
  constructor(rule: BucketRule, slots: readonly number[], lifeMs: number) {
    this.#slots = slots;
    this.#lifeMs = lifeMs;
    this.#spacingMs = 1000 / rule.ratePerSecond;
  }

  get left(): number {
    return this.#slots.length - this.#at;
  }

  /** Milliseconds until `n` may be used, passing over those that are too old; undefined if none. */
  msUntil(n: number, now: number): number | undefined {
    for (; this.left >= n; this.#at += 1) {
      const last = (this.#slots[this.#at + n - 1] as number) + hairMs;
      // Those used together may count as later than they are, if only the rate is kept between.
      const first = Math.max(this.#slots[this.#at] as number, last - (n - 1) * this.#spacingMs);
      const ms = last - now;
      if (Math.max(now, last) < first + this.#lifeMs) return ms > hairMs ? ms : 0;
    }
    return undefined;
  }

  spend(n: number): void {
    this.#at += n;
  }
}
