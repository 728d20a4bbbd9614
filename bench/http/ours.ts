import fastify, { type FastifyInstance } from 'fastify';
import { Lane, systemClock } from 'spillway';
import { admission, createServer, Routes } from 'spillway-http';

const options = { name: 'sums', limit: 256, queueMax: 2_048, deadlineMs: 20_000 };

/** The whole server, as it comes. */
export async function server(): Promise<FastifyInstance> {
  const { app } = await createServer({ lane: new Lane(options) });
  return app;
}

/** The lane and its meters alone. */
export async function admitted(): Promise<FastifyInstance> {
  const app = fastify();
  new Routes(systemClock, 1).follow(app);
  await app.register(admission, { lane: new Lane(options) });
  return app;
}
