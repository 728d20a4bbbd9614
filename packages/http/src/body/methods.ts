import { Readable } from 'node:stream';
import type { FastifyPluginAsync, FastifyReply, onRequestHookHandler } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { httpError } from '../base/errors.ts';
import { isStream } from '../idempotency/answer.ts';

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
  app.addHook('onSend', (request, reply, payload, done) => {
    done(null, request.method === 'HEAD' ? withoutBody(reply, payload) : payload);
  });
  const hooks = { onRequest, preHandler: [] };
  app.setNotFoundHandler(hooks, (_request, reply) => {
    reply.send(httpError('NOT_FOUND', 'there is nothing at this path'));
  });
};

/**
 * Fastify reads a stream to its end to answer a HEAD, which costs as much as it is long, for ever
 * if it has no end; an empty one in its place costs nothing.
 */
function withoutBody(reply: FastifyReply, payload: unknown): unknown {
  if (payload instanceof Response) {
    reply.code(payload.status).headers(Object.fromEntries(payload.headers));
    payload.body?.cancel().catch(() => {});
  } else if (payload instanceof ReadableStream) {
    payload.cancel().catch(() => {});
  } else if (isStream(payload)) {
    payload.destroy();
  } else {
    return payload;
  }
  return Readable.from([]);
}

/**
 * Answers what no route takes: 405 with `Allow` if other methods are, `OPTIONS`, else 404; and a
 * HEAD like its GET, but without reading what would be its body.
 */
export const methods: FastifyPluginAsync = fastifyPlugin(plugin, {
  name: 'spillway-methods',
  fastify: '5.x',
});
