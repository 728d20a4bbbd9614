import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { type Clock, Lane } from 'spillway';
import { httpError, type OperatorAccessOptions, operatorAccess } from 'spillway-http';
import type { Desk } from '../operations/desk.ts';
import { operate } from '../operations/operations.ts';

export interface OperatorApiOptions extends OperatorAccessOptions {
  /** What wishes are fulfilled with. */
  readonly desk: Desk;
  /** Tells this server from another that listens at the same address later. */
  readonly instance: string;
  readonly clock?: Clock | undefined;
}

/** Says which server is meant, and which one answers. */
export const instanceHeader = 'x-fleet-instance';

/** Where each operation is: `POST /-/fleet/run-stop` with its input as JSON. */
export const operatorPath = '/-/fleet/';

/** Enough for a tuning of thousands of parameters. */
const bodyLimit = 4 * 1_048_576;

/** What the command line asks a running server for; only for this machine or with the token. */
export const operatorApi: FastifyPluginAsync<OperatorApiOptions> = async (app, options) => {
  const { desk, instance, clock } = options;
  const refusal = operatorAccess(options);
  const limits = { limit: 4, queueMax: 64, deadlineMs: 20_000 };
  const lane = new Lane({ name: 'commands', ...limits, clock });
  const config = { rate: false, csrf: false, primaryOnly: true, lane } as const;
  app.addHook('onRequest', async (request, reply) => {
    const reason = refusal(request.raw);
    if (reason !== undefined) {
      throw httpError('OPERATOR_ONLY', `for the operator only: ${reason}`);
    }
    reply.headers({ [instanceHeader]: instance, 'cache-control': 'no-store' });
    assertMeant(request, instance);
  });
  app.post<{ Params: { readonly operation: string } }>(
    `${operatorPath}:operation`,
    { config, bodyLimit },
    async ({ params, body }) => ({ ok: true, value: await operate(desk, params.operation, body) }),
  );
};

/** A server that took over the address must not take over wishes meant for the last one. */
function assertMeant({ headers }: FastifyRequest, instance: string): void {
  const meant = headers[instanceHeader];
  if (meant === undefined || meant === instance) return;
  throw httpError('NOT_FOUND', 'another server is meant');
}
