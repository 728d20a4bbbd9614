import type { FastifyPluginAsync } from 'fastify';
import { httpError, type OperatorAccessOptions, operatorAccess } from 'spillway-http';
import type { Users } from '../storage/users.ts';
import type { RankerLanes } from './ranker-lanes.ts';

export interface UserRoutesOptions extends OperatorAccessOptions {
  readonly users: Users;
  readonly lanes: RankerLanes;
  /** Begins to stop the service; called once the answer has left. */
  readonly shutdown: () => void;
}

const body = {
  type: 'object',
  required: ['name'],
  properties: { name: { type: 'string', minLength: 1, maxLength: 64 } },
  additionalProperties: false,
};

type Named = { readonly name: string };

/** Who may ask, and the end of it all: for the operator only. */
export const userRoutes: FastifyPluginAsync<UserRoutesOptions> = async (app, options) => {
  const { users, lanes, shutdown } = options;
  const refusal = operatorAccess(options);
  app.addHook('onRequest', async ({ raw }, reply) => {
    const reason = refusal(raw);
    if (reason !== undefined) {
      throw httpError('OPERATOR_ONLY', `for the operator only: ${reason}`);
    }
    reply.header('cache-control', 'no-store');
  });
  const config = { lane: lanes.read, csrf: false } as const;
  app.get('/-/users', { config }, async () => {
    const list = await users.list();
    return {
      users: list.map(({ name, createdAt }) => ({
        name,
        since: new Date(createdAt).toISOString(),
      })),
    };
  });
  app.post<{ Body: Named }>('/-/users', { config, schema: { body } }, async (request, reply) => {
    const { user, key } = await users.add(request.body.name);
    reply.code(201);
    return { name: user.name, key };
  });
  app.post<{ Params: Named }>('/-/users/:name/key', { config }, async ({ params: { name } }) => {
    return { name, key: await users.renewKey(name) };
  });
  app.post('/shutdown', { config }, async (_request, reply) => {
    reply.raw.once('finish', shutdown);
    return { message: 'the server finishes what it has begun, and ends' };
  });
};
