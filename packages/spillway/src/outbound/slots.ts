// The arithmetic of token buckets, for one process and for many. Tokens are slots in time:
//
//     ──┬──────┬──────┬──────┬──────┬──────┬──> time     slots are 1 / rate apart
//       a      b      c      d      e      f
//       └───── life ──────┘                              a token may be used from its slot on,
//                                                        until burst / rate later
//
// So the tokens used in any second have slots in a span of one second and one life, which are at
// most floor(rate) + burst. A bucket remembers little more than the next slot to be given out.

/** The settings by which a bucket fills. */
export interface BucketRule {
  readonly ratePerSecond: number;
  readonly burst: number;
  /** Time to get back to the rate from nothing, in milliseconds, after a single round of 429s. */
  readonly recoverMs: number;
}

/** Slots of one taker, one behind the other. */
export type SlotRun = {
  /** Time of the first. */
  readonly at: number;
  readonly stepMs: number;
  readonly n: number;
};

/** The memory of a bucket: plain data, so that it can be kept in a shared store as well. */
export type SlotState = {
  /** The slot of the next token to be given out. */
  next: number;
  /** The rate at `since`; from then on it grows back evenly, within `recoverMs`. */
  ratePerSecond: number;
  since: number;
  recoverMs: number;
  pausedUntil: number;
  /** Rounds of 429s that halved the rate, since it was last whole. */
  halvings: number;
  /** Until then a 429 belongs to the round that is under way. */
  roundEndsAt: number;
  /** The rate when the round began, and the 429s in it. */
  roundRate: number;
  roundRefused: number;
  /** True if the round has halved the rate: then its other 429s are old news. */
  isHalved: boolean;
  /** Grows with each round that halved the rate: what was given out before is void. */
  round: number;
  /** Tokens given out since `countedFrom`, and in the round's time before that. */
  given: number;
  givenBefore: number;
  countedFrom: number;
};

/** Milliseconds in which 429s are one round. */
export const roundMs = 1_000;
/** Slowing down never goes below this share of the configured rate. */
const rateShareMin = 1 / 16;
/** The rate is halved, and all wait, when more than this share of a round was refused. */
const manyShare = 0.25;
/** Each halving before the rate is whole again doubles the time to recover, up to so many times. */
const recoveriesMax = 12;
/** More than the rounding error of a time in milliseconds since 1970. */
export const hairMs = 0.0005;

/** Time after its slot in which a token may be used. */
export function slotLifeMs({ ratePerSecond, burst }: BucketRule): number {
  return ((burst - (ratePerSecond % 1)) / ratePerSecond) * 1000;
}

/** A bucket whose next slot is that one. */
export function freshSlots({ ratePerSecond }: BucketRule, next: number, now: number): SlotState {
  return {
    next,
    ratePerSecond,
    since: now,
    recoverMs: 0,
    pausedUntil: now,
    halvings: 0,
    roundEndsAt: now,
    roundRate: ratePerSecond,
    roundRefused: 0,
    isHalved: false,
    round: 0,
    given: 0,
    givenBefore: 0,
    countedFrom: now,
  };
}

/** The next `n` slots, none of them before `oldest`, if nobody else gets them. */
export function nextRun(rule: BucketRule, state: SlotState, n: number, oldest: number): SlotRun {
  const at = Math.max(state.next, oldest);
  return { at, stepMs: 1000 / rateAt(rule, state, at), n };
}

/** Gives out the run that {@link nextRun} has found; `now` counts it towards a round. */
export function give(state: SlotState, run: SlotRun, now: number): void {
  state.next = run.at + run.n * run.stepMs;
  count(state, now);
  state.given += run.n;
}

/** The effect of a 429 on a bucket. */
export type Slowing = 'halved' | 'slowed' | 'known';

/**
 * Answers a 429. The rate goes down by the share of the round's tokens that was refused. If that
 * share is large, or the other side asks for more than a round of silence, the rate is halved, the
 * tokens given out in advance are void, and none is given out for `retryAfterMs`.
 */
export function slowSlots(
  rule: BucketRule,
  state: SlotState,
  now: number,
  retryAfterMs: number,
): Slowing {
  const rate = rateAt(rule, state, now);
  if (now >= state.roundEndsAt) {
    if (rate >= rule.ratePerSecond) state.halvings = 0;
    state.roundEndsAt = now + roundMs;
    state.roundRate = rate;
    state.roundRefused = 0;
    state.isHalved = false;
  }
  const pauseEndsAt = now + retryAfterMs;
  const isLonger = pauseEndsAt > state.pausedUntil;
  state.roundRefused += 1;
  if (state.isHalved) {
    if (!isLonger) return 'known';
    stop(state, pauseEndsAt);
    return 'slowed';
  }
  count(state, now);
  const share = state.roundRefused / Math.max(1, state.given + state.givenBefore);
  const isMany = share > manyShare || retryAfterMs > roundMs;
  const rateMin = rule.ratePerSecond * rateShareMin;
  const next = state.roundRate * (isMany ? 0.5 : 1 - share);
  state.ratePerSecond = Math.max(rateMin, Math.min(rate, next));
  state.since = now;
  state.recoverMs = rule.recoverMs / 2;
  if (!isMany) return 'slowed';
  state.isHalved = true;
  const times = Math.min(recoveriesMax, 2 ** state.halvings);
  const missingShare = 1 - state.ratePerSecond / rule.ratePerSecond;
  state.recoverMs = rule.recoverMs * times * missingShare;
  state.halvings += 1;
  stop(state, pauseEndsAt);
  return 'halved';
}

function stop(state: SlotState, pauseEndsAt: number): void {
  state.round += 1;
  state.since = pauseEndsAt;
  state.next = Math.max(state.next, pauseEndsAt + 1000 / state.ratePerSecond);
  state.pausedUntil = Math.max(state.pausedUntil, pauseEndsAt);
  state.roundEndsAt = Math.max(state.roundEndsAt, pauseEndsAt);
}

/** The rate at that time, if nothing is refused until then. */
export function rateAt(rule: BucketRule, state: SlotState, at: number): number {
  const { ratePerSecond, since, recoverMs } = state;
  if (recoverMs === 0 || at - since >= recoverMs) return rule.ratePerSecond;
  const share = Math.max(0, at - since) / recoverMs;
  return ratePerSecond + (rule.ratePerSecond - ratePerSecond) * share;
}

/** Moves the next slot to where the new rule has it; a rate lowered by 429s never jumps up. */
export function resizeSlots(
  old: BucketRule,
  rule: BucketRule,
  state: SlotState,
  now: number,
): void {
  const oldRate = rateAt(old, state, now);
  const lowered = rule.ratePerSecond / old.ratePerSecond;
  state.ratePerSecond = Math.min(state.ratePerSecond, state.ratePerSecond * lowered);
  state.roundRate = Math.min(state.roundRate, state.roundRate * lowered);
  const from = Math.max(now, state.pausedUntil);
  state.next = from + ((state.next - from) * oldRate) / rateAt(rule, state, now);
}

/** Milliseconds until the rate is whole again. */
export function recoveryMs({ since, recoverMs }: SlotState, now: number): number {
  return Math.max(0, since + recoverMs - now);
}

/** Counts tokens by rounds: `given` and `givenBefore` cover the last one to two of them. */
function count(state: SlotState, now: number): void {
  const ms = now - state.countedFrom;
  if (ms < roundMs) return;
  state.givenBefore = ms < 2 * roundMs ? state.given : 0;
  state.given = 0;
  state.countedFrom = now;
}
