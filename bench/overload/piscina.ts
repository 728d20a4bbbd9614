import { fileURLToPath } from 'node:url';
import Fastify, { type FastifyInstance } from 'fastify';
import { Piscina } from 'piscina';
import { addRoutes } from './bare.ts';
import { cpuQueueMax, cpuRunMax } from './ours.ts';
import { type ServerSettings, workers } from './settings.ts';

/** Fastify with the work on threads, and a queue as short as ours: without one it never refuses. */
export async function open({ iterations }: ServerSettings): Promise<FastifyInstance> {
  const app = Fastify();
  const pool = new Piscina({
    filename: fileURLToPath(import.meta.resolve('../pool/tasks.ts')),
    minThreads: workers,
    maxThreads: workers,
    maxQueue: cpuRunMax - workers + cpuQueueMax,
  });
  app.setErrorHandler((error: Error, _request, reply) => {
    reply.code(/queue is at limit/.test(error.message) ? 503 : 500).send({ error: error.message });
  });
  addRoutes(app, () => pool.run(iterations, { name: 'spin' }));
  return app;
}
