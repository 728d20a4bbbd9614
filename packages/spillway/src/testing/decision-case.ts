import assert from 'node:assert/strict';
import type { Json } from '../base/json.ts';
import { type Random, seededRandom } from '../base/random.ts';
import { reserveSlots, slowBucket } from '../shared/bucket-record.ts';
import { chargeRate } from '../shared/rate-record.ts';
import type { Store, StoreApplied, StoreDecision } from '../store/store.ts';
import type { StoreSubject } from './store-cases.ts';

const steps = 300;

interface Drawn {
  readonly name: string;
  readonly decision: StoreDecision;
  readonly argument: Json;
}

/** Buckets of several rates, so that 429s are few of many tokens as well as many of few. */
function drawBucket(random: Random): Drawn {
  const ratePerSecond = [0.7, 15, 1_000][Math.floor(random() * 3)] as number;
  const burst = Math.max(1, Math.ceil(ratePerSecond / 10));
  const rule = { ratePerSecond, burst, recoverMs: 5_000, roundMs: 1_000 };
  const name = `bucket/${ratePerSecond}`;
  if (random() < 0.8) {
    const n = Math.floor(random() * 9);
    return { name, decision: reserveSlots, argument: { rule, n, restMs: random() * 20 } };
  }
  const retryAfterMs = random() < 0.7 ? 0 : random() * 3_000;
  return { name, decision: slowBucket, argument: { rule, retryAfterMs } };
}

function drawRate(random: Random): Drawn {
  const limit = [3, 100, 5_000][Math.floor(random() * 3)] as number;
  const waiting = 1 + Math.floor(random() ** 3 * limit);
  const ahead = Math.floor(random() * 40);
  const argument = { limit, windowMs: 1_000 + limit / 7, waiting, ahead };
  return { name: `rate/${limit}`, decision: chargeRate, argument };
}

/** Compares each answer of {@link Store.apply}, and the record after it, with the reference. */
export async function decisionsAgree(store: Store, subject: StoreSubject): Promise<void> {
  if (store.apply === undefined) return;
  const random = seededRandom(7);
  for (let step = 0; step < steps; step += 1) {
    const draw = random() < 0.6 ? drawBucket : drawRate;
    const { name, decision, argument } = draw(random);
    if (random() < 0.5) await subject.pass(Math.ceil(random() ** 4 * 9_000));
    const before = (await store.read([name])).records[0];
    const applied: StoreApplied | undefined = await store.apply(name, decision, argument);
    if (applied === undefined) continue;
    const isThere = (before?.expiresAt ?? 0) > applied.now;
    const value = isThere ? before?.value : undefined;
    const { answer, next } = decision.decide(value, argument, applied.now);
    assert.deepEqual(applied.answer, answer, `step ${step}, ${decision.name}`);
    if (next === undefined) continue;
    const after = (await store.read([name])).records[0];
    assert.deepEqual(after?.value, next.value, `step ${step}, ${decision.name}`);
    assert.ok(Number(after?.version) > (before?.version ?? 0), `step ${step}: an old version`);
    const lateMs = Number(after?.expiresAt) - applied.now - Number(next.ttlMs);
    assert.ok(Math.abs(lateMs) < 100, `step ${step}: expires ${lateMs} ms late`);
  }
}
