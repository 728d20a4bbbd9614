import Fastify, {
  type FastifyInstance,
  type FastifyRequest,
  type onRequestAsyncHookHandler,
} from 'fastify';
import { Lane, type Permit, Pool } from 'spillway';
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
  const app = Fastify();
  app.get('/beat', admitted(beat), async () => ({ ok: true }));
  app.get('/cpu', admitted(cpu), async (request) => {
    const signal = permits.get(request)?.signal;
    return { value: await pool.run('spin', iterations, { signal }) };
  });
  app.get('/dependency', admitted(calls), async () => {
    await dependency.call();
    return { ok: true };
  });
  return app;
}

const permits = new WeakMap<FastifyRequest, Permit>();

/** Lets a request in before anything else is done; its place is free when it is answered. */
function admitted(lane: Lane): { readonly onRequest: onRequestAsyncHookHandler } {
  return {
    onRequest: async (request, reply) => {
      const permit = await lane.enter({ signal: request.signal });
      permits.set(request, permit);
      reply.raw.once('close', () => permit[Symbol.dispose]());
    },
  };
}
