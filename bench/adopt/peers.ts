// The same app with piscina, cockatiel, bottleneck and prom-client, with the same numbers.
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import Bottleneck from 'bottleneck';
import {
  ConsecutiveBreaker,
  circuitBreaker,
  ExponentialBackoff,
  handleAll,
  isBrokenCircuitError,
  isTaskCancelledError,
  retry,
  TimeoutStrategy,
  timeout,
  wrap,
} from 'cockatiel';
import express, { type ErrorRequestHandler } from 'express';
import { Piscina } from 'piscina';
import { Gauge, Histogram, register } from 'prom-client';

const queue = { maxConcurrent: 64, highWater: 200, strategy: Bottleneck.strategy.OVERFLOW };
const quotes = new Bottleneck(queue);
const scores = new Bottleneck(queue);
const rate = new Bottleneck({ minTime: 10, highWater: 1_000 });
const exchange = wrap(
  timeout(900, TimeoutStrategy.Aggressive),
  retry(handleAll, { maxAttempts: 2, backoff: new ExponentialBackoff({ initialDelay: 100 }) }),
  circuitBreaker(handleAll, { halfOpenAfter: 10_000, breaker: new ConsecutiveBreaker(5) }),
);
const pool = new Piscina({
  filename: fileURLToPath(import.meta.resolve('../pool/tasks.ts')),
  maxQueue: 1_000,
});
const took = new Histogram({ name: 'request_seconds', help: 'Time', labelNames: ['route'] });
for (const [name, limiter] of Object.entries({ quotes, scores })) {
  new Gauge({
    name: `${name}_waiting`,
    help: 'Callers that wait',
    collect() {
      this.set(limiter.counts().QUEUED ?? 0);
    },
  });
}

const app = express();
app.get('/quotes', async (req, res) => {
  const end = took.startTimer({ route: 'quotes' });
  const gone = new AbortController();
  req.once('close', () => gone.abort());
  const answer = await quotes.schedule({ expiration: 1_000 }, () =>
    exchange.execute(({ signal }) => rate.schedule(() => get(signal)), gone.signal),
  );
  res.status(answer.status).send(answer.text);
  end();
});
app.get('/score', async (req, res) => {
  const end = took.startTimer({ route: 'score' });
  const gone = new AbortController();
  req.once('close', () => gone.abort());
  const work = { name: 'spin', signal: gone.signal };
  res.json(
    await scores.schedule({ expiration: 1_000 }, () =>
      pool.run(Number(process.env.ITERATIONS), work),
    ),
  );
  end();
});
app.get('/metrics', async (_req, res) => {
  res.type('text/plain').send(await register.metrics());
});
const failures: ErrorRequestHandler = (error, _req, res, _next) => {
  const isFull = error instanceof Bottleneck.BottleneckError || isBrokenCircuitError(error);
  const status = isFull ? 503 : isTaskCancelledError(error) ? 504 : 500;
  if (!res.headersSent) res.status(status).set('Retry-After', '1').json({ error: error.message });
};
app.use(failures);

async function get(signal: AbortSignal): Promise<{ status: number; text: string }> {
  const answer = await fetch(process.env.UPSTREAM ?? '', { signal });
  if (answer.status === 429 || answer.status >= 500) throw new Error(`status ${answer.status}`);
  return { status: answer.status, text: await answer.text() };
}

const server = app.listen(0, '127.0.0.1', () => {
  process.send?.((server.address() as AddressInfo).port);
});
process.once('SIGTERM', () => {
  server.close();
  server.closeIdleConnections();
});
