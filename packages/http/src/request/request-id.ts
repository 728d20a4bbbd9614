import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { check } from 'spillway/internal';

const header = 'x-request-id';
const allowed = /^[A-Za-z0-9._-]{1,64}$/;
/** Which process it was; a UUID for each request would cost as much as its lane (2026-11). */
const prefix = randomBytes(6).toString('hex');
let count = 0;

/** The id that came with the request if it can stand in a log as it is, else a new one. */
export function requestId(request: Pick<IncomingMessage, 'headers'>): string {
  const given = request.headers[header];
  if (typeof given === 'string' && allowed.test(given)) return given;
  count += 1;
  return `${prefix}-${count}`;
}

/** Tells the client the id of its request. */
export function tellRequestId(reply: FastifyReply): void {
  reply.header(header, reply.request.id);
}

/** Gives every request an id, in `request.id`, the log, and `x-request-id` of the answer. */
export const requestIds: FastifyPluginAsync = fastifyPlugin(
  async (app) => {
    // Fastify would take whatever that header says.
    const ownHeader = app.initialConfig.requestIdHeader;
    check(ownHeader === false, 'requestIdHeader', 'left to this plugin', ownHeader);
    app.setGenReqId(requestId);
    app.addHook('onRequest', (_request, reply, done) => {
      tellRequestId(reply);
      done();
    });
  },
  { name: 'spillway-request-ids', fastify: '5.x' },
);
