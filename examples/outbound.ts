// One call to a service that fails often, with a rate, a breaker, retries and time limits.
import { createServer } from 'node:http';
import { outbound } from 'spillway';
import { Listener } from 'spillway/connect';

let asked = 0;
await using upstream = new Listener(
  createServer((_request, response) => {
    asked += 1;
    // The first answer is 503, the second 429: each is tried again, and the 429 lowers the rate.
    response.statusCode = [503, 429][asked - 1] ?? 200;
    response.setHeader('retry-after', '0').end('42 euros');
  }),
);
await upstream.start();

const exchange = outbound({
  rate: 50,
  attemptMs: 2_000,
  deadlineMs: 10_000,
  retry: { attemptsMax: 5, backoffMs: 20 },
});
const answer = await exchange.run((signal) => fetch(upstream.url, { signal }));
console.log(answer.status, await answer.text(), `after ${asked} attempts`);

await upstream.close();
const cautious = outbound({ retry: false, fallback: () => 'the price of yesterday' });
console.log(await cautious.run((signal) => fetch(upstream.url, { signal })));
console.log(cautious.stats.failures, 'failure, answered by the fallback');
