import type { FastifyInstance, FastifyReply } from 'fastify';
import { failureOf } from 'spillway-http';
import { durationOf, pathOf } from '../server/worker-answer.ts';

/** What describes the answer that was to be, and not the failure. */
const headersOfAnswer = [
  'cache-control',
  'content-disposition',
  'content-encoding',
  'etag',
  'last-modified',
];

/** Failures of the routes in this scope in the words of the API, with its `duration`. */
export function apiErrors(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => {
    if (reply.sent || reply.raw.destroyed) return;
    const { status, code, message, id, headers } = failureOf(error, request.routeOptions.bodyLimit);
    for (const name of headersOfAnswer) reply.removeHeader(name);
    reply.code(status).headers(headers);
    if (id === undefined) {
      reply.send(failureBody(reply, message));
      return;
    }
    const route = `${request.method} ${request.routeOptions.url ?? '(no route)'}`;
    const text = String(Object(error).message ?? error);
    app.recentErrors.add({ id, route, code, status, message: text });
    request.log.error({ err: error, errorId: id }, 'unexpected failure');
    reply.send({ detail: 'Internal Server Error' });
  });
}

function failureBody(reply: FastifyReply, message: string): object {
  return { error: `${pathOf(reply.request)}: ${message}`, duration: durationOf(reply) };
}
