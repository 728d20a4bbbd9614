// Tries again within a deadline; each attempt takes a token, and all retries share one budget.
import { Bucket, Retry, RetryBudget, SpillwayError } from 'spillway';

const bucket = new Bucket({ ratePerSecond: 50, queueMax: 10 });
const budget = new RetryBudget({ share: 0.1, burst: 2 });
const retry = new Retry({ attemptsMax: 4, backoffMs: 20, deadlineMs: 800, budget });

async function fetchPage(page: number, attempt: number): Promise<string> {
  if (attempt > page) return `page ${page}, at attempt ${attempt}`;
  const busy = { code: 'UPSTREAM_BUSY', status: 503, retryable: true };
  throw new SpillwayError(busy, `page ${page} failed at attempt ${attempt}`, { retryAfterMs: 20 });
}

for (const page of [0, 1, 2]) {
  let attempt = 0;
  const task = () => {
    attempt += 1;
    return fetchPage(page, attempt);
  };
  // The third page needs two retries, but only one is left in the budget.
  const call = retry.run((signal) => bucket.run(task, { signal }));
  console.log(await call.catch((error) => `gave up: ${error.message}`));
}
console.log(`${budget.stats.retries} retries, ${bucket.stats.taken} tokens taken`);
