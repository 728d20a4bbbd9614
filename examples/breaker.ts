// Three failures in a row open the breaker. The retry around it waits until one caller's probe
// succeeds; then all calls go on.
import { Breaker, consecutiveFailures, Retry, systemClock } from 'spillway';

const breaker = new Breaker({
  rule: consecutiveFailures(3),
  cooldownMs: 200,
  successesToClose: 1,
});
const retry = new Retry({ backoffMs: 20 });

let calls = 0;
const backAt = systemClock.now() + 100;
async function fetchPrice(): Promise<number> {
  calls += 1;
  if (systemClock.now() < backAt) throw new Error('connection refused');
  return 42;
}

for (let i = 0; i < 3; i += 1) {
  await breaker.run(fetchPrice).catch((error) => console.log(`call ${calls}: ${error.message}`));
}
await breaker.run(fetchPrice).catch((error) => {
  console.log(`${error.code}: try again in ${Math.round(error.retryAfterMs)} ms`);
});

const patient = () => retry.run((signal) => breaker.run(fetchPrice, { signal }));
const prices = await Promise.all([1, 2, 3, 4].map(patient));
console.log(`${prices.length} callers waited and were served; ${calls} calls in all`);
