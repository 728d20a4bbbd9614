import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { SpillwayError } from 'spillway';
import { refuseBody } from 'spillway-http';

/** Seconds since the request came. */
export function durationOf(reply: FastifyReply): number {
  // There is none yet while the server stops.
  const { permit } = reply.request;
  return permit === undefined ? 0 : Math.round(permit.elapsedMs * 1000) / 1e6;
}

/** `/api/beat`, without what follows a question mark. */
export function pathOf({ url }: FastifyRequest): string {
  return url.split('?', 1)[0] as string;
}

/**
 * Failures in a worker's words. It reads `error` as an order to give up, and an answer that is no
 * JSON as a bad line: so what will pass by itself is told by an empty body, and it tries again.
 * An instance that is not the primary answers so too: it may be the next one in a moment.
 */
export function answerWorkers(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => {
    if (reply.sent || reply.raw.destroyed) return reply;
    const { code, status, message, headers } = app.noteFailure(error, reply);
    const path = pathOf(request);
    refuseBody(reply);
    reply.code(status).headers({ ...headers, 'cache-control': 'no-store' });
    const willPass = status >= 500 && error instanceof SpillwayError;
    if (willPass) return reply.type('text/plain; charset=utf-8').send('');
    const text = code === 'UNEXPECTED' ? 'Internal Server Error' : message;
    return reply.send({ error: `${path}: ${text}`, duration: durationOf(reply) });
  });
}
