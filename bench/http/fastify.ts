import fastify from 'fastify';
import type { Open } from '../http.ts';

const refusal = { ok: false, error: { code: 'FULL', message: 'the server is busy' } };

/** Fastify with its defaults, and a refusal written by hand. */
export const bare: Open = async (declare) => {
  const app = fastify();
  app.get('/full', {
    onRequest: (_request, reply) => {
      reply.code(503).header('retry-after', '1').send(refusal);
    },
    handler: async () => {},
  });
  declare(app);
  await app.listen({ port: 0, host: '127.0.0.1' });
  return app;
};
