import type { FastifyInstance, FastifyRequest } from 'fastify';
import { rankerError } from '../errors.ts';
import type { User, Users } from '../storage/users.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The owner of the request's key; in routes that ask for one. */
    rankerUser: User;
  }
}

/** Lets only requests with a user's key into the routes of this scope. */
export function requireKey(app: FastifyInstance, users: Users): void {
  app.decorateRequest('rankerUser');
  app.addHook('onRequest', async (request, reply) => {
    const key = keyOf(request);
    const user = key === undefined ? undefined : await users.byKey(key, request.permit.signal);
    if (user === undefined) {
      reply.header('www-authenticate', 'Bearer realm="ranker"');
      const why = key === undefined ? 'there is none' : 'this one is not known';
      throw rankerError('KEY_NEEDED', `send your key as "Authorization: Bearer <key>": ${why}`);
    }
    request.rankerUser = user;
    reply.header('cache-control', 'no-store');
  });
}

function keyOf({ headers }: FastifyRequest): string | undefined {
  const [, bearer] = /^bearer +(\S{1,200}) *$/i.exec(headers.authorization ?? '') ?? [];
  return bearer;
}
