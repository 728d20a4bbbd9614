import { Lane, Pool } from 'spillway';
import { createServer, type HttpServer } from 'spillway-http';
import { spin } from '../pool/tasks.ts';
import { callRoutes } from './calls.ts';
import { Dependency } from './dependency.ts';
import { dependencyPlaces, patienceMs, type ServerSettings, workers } from './settings.ts';

/** For each worker one running task, and one that is already there when it ends. */
export const cpuRunMax: number = 2 * workers;
export const cpuQueueMax = 4;

/** Lanes before the body, a pool behind one of them, deadlines on all. */
export async function open({ iterations }: ServerSettings): Promise<number> {
  const deadlineMs = patienceMs;
  const pool = await Pool.open<typeof import('../pool/tasks.ts')>({
    module: new URL('../pool/tasks.ts', import.meta.url),
    workers,
    queueMax: cpuRunMax,
    deadlineMs,
  });
  const beat = new Lane({ name: 'beat', limit: 16, queueMax: 16, deadlineMs });
  const cpu = new Lane({ name: 'cpu', limit: cpuRunMax, queueMax: cpuQueueMax, deadlineMs });
  const calls = new Lane({
    name: 'dependency',
    limit: dependencyPlaces,
    queueMax: dependencyPlaces,
    deadlineMs,
  });
  const dependency = new Dependency();
  const server = await createServer();
  const { app } = server;
  app.get('/beat', { config: { lane: beat } }, async () => ({ ok: true }));
  app.get('/cpu', { config: { lane: cpu, domain: 'thread' } }, async ({ permit }) => {
    return { value: await pool.run('spin', iterations, { signal: permit.signal }) };
  });
  app.get('/dependency', { config: { lane: calls } }, async () => {
    await dependency.call();
    return { ok: true };
  });
  return await listen(server);
}

/** The server with its defaults; its lanes have the written numbers and nothing else. */
export async function openUntuned(settings: ServerSettings): Promise<number> {
  const server = await createServer();
  const { app } = server;
  app.get('/beat', async () => ({ ok: true }));
  app.get('/cpu', async () => ({ value: spin(settings.iterations) }));
  for (const { path, work, written } of callRoutes(settings)) {
    const [limit = 0, queueMax = 0, deadlineMs = 0] = written ?? [];
    const lane = written && new Lane({ name: path, limit, queueMax, deadlineMs });
    app.get(path, { config: { lane } }, ({ permit }) => work(permit.signal));
  }
  return await listen(server);
}

async function listen(server: HttpServer): Promise<number> {
  await server.start();
  return Number(new URL(server.url).port);
}
