// Three processes (here: three objects) that share one rate, one gate and one breaker.
import { MemoryStore, SharedBreaker, SharedBucket, SharedGate } from 'spillway';

// Real processes share `sqlite:<path>`, `postgres://…` or `redis://…`.
const store = new MemoryStore();
const shared = { store, name: 'exchange' };

async function workOf(instance: string): Promise<void> {
  await using bucket = new SharedBucket({ ...shared, ratePerSecond: 500, queueMax: 100 });
  await using gate = new SharedGate({ ...shared, limit: 2, queueMax: 100, ttlMs: 5_000 });
  const calls = Array.from({ length: 10 }, () =>
    bucket.run((signal) => gate.run(visit, { signal })),
  );
  await Promise.all(calls);
  console.log(`${instance}: ${bucket.stats.taken} calls by ${bucket.stats.trips} visits`);
}

let inside = 0;
let most = 0;
async function visit(): Promise<void> {
  inside += 1;
  most = Math.max(most, inside);
  await new Promise((resolve) => setTimeout(resolve, 2));
  inside -= 1;
}

await Promise.all(['one', 'two', 'three'].map(workOf));
console.log(`never more than ${most} inside, of all together`);

await using breaker = new SharedBreaker(shared);
await breaker.run(async () => console.log('the breaker is', breaker.stats.state));
