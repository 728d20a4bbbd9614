import assert from 'node:assert/strict';
import type { Json } from '../base/json.ts';
import { type Random, seededRandom } from '../base/random.ts';
import { consecutiveFailures, failureShare } from '../outbound/break-rule.ts';
import {
  type BreakerNews,
  breakerArgument,
  breakerDecision,
  type SharedState,
} from '../shared/breaker-record.ts';
import { reserveSlots, slowBucket } from '../shared/bucket-record.ts';
import { chargeRate } from '../shared/rate-record.ts';
import type { Store, StoreApplied, StoreDecision } from '../store/store.ts';
import type { StoreSubject } from './store-cases.ts';

const steps = 420;

interface Drawn {
  readonly name: string;
  readonly decision: StoreDecision;
  /** Draws a random argument that suits the record. */
  argument(value: Json | undefined): Json;
}

/** Buckets of several rates, so that 429s are a small share of the tokens or a large one. */
function drawBucket(random: Random): Drawn {
  const ratePerSecond = [0.7, 15, 15, 1_000, 1_000, 1_000][Math.floor(random() * 6)] as number;
  const burst = Math.max(1, Math.ceil(ratePerSecond / 10));
  const recoverMs = ratePerSecond === 15 ? 60_000 : 5_000;
  const rule = { ratePerSecond, burst, recoverMs, roundMs: 1_000 };
  // Some buckets are new, without a record.
  const name = `bucket/${ratePerSecond}/${random() < 0.1 ? random() : 'all'}`;
  if (random() < 0.6) {
    const n = Math.floor(random() * 9);
    const argument = { rule, n, restMs: random() * 20 };
    return { name, decision: reserveSlots, argument: () => argument };
  }
  const retryAfterMs = random() < 0.7 ? 0 : random() * 3_000;
  return { name, decision: slowBucket, argument: () => ({ rule, retryAfterMs }) };
}

function drawRate(random: Random): Drawn {
  const limit = [3, 100, 5_000][Math.floor(random() * 3)] as number;
  const waiting = random() < 0.1 ? 0 : 1 + Math.floor(random() ** 3 * limit);
  const ahead = Math.floor(random() * 40);
  const windowMs = (limit === 100 ? 20_000 : 1_000) + limit / 7;
  const argument = { limit, windowMs, waiting, ahead };
  return {
    name: `rate/${limit}/${random() < 0.1 ? random() : 'all'}`,
    decision: chargeRate,
    argument: () => argument,
  };
}

/** Breakers with both rules; most reports are about the present state, some early or late. */
function drawBreaker(random: Random): Drawn {
  const share = failureShare({ share: 0.4, windowMs: 3_000, callsMin: 5 });
  const isShare = random() < 0.5;
  const rule = {
    rule: isShare ? share : consecutiveFailures(2),
    cooldownMs: 300,
    cooldownGrowth: 1.3,
    cooldownMsMax: 2_000,
    jitter: 0.3,
    successesToClose: 2,
    probeMsMax: 800,
  };
  const news = (value: Json | undefined): BreakerNews => {
    const state = (value ?? {
      generation: 1,
      prober: '',
      status: 'closed',
    }) as unknown as SharedState;
    const generation = state.generation - (random() < 0.9 ? 0 : 1);
    const prober = random() < 0.9 ? state.prober : 'other';
    const outcomes = ['success', 'success', 'failure', 'ignored'] as const;
    const outcome = outcomes[Math.floor(random() * 3.4)];
    const probe = state.status !== 'closed';
    const at = Date.parse('2020-01-01') * random() + 1e13 * Number(random() < 0.7);
    return { generation, prober, outcome: outcome ?? 'success', probe, at };
  };
  return {
    name: `breaker/${isShare}`,
    decision: breakerDecision(rule),
    argument(value) {
      const told = Array.from({ length: Math.floor(random() * 4) }, () => news(value));
      const state = value as unknown as SharedState | undefined;
      const known = [state?.prober, state?.recent[0], state?.recent.at(-1)];
      // Most visits come once; some are repeated, as after a lost answer.
      const id = known[Math.floor(random() * 6)] || `visit-${random()}`;
      const visit = { id, told, wantsProbe: random() < 0.6, chance: random() };
      return breakerArgument(rule, visit);
    },
  };
}

/** Compares each answer of {@link Store.apply}, and the record after it, with the reference. */
export async function decisionsAgree(store: Store, subject: StoreSubject): Promise<void> {
  if (store.apply === undefined) return;
  const random = seededRandom(7);
  for (let step = 0; step < steps; step += 1) {
    const draw = [drawBucket, drawRate, drawBreaker][step % 3] as typeof drawBucket;
    const { name, decision, argument: argumentOf } = draw(random);
    if (random() < 0.3) await subject.pass(Math.ceil(random() ** 4 * 9_000));
    const before = (await store.read([name])).records[0];
    const argument = argumentOf(before?.value);
    const applied: StoreApplied | undefined = await store.apply(name, decision, argument);
    if (applied === undefined) continue;
    const isThere = (before?.expiresAt ?? Infinity) > applied.now;
    const value = isThere ? before?.value : undefined;
    const { answer, next } = decision.decide(value, argument, applied.now);
    assert.deepEqual(applied.answer, answer, `step ${step}, ${decision.name}`);
    if (next === undefined) continue;
    const after = (await store.read([name])).records[0];
    assert.deepEqual(after?.value, next.value, `step ${step}, ${decision.name}`);
    assert.ok(Number(after?.version) > (before?.version ?? 0), `step ${step}: an old version`);
    if (next.ttlMs === undefined) continue;
    const lateMs = Number(after?.expiresAt) - applied.now - next.ttlMs;
    assert.ok(Math.abs(lateMs) < 1, `step ${step}: expires ${lateMs} ms late`);
  }
}
