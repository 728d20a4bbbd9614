/** How a bucket fills: what stays the same while it lives. */
export interface BucketRule {
  readonly ratePerSecond: number;
  readonly burst: number;
  readonly recoverMs: number;
  readonly roundMs: number;
}

/** What a bucket remembers: plain data, so that it can be kept in a shared store as well. */
export interface BucketState {
  /** Tokens at the moment `at`; below 0 by a hair when rounding gave one out too early. */
  tokens: number;
  /** When tokens were last counted; in the future while paused, because none accrue before it. */
  at: number;
  /** The rate at the moment `at`. */
  ratePerSecond: number;
  /** Until then a 429 is news of the round that has been answered already. */
  roundEndsAt: number;
}

/** Slowing down never goes below this share of the configured rate. */
const rateShareMin = 1 / 16;

/** A bucket that nobody has taken from yet. */
export function fullBucket(rule: BucketRule, now: number): BucketState {
  return { tokens: rule.burst, at: now, ratePerSecond: rule.ratePerSecond, roundEndsAt: now };
}

/**
 * Takes `n` tokens if they are there. A token due within a microsecond is there: otherwise rounding
 * would ask for timers too short to move the clock. The debt this makes is paid by later tokens.
 */
export function spend(
  rule: BucketRule,
  state: BucketState,
  n: number,
  now: number,
  contended: boolean,
): boolean {
  refill(rule, state, now, contended);
  if (state.tokens + debtMax(state.ratePerSecond) < n) return false;
  state.tokens -= n;
  return true;
}

/** Counts the tokens that accrued until `now`; `contended` while somebody waits for them. */
export function refill(
  rule: BucketRule,
  state: BucketState,
  now: number,
  contended: boolean,
): void {
  const ms = now - state.at;
  if (ms <= 0) return;
  const slowMs = Math.min(ms, recoveryMs(rule, state));
  const rate = slowMs < ms ? rule.ratePerSecond : state.ratePerSecond + slope(rule) * slowMs;
  const slowTokens = ((state.ratePerSecond + rate) / 2) * (slowMs / 1000);
  const gained = slowTokens + rule.ratePerSecond * ((ms - slowMs) / 1000);
  state.tokens = Math.min(tokensMax(rule, contended), state.tokens + gained);
  state.ratePerSecond = rate;
  state.at = now;
}

/** Milliseconds from `now` until the bucket has gained enough for `n`, if nobody takes any. */
export function msUntil(rule: BucketRule, state: BucketState, n: number, now: number): number {
  const missing = Math.max(0, n - state.tokens);
  const slowMs = recoveryMs(rule, state);
  const slowTokens = ((state.ratePerSecond + rule.ratePerSecond) / 2) * (slowMs / 1000);
  const pausedMs = state.at - now;
  if (missing >= slowTokens) {
    return Math.max(0, pausedMs + slowMs + ((missing - slowTokens) / rule.ratePerSecond) * 1000);
  }
  // While the rate grows by `slope` each ms, t ms bring (rate * t + slope * t * t / 2) / 1000.
  const rate = state.ratePerSecond;
  const ms = (2000 * missing) / (rate + Math.sqrt(rate * rate + 2000 * slope(rule) * missing));
  return Math.max(0, pausedMs + ms);
}

/**
 * Answers a 429: empties the bucket, lets nothing accrue for `retryAfterMs`, and halves the rate
 * unless this round did so already. True when it halved.
 */
export function slowDown(
  rule: BucketRule,
  state: BucketState,
  now: number,
  retryAfterMs: number,
): boolean {
  refill(rule, state, now, false);
  const pauseEndsAt = now + retryAfterMs;
  const halves = now >= state.roundEndsAt;
  if (!halves && pauseEndsAt <= state.at) return false;
  if (halves) {
    const rateMin = rule.ratePerSecond * rateShareMin;
    state.ratePerSecond = Math.max(rateMin, state.ratePerSecond / 2);
    state.roundEndsAt = now + rule.roundMs;
  }
  state.tokens = Math.min(state.tokens, 0);
  state.at = Math.max(state.at, pauseEndsAt);
  state.roundEndsAt = Math.max(state.roundEndsAt, state.at);
  return halves;
}

/**
 * The most tokens there may be. Unwanted ones stop at `burst`. What accrues while somebody waits
 * and the timer is late is owed to the queue; yet no second may see more than rate + burst.
 * From any moment on, a second lets through at most what there was, plus `rate`, plus the debt of
 * `spend`. Grants are whole, so this stays within floor(rate) + burst as long as there was less
 * than burst + 1 - (the fraction of rate) - debt. At a whole rate that is almost one token more
 * than `burst`: one is due when the timer should fire, so it may be late by burst / rate.
 */
function tokensMax(rule: BucketRule, contended: boolean): number {
  if (!contended) return rule.burst;
  const rate = rule.ratePerSecond;
  return rule.burst + Math.max(0, 1 - (rate % 1) - 2 * debtMax(rate));
}

/** What accrues in a microsecond. */
function debtMax(ratePerSecond: number): number {
  return ratePerSecond / 1e6;
}

/** By how much a slowed rate grows each millisecond: from nothing it is whole after `recoverMs`. */
function slope(rule: BucketRule): number {
  return rule.ratePerSecond / rule.recoverMs;
}

function recoveryMs(rule: BucketRule, state: BucketState): number {
  return (rule.ratePerSecond - state.ratePerSecond) / slope(rule);
}
