import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { type Clock, deadline, systemClock } from 'spillway';
import { callback, clockRule, maybe, number, or, settle, untilAborted } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { matching } from '../base/rules.ts';
import { type Guard, guardPlugin } from '../request/guard.ts';

export interface BlockedUsersOptions {
  /** Decides whether the user of this request is blocked; the signal ends the wait for it. */
  readonly isBlocked: (
    request: FastifyRequest,
    signal: AbortSignal,
  ) => boolean | PromiseLike<boolean>;
  /** Path of this site that blocked browsers are sent to, and may see. @default 401 for all */
  readonly redirectTo?: string | undefined;
  /** Milliseconds that `isBlocked` may take; 1 to an hour. @default 5_000 */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

const rules = {
  isBlocked: callback,
  redirectTo: maybe(matching(/^\/(?![/\\])/, 'a path that begins with one /')),
  deadlineMs: or(number(1, 3_600_000), 5_000),
  clock: or(clockRule, systemClock),
};

/** Turns away blocked users. If `isBlocked` fails, nobody gets in. */
export function refuseBlocked(options: BlockedUsersOptions): Guard {
  const settings = settle<BlockedUsersOptions, typeof rules>('blockedUsers', options, rules);
  const { isBlocked, redirectTo, deadlineMs, clock } = settings;

  const ask = async (request: FastifyRequest): Promise<boolean> => {
    using limit = deadline(clock, deadlineMs, request.signal);
    const answer = isBlocked(request, limit.signal);
    if (typeof answer === 'boolean') return answer;
    return await untilAborted(Promise.resolve(answer), limit.signal);
  };
  return async (request, reply) => {
    const path = request.url.replace(/[?#].*/, '');
    if (path === redirectTo || !(await ask(request))) return undefined;
    const isBrowser = /\btext\/html\b/i.test(request.headers.accept ?? '');
    if (redirectTo === undefined || !isBrowser) {
      throw httpError('USER_BLOCKED', 'the user is blocked');
    }
    reply.header('cache-control', 'no-store').redirect(redirectTo, 303);
    return 'answered';
  };
}

/** {@link refuseBlocked} for a Fastify server that was not made by `createServer`. */
export const blockedUsers: FastifyPluginAsync<BlockedUsersOptions> = guardPlugin(
  'spillway-blocked',
  refuseBlocked,
);
