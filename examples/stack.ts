// Four policies around each call of a dependency, composed once. With cockatiel this would be
// `wrap(bulkhead(10, 50), retry(handleAll, { maxAttempts: 3 }), circuitBreaker(handleAll, …))`;
// here a full queue and an open breaker also say when to try again, and the rate is limited.
import { Breaker, Bucket, Lane, Retry, stack } from 'spillway';

const lane = new Lane({ name: 'quotes', limit: 10, queueMax: 50, deadlineMs: 5_000 });
const retry = new Retry({ attemptsMax: 3, backoffMs: 10 });
const breaker = new Breaker();
const bucket = new Bucket({ ratePerSecond: 100, burst: 20, queueMax: 50 });

// Outermost first: one permit for all attempts; each attempt asks the breaker and takes a token.
const call = stack(lane, retry, breaker, bucket);

let attempts = 0;
async function quote(symbol: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  attempts += 1;
  if (attempts === 1) throw Object.assign(new Error('try again'), { status: 503 });
  return `${symbol} at 42`;
}

const caller = new AbortController();
console.log(await call((signal) => quote('AAA', signal), caller));
console.log(attempts, 'attempts,', lane.stats.finished, 'pass through the lane');

caller.abort(new Error('the client has gone'));
await call((signal) => quote('BBB', signal), caller).catch(({ message }) => console.log(message));
