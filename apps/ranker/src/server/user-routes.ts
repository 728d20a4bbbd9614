import type { FastifyPluginAsync } from 'fastify';
import type { Users } from '../storage/users.ts';

export interface UserRoutesOptions {
  readonly users: Users;
  /** Begins to stop the service; called once the answer has left. */
  readonly shutdown: () => void;
}

const body = {
  type: 'object',
  required: ['name'],
  properties: { name: { type: 'string', minLength: 1, maxLength: 64 } },
  additionalProperties: false,
};

type IdInPath = { readonly name: string };

/** Users and their keys, and the end of the service: routes for the operator's interface. */
export const userRoutes: FastifyPluginAsync<UserRoutesOptions> = async (app, options) => {
  const { users, shutdown } = options;
  app.get('/-/users', async () => {
    const list = await users.list();
    return {
      users: list.map(({ name, createdAt }) => ({
        name,
        since: new Date(createdAt).toISOString(),
      })),
    };
  });
  app.post<{ Body: IdInPath }>('/-/users', { schema: { body } }, async (request, reply) => {
    const { user, key } = await users.add(request.body.name);
    reply.code(201);
    return { name: user.name, key };
  });
  app.post<{ Params: IdInPath }>('/-/users/:name/key', async ({ params: { name } }) => {
    return { name, key: await users.renewKey(name) };
  });
  app.post('/-/shutdown', async (_request, reply) => {
    reply.raw.once('finish', shutdown);
    return { message: 'the server finishes what it has begun, and ends' };
  });
};
