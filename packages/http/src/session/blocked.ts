import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { type Clock, deadline, systemClock } from 'spillway';
import { check, checkNumber, untilAborted } from 'spillway/internal';
import { httpError } from '../base/errors.ts';

export interface BlockedUsersOptions {
  /** Whether the user of this request is blocked. The signal aborts when nobody waits any more. */
  readonly isBlocked: (
    request: FastifyRequest,
    signal: AbortSignal,
  ) => boolean | PromiseLike<boolean>;
  /** A path of this site that browsers are sent to, and that they may see. @default 401 for all */
  readonly redirectTo?: string | undefined;
  /** How long it may take to find out, in milliseconds; from 1 to an hour, default 5,000. */
  readonly waitMsMax?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** Turns away users that are blocked. If it cannot be found out, nobody gets in. */
export const blockedUsers: FastifyPluginAsync<BlockedUsersOptions> = fastifyPlugin(
  async (app: FastifyInstance, options: BlockedUsersOptions) => {
    const { isBlocked, redirectTo, waitMsMax = 5000, clock = systemClock } = options;
    const isPath = redirectTo === undefined || /^\/(?![/\\])/.test(redirectTo);
    check(isPath, 'redirectTo', 'a path that begins with one /', redirectTo);
    checkNumber('waitMsMax', waitMsMax, 1, 3_600_000);

    const ask = async (request: FastifyRequest): Promise<boolean> => {
      using limit = deadline(clock, waitMsMax, request.signal);
      const answer = isBlocked(request, limit.signal);
      if (typeof answer === 'boolean') return answer;
      return await untilAborted(Promise.resolve(answer), limit.signal);
    };

    app.addHook('onRequest', async (request, reply) => {
      // The operator proves who it is by other means, and must see why this one fails.
      if (request.routeOptions.config.operator) return;
      const path = request.url.replace(/[?#].*/, '');
      if (path === redirectTo || !(await ask(request))) return;
      const isBrowser = /\btext\/html\b/i.test(request.headers.accept ?? '');
      if (redirectTo === undefined || !isBrowser) {
        throw httpError('USER_BLOCKED', 'the user is blocked');
      }
      return reply.header('cache-control', 'no-store').redirect(redirectTo, 303);
    });
  },
  { name: 'spillway-blocked', fastify: '5.x' },
);
