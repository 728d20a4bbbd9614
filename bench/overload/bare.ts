import type { AddressInfo } from 'node:net';
import Fastify, { type FastifyInstance } from 'fastify';
import { spin } from '../pool/tasks.ts';
import { callRoutes, never } from './calls.ts';
import { Dependency } from './dependency.ts';
import type { ServerSettings } from './settings.ts';

/** Fastify as it comes: everything on the event loop, everybody let in. */
export async function open(settings: ServerSettings): Promise<number> {
  const app = Fastify();
  addRoutes(app, async () => spin(settings.iterations));
  addCallRoutes(app, settings);
  return await listen(app);
}

export async function listen(app: FastifyInstance): Promise<number> {
  await app.listen({ port: 0, host: '127.0.0.1' });
  return (app.server.address() as AddressInfo).port;
}

/** The routes of all that have no lanes; they differ in where the CPU-heavy work is done. */
export function addRoutes(app: FastifyInstance, work: () => Promise<number>): void {
  const dependency = new Dependency();
  app.get('/beat', async () => ({ ok: true }));
  app.get('/cpu', async () => ({ value: await work() }));
  app.get('/dependency', async () => {
    await dependency.call();
    return { ok: true };
  });
}

/** The routes of calls for all that guard none. */
export function addCallRoutes(app: FastifyInstance, settings: ServerSettings): void {
  for (const { path, work } of callRoutes(settings)) app.get(path, () => work(never));
}
