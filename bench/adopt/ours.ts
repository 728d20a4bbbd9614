// The program of the guide to adopting, with its numbers, and the pool of the README beside it.
import { createServer } from 'node:http';
import express from 'express';
import { Lane, metrics, outbound, Panel, Pool, Service } from 'spillway';
import { admitted, failures, Listener } from 'spillway/connect';

const quotes = new Lane({ name: 'quotes', limit: 64, queueMax: 200, deadlineMs: 1_000 });
const scores = new Lane({ name: 'scores', limit: 64, queueMax: 200, deadlineMs: 1_000 });
const exchange = outbound({ rate: 100, deadlineMs: 900 });
const pool = await Pool.open<typeof import('../pool/tasks.ts')>({
  module: new URL('../pool/tasks.ts', import.meta.url),
  queueMax: 1_000,
  deadlineMs: 5_000,
});
const panel = new Panel();
panel.watch('quotes', quotes);
panel.watch('scores', scores);
panel.watch('exchange', exchange);
panel.watch('pool', pool);

const app = express();
app.get(
  '/quotes',
  admitted(quotes, async (_req, res: express.Response, signal) => {
    const answer = await exchange.fetch(process.env.UPSTREAM ?? '', { signal });
    res.status(answer.status).send(await answer.text());
  }),
);
app.get(
  '/score',
  admitted(scores, async (_req, res: express.Response, signal) => {
    res.json(await pool.run('spin', Number(process.env.ITERATIONS), { signal }));
  }),
);
app.get('/metrics', (_req, res) => {
  res.type('text/plain').send(metrics(panel));
});
app.use(failures);

const listener = new Listener(createServer(app));
const service = new Service({ parts: [pool, quotes, scores, listener] });
await service.start();
process.send?.(Number(new URL(listener.url).port));
