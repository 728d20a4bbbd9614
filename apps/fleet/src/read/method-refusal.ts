import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { refuseBody } from 'spillway-http';

/** Other methods than these on these paths: 405, before any body is read. */
export function refuseOtherMethods(
  app: FastifyInstance,
  urls: readonly string[],
  allowed: readonly string[],
): void {
  const refuse = async (_request: FastifyRequest, reply: FastifyReply) => {
    const allow = allowed.join(', ');
    refuseBody(reply);
    return reply.code(405).header('allow', allow).send({ detail: 'Method Not Allowed' });
  };
  const method = app.supportedMethods.filter((one) => !allowed.includes(one));
  const config = { bodyTypes: 'any' } as const;
  for (const url of urls) app.route({ method, url, config, onRequest: refuse, handler: refuse });
}

/** What is not there at all: 404, before any body is read. */
export function answerUnknownPaths(app: FastifyInstance): void {
  const answer = async (_request: FastifyRequest, reply: FastifyReply) => {
    refuseBody(reply);
    return reply.code(404).send({ detail: 'Not Found' });
  };
  const hooks = { onRequest: answer, preHandler: [] };
  app.setNotFoundHandler(hooks, answer);
}
