import type { BucketRule } from '../outbound/bucket-state.ts';

/** Slots one behind the other, with nobody else's between them. */
export type SlotRun = {
  /** The first, in the store's time. */
  readonly at: number;
  readonly stepMs: number;
  readonly n: number;
};

/** What a shared bucket remembers, in the store's time: tokens are slots, one behind the other. */
export type SlotState = {
  /** The slot of the next token to be given out. */
  next: number;
  /** The rate at `since`; from then on it grows back. */
  ratePerSecond: number;
  since: number;
  pausedUntil: number;
  /** Until then a 429 is news of the round that has been answered already. */
  roundEndsAt: number;
  /** Grows with each answer to a 429: what was given out before is void. */
  round: number;
  /** What was given back, in order. */
  free: readonly SlotRun[];
};

/** Slowing down never goes below this share of the configured rate. */
const rateShareMin = 1 / 16;
/** Beyond so many runs given back, the oldest are forgotten. */
const freeMax = 16;
/** More than the rounding error of a time in milliseconds since 1970. */
const hairMs = 0.0005;
/**
 * For how long after its last visit a process may use what it has. Whoever slows down the others
 * gives out nothing that could come together with what they use until then.
 */
export const trustMs = 900;
const voidAfterMs = 1_000;

/**
 * For how long a token may be used after its slot. Slots are at least 1 / rate apart, so the uses
 * in any second have slots in a span of less than floor(rate) + burst of them.
 */
export function slotLifeMs({ ratePerSecond, burst }: BucketRule): number {
  return ((burst - (ratePerSecond % 1)) / ratePerSecond) * 1000;
}

export function freshSlots(rule: BucketRule, now: number): SlotState {
  const { ratePerSecond } = rule;
  const past = { since: now, pausedUntil: now, roundEndsAt: now };
  return { next: now - slotLifeMs(rule), ratePerSecond, ...past, round: 0, free: [] };
}

export interface SlotWish {
  readonly n: number;
  /** How many of them must come in one run; at most `n`. */
  readonly together: number;
  readonly now: number;
  /** No slot is given out that can only be used for less than this, in milliseconds. */
  readonly restMs: number;
}

/** Gives out `n` slots: first those that were given back, then the next ones, however far ahead. */
export function reserve(rule: BucketRule, state: SlotState, wish: SlotWish): SlotRun[] {
  const oldest = wish.now - slotLifeMs(rule) + wish.restMs;
  const runs: SlotRun[] = [];
  const free: SlotRun[] = [];
  let missing = wish.n;
  for (const run of state.free.map((each) => without(each, missed(each, oldest)))) {
    const n = run.n >= wish.together ? Math.min(run.n, missing) : 0;
    if (n > 0) runs.push({ ...run, n });
    if (n < run.n) free.push(without(run, n));
    missing -= n;
  }
  state.free = free;
  if (missing > 0) {
    const at = Math.max(state.next, oldest);
    const stepMs = 1000 / rateAt(rule, state, at);
    runs.push({ at, stepMs, n: missing });
    state.next = at + missing * stepMs + hairMs;
  }
  return runs;
}

/** Takes back what was given out and not used. */
export function restore(state: SlotState, runs: readonly SlotRun[]): void {
  state.free = [...state.free, ...runs].sort((a, b) => a.at - b.at).slice(-freeMax);
}

/** The run without its first ones. */
export function without({ at, stepMs, n }: SlotRun, count: number): SlotRun {
  return { at: at + count * stepMs, stepMs, n: n - count };
}

/** How many slots of the run lie before that time. */
function missed({ at, stepMs, n }: SlotRun, oldest: number): number {
  return Math.max(0, Math.min(n, Math.ceil((oldest - at) / stepMs)));
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
  if (!halves && pauseEndsAt <= state.pausedUntil) return false;
  if (halves) {
    const rateMin = rule.ratePerSecond * rateShareMin;
    state.ratePerSecond = Math.max(rateMin, rateAt(rule, state, now) / 2);
    state.since = pauseEndsAt;
    state.roundEndsAt = now + rule.roundMs;
  }
  state.round += 1;
  state.free = [];
  state.next = Math.max(pauseEndsAt, Math.min(state.next, now + voidAfterMs));
  state.pausedUntil = Math.max(state.pausedUntil, pauseEndsAt);
  state.roundEndsAt = Math.max(state.roundEndsAt, pauseEndsAt);
  return halves;
}

/** In how many milliseconds the state is as good as a fresh one. */
export function slotStateMs(rule: BucketRule, state: SlotState, now: number): number {
  const slowMs = (rule.ratePerSecond - state.ratePerSecond) * msPerRate(rule);
  const endsAt = Math.max(state.next, state.since + slowMs, state.roundEndsAt, now);
  return endsAt - now + slotLifeMs(rule) + voidAfterMs;
}

export function rateAt(rule: BucketRule, state: SlotState, at: number): number {
  const gained = Math.max(0, at - state.since) / msPerRate(rule);
  return Math.min(rule.ratePerSecond, state.ratePerSecond + gained);
}

function msPerRate(rule: BucketRule): number {
  return rule.recoverMs / rule.ratePerSecond;
}
