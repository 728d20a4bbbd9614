import type { FastifyInstance } from 'fastify';
import { Lane, Pool } from 'spillway';
import { createServer } from 'spillway-http';
import { Dependency } from './dependency.ts';
import { dependencyPlaces, patienceMs, type ServerSettings, workers } from './settings.ts';

/** One task for each worker and one that is already with it when it is done. */
export const cpuRunMax: number = 2 * workers;
export const cpuQueueMax = 4;

/** Lanes before the body, a pool behind one of them, deadlines on all. */
export async function open({ iterations }: ServerSettings): Promise<FastifyInstance> {
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
  const { app } = await createServer();
  app.get('/beat', { config: { lane: beat } }, async () => ({ ok: true }));
  app.get('/cpu', { config: { lane: cpu, domain: 'thread' } }, async ({ permit }) => {
    return { value: await pool.run('spin', iterations, { signal: permit.signal }) };
  });
  app.get('/dependency', { config: { lane: calls } }, async () => {
    await dependency.call();
    return { ok: true };
  });
  return app;
}
