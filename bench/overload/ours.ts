import Fastify, { type FastifyInstance } from 'fastify';
import { Lane, type Permit, Pool } from 'spillway';
import { Dependency } from './dependency.ts';
import { dependencyPlaces, patienceMs, type ServerSettings, workers } from './settings.ts';

/** One task for each worker and one that is already with it when it is done. */
export const cpuRunMax: number = 2 * workers;
export const cpuQueueMax = 4;

declare module 'fastify' {
  interface FastifyRequest {
    permit: Permit;
  }
  interface FastifyContextConfig {
    readonly lane?: Lane;
  }
}

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
  const app = Fastify();
  addAdmission(app);
  app.get('/beat', { config: { lane: beat } }, async () => ({ ok: true }));
  app.get('/cpu', { config: { lane: cpu } }, async ({ permit: { signal } }) => {
    return { value: await pool.run('spin', iterations, { signal }) };
  });
  app.get('/dependency', { config: { lane: calls } }, async () => {
    await dependency.call();
    return { ok: true };
  });
  return app;
}

function addAdmission(app: FastifyInstance): void {
  app.decorateRequest('permit');
  app.addHook('onRequest', async (request, reply) => {
    const { lane } = request.routeOptions.config;
    if (lane === undefined) return;
    const permit = await lane.enter({ signal: request.signal });
    request.permit = permit;
    reply.raw.once('close', () => permit[Symbol.dispose]());
  });
}
