// Tries again inside a deadline; each attempt passes the bucket, and all share one budget.
import { Bucket, RetryBudget, retry, SpillwayError } from 'spillway';

const bucket = new Bucket({ ratePerSecond: 50, queueMax: 10 });
const budget = new RetryBudget({ share: 0.1, burst: 2 });

async function fetchPage(page: number, attempt: number): Promise<string> {
  if (attempt > page) return `page ${page}, at attempt ${attempt}`;
  const busy = { code: 'UPSTREAM_BUSY', status: 503, retryable: true };
  throw new SpillwayError(busy, `page ${page} failed at attempt ${attempt}`, { retryAfterMs: 20 });
}

for (const page of [0, 1, 2]) {
  let attempt = 0;
  const task = async (signal: AbortSignal) => {
    await bucket.take(1, signal);
    attempt += 1;
    return fetchPage(page, attempt);
  };
  // The third page needs two retries, but only one is left in the budget.
  const options = { attemptsMax: 4, backoffMs: 20, deadlineMs: 800, budget };
  console.log(await retry(task, options).catch((error) => `gave up: ${error.message}`));
}
console.log(`${budget.stats.retries} retries, ${bucket.stats.taken} tokens taken`);
