import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, onRequestHookHandler } from 'fastify';
import { httpError } from '../base/errors.ts';
import { isStream } from '../request/unread-body.ts';

/** Answers requests that no route takes: 405 with `Allow` if other methods are taken, else 404. */
export function answerUnrouted(app: FastifyInstance): void {
  const allowed = (url: string): string[] => {
    const methods = app.supportedMethods.filter((method) => {
      return url === '*' || app.findRoute({ method, url, constraints: {} }) !== null;
    });
    return methods.length > 0 ? [...new Set([...methods, 'OPTIONS'])].sort() : [];
  };
  // As a hook, it answers before the body is read.
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
}

/**
 * The payload of an answer to HEAD. Fastify would read a stream to its end, however long it is;
 * an empty stream in its place costs nothing.
 */
export function withoutBody(reply: FastifyReply, payload: unknown): unknown {
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
