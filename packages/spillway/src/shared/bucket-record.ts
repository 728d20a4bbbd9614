import type { Json } from '../base/json.ts';
import {
  type BucketRule,
  freshSlots,
  give,
  hairMs,
  nextRun,
  rateAt,
  recoveryMs,
  type SlotState,
  type Slowing,
  slotLifeMs,
  slowSlots,
} from '../outbound/slots.ts';
import type { Decided, StoreDecision } from '../store/store.ts';
import { foreignForm } from './store-link.ts';

/**
 * Time after its last visit in which a process may use what it has, in milliseconds. A process that
 * halves the rate gives out nothing that could come together with what the others use until then.
 */
export const trustMs = 900;
const voidAfterMs = 1_000;

/** The fields of a state; one of another version may have more. */
const slotFields = Object.keys(
  freshSlots({ ratePerSecond: 1, burst: 1, recoverMs: 0 }, 0, 0),
) as (keyof SlotState)[];

type Ruled<T> = { readonly rule: BucketRule } & T;

/** The wish of a visit: `n` slots, none of which can only be used for less than `restMs`. */
export type SlotWish = { readonly n: number; readonly restMs: number };

/** The answer to a visit, in the store's time: the `n` slots begin at `at`. */
export interface SlotGrant {
  readonly at: number;
  readonly stepMs: number;
  readonly round: number;
  readonly ratePerSecond: number;
}

/** Reserves the next slots, however far ahead; a wish for none only looks. */
export const reserveSlots: StoreDecision = {
  name: 'bucket/reserve',
  decide(value, argument, now) {
    const { rule, n, restMs } = argument as unknown as Ruled<SlotWish>;
    const state = stateOf(value, rule, now);
    const run = nextRun(rule, state, n, now - slotLifeMs(rule) + restMs);
    const ratePerSecond = rateAt(rule, state, now);
    const answer = { at: run.at, stepMs: run.stepMs, round: state.round, ratePerSecond };
    if (n === 0) return { answer };
    give(state, run, now);
    state.next += hairMs;
    return kept(answer, rule, state, now);
  },
};

/** Tells all processes of a 429; answers with its effect. */
export const slowBucket: StoreDecision = {
  name: 'bucket/slow',
  decide(value, argument, now) {
    const { rule, retryAfterMs } = argument as unknown as Ruled<{ readonly retryAfterMs: number }>;
    const state = stateOf(value, rule, now);
    const { round, next } = state;
    const answer: Slowing = slowSlots(rule, state, now, retryAfterMs);
    if (state.round !== round) {
      const pauseEndsAt = now + retryAfterMs;
      state.next = Math.max(pauseEndsAt, Math.min(next, now + voidAfterMs));
    }
    return answer === 'known' ? { answer } : kept(answer, rule, state, now);
  },
};

/** A bucket that nobody has used for a while starts with a burst. */
function stateOf(value: Json | undefined, rule: BucketRule, now: number): SlotState {
  const fresh = freshSlots(rule, now - slotLifeMs(rule), now);
  if (value === undefined) return fresh;
  const state = { ...(value as SlotState) };
  for (const field of slotFields) {
    if (typeof state[field] !== typeof fresh[field]) throw foreignForm('a bucket');
  }
  return state;
}

/** Keeps the state until it is as good as a fresh one. */
function kept(answer: Json, rule: BucketRule, state: SlotState, now: number): Decided {
  const untilMs = Math.max(state.next - now, state.roundEndsAt - now, 0);
  const restMs = Math.max(untilMs, recoveryMs(state, now));
  const ttlMs = restMs + slotLifeMs(rule) + voidAfterMs;
  return { answer, next: { value: state, ttlMs } };
}
