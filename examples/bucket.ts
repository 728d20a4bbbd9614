// Twenty starts per second for all callers together, and fewer for a while after a 429.
import { Bucket, systemClock } from 'spillway';

const bucket = new Bucket({ ratePerSecond: 20, burst: 2, queueMax: 5 });
const startedAt = systemClock.now();

const pages = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'];
await Promise.all(
  pages.map(async (page) => {
    try {
      await bucket.take();
      console.log(`${page}: fetched after ${Math.round(systemClock.now() - startedAt)} ms`);
    } catch (error) {
      // Two had tokens, five wait: the eighth is refused at once, with the time of the next try.
      console.log(`${page}: ${error}`);
    }
  }),
);

bucket.slow({ retryAfterMs: 100 });
const { ratePerSecond, pausedMs } = bucket.stats;
console.log(`after a 429: ${ratePerSecond} per second, in ${Math.round(pausedMs)} ms`);
