import type { FastifyPluginAsync } from 'fastify';
import { Lane } from 'spillway';
import type { Context } from '../context.ts';
import { operate } from '../operations/operations.ts';

/** The path of each operation: `POST /-/fleet/run-stop` with its input as JSON. */
export const operatorPath = '/-/fleet/';

/** Enough for a tuning of thousands of parameters. */
const bodyLimit = 4 * 1_048_576;

/** The operations that the command line asks a running server for, on the operator's socket. */
export const operatorApi: FastifyPluginAsync<Context> = async (app, context) => {
  const limits = { limit: { fixed: 4 }, queueMax: 64, deadlineMs: 20_000 };
  const lane = new Lane({ name: 'commands', ...limits });
  app.post<{ Params: { readonly operation: string } }>(
    `${operatorPath}:operation`,
    { bodyLimit },
    async ({ params, body }) => {
      const task = () => operate(context, params.operation, body);
      return { ok: true, value: await lane.run(task) };
    },
  );
};
