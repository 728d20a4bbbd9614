import type { FastifyPluginAsync, onRequestHookHandler } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { httpError } from './errors.ts';

const plugin: FastifyPluginAsync = async (app) => {
  const allowed = (url: string): string[] => {
    const methods = app.supportedMethods.filter((method) => {
      return url === '*' || app.findRoute({ method, url, constraints: {} }) !== null;
    });
    return methods.length > 0 ? [...new Set([...methods, 'OPTIONS'])].sort() : [];
  };
  // Before the body is read: nobody wants it.
  const onRequest: onRequestHookHandler = (request, reply, done) => {
    const [path = '/'] = request.url.split('?', 1);
    const methods = allowed(path);
    if (methods.length === 0) {
      done(httpError('NOT_FOUND', 'there is nothing at this path'));
      return;
    }
    reply.header('allow', methods.join(', '));
    if (request.method === 'OPTIONS') reply.code(204).send();
    else done(httpError('METHOD_REFUSED', `this path takes ${methods.join(', ')}`));
  };
  const hooks = { onRequest, preHandler: [] };
  app.setNotFoundHandler(hooks, (_request, reply) => {
    reply.send(httpError('NOT_FOUND', 'there is nothing at this path'));
  });
};

/** Answers what no route takes: 405 with `Allow` if other methods are, `OPTIONS`, else 404. */
export const methods: FastifyPluginAsync = fastifyPlugin(plugin, {
  name: 'spillway-methods',
  fastify: '5.x',
});
