import { fileURLToPath } from 'node:url';
import {
  bulkhead,
  isBulkheadRejectedError,
  isTaskCancelledError,
  TimeoutStrategy,
  timeout,
  wrap,
} from 'cockatiel';
import Fastify from 'fastify';
import { Piscina } from 'piscina';
import { addRoutes, listen } from './bare.ts';
import { callRoutes } from './calls.ts';
import { cpuQueueMax, cpuRunMax } from './ours.ts';
import { type ServerSettings, type Written, workers } from './settings.ts';

/** Numbers for a route without written ones: the default bounds of `createServer`. */
const usual: Written = [256, 2_048, 20_000];

/**
 * Fastify with the work on threads. Without a queue as short as ours it would never refuse. Calls
 * go through a bulkhead and a time-out with the same numbers as our lanes.
 */
export async function open(settings: ServerSettings): Promise<number> {
  const app = Fastify();
  const pool = new Piscina({
    filename: fileURLToPath(import.meta.resolve('../pool/tasks.ts')),
    minThreads: workers,
    maxThreads: workers,
    maxQueue: cpuRunMax - workers + cpuQueueMax,
  });
  app.setErrorHandler((error: Error, _request, reply) => {
    const isFull = isBulkheadRejectedError(error) || /queue is at limit/.test(error.message);
    const status = isTaskCancelledError(error) ? 504 : 500;
    reply.code(isFull ? 503 : status).send({ error: error.message });
  });
  addRoutes(app, () => pool.run(settings.iterations, { name: 'spin' }));
  for (const { path, work, written } of callRoutes(settings)) {
    const [limit, queueMax, deadlineMs] = written ?? usual;
    const policy = wrap(timeout(deadlineMs, TimeoutStrategy.Aggressive), bulkhead(limit, queueMax));
    app.get(path, () => policy.execute(({ signal }) => work(signal)));
  }
  return await listen(app);
}
