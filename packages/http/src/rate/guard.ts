import type {
  FastifyContextConfig,
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
} from 'fastify';
import { callback, instance, maybe, or, settle } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { type Guard, guardPlugin } from '../request/guard.ts';
import { rateKey, routeName, routeOf, type UserOf } from './key.ts';
import {
  limiterRules,
  type RateDecision,
  RateLimiter,
  type RateLimiterOptions,
} from './limiter.ts';
import { type NamedRule, namedRule, type RateRule } from './rule.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Limits of this route, on top of those for all; false for none at all. */
    readonly rate?: RateRule | readonly RateRule[] | false | undefined;
  }
  interface FastifyInstance {
    /** The counts of the rate guard, for limits that only a handler can know the key of. */
    readonly rateLimiter: RateLimiter;
  }
}

export interface RateGuardOptions extends RateLimiterOptions {
  /**
   * Limits on every request, whatever its route; an empty list leaves it to the routes.
   * @default 120 a minute for each client
   */
  readonly limits?: readonly RateRule[] | undefined;
  /**
   * Gives the proven user of a request; undefined if there is none, which is counted by address.
   * The address is the one that Fastify gives: headers of proxies count only by its `trustProxy`.
   * @default every request is counted by address
   */
  readonly user?: UserOf | undefined;
}

const defaultLimits: readonly RateRule[] = [{ limit: 120, windowMs: 60_000 }];
const rules = {
  ...limiterRules,
  limits: or(instance(Array.isArray, 'a list of limits'), defaultLimits),
  user: maybe(callback),
};

/**
 * Answers 429 over a limit, before the request takes a permit of its lane. Every answer carries the
 * `RateLimit-Limit`, `-Remaining`, `-Reset` and `-Policy` headers of
 * draft-ietf-httpapi-ratelimit-headers-06, of the limit that has the least left.
 */
export function limitRates(options: RateGuardOptions, app: FastifyInstance): Guard {
  const settings = settle('rate', options, rules);
  const { limits, user, ...rest } = settings;
  const limiter = new RateLimiter(rest);
  const forAll = limits.map((rule, at) => namedRule(`all ${at}`, rule));
  const forRoute = new Map<string, readonly NamedRule[]>();
  app.decorate('rateLimiter', limiter);

  const rulesOf = (route: string, rate: RateRule | readonly RateRule[]) => {
    const rules = [rate].flat().map((rule, at) => namedRule(`${route} ${at}`, rule));
    forRoute.set(route, rules);
    return rules;
  };
  app.addHook('onRoute', ({ config, url, method }) => {
    if (!config?.rate) return;
    for (const each of [method].flat()) rulesOf(routeName(each, url), config.rate);
  });

  const claimsOf = (request: FastifyRequest, rate: FastifyContextConfig['rate']) => {
    if (rate === false) return [];
    const route = routeOf(request);
    // A route that was there before this guard is met here for the first time.
    const own = rate === undefined ? [] : (forRoute.get(route) ?? rulesOf(route, rate));
    // A route's own limit is the narrower one, and the one that a client can do something about.
    return [...own, ...forAll].map((rule) => {
      return { rule, key: rateKey(rule.rule.by ?? ['client'], request, user) };
    });
  };

  const decide = (reply: FastifyReply, decision: RateDecision | undefined): Error | undefined => {
    if (decision === undefined) return;
    setHeaders(reply, decision);
    if (decision.admitted) return;
    const { limit, windowMs } = decision.rule.rule;
    const message = `more than ${limit} requests in ${windowMs} ms`;
    return httpError('RATE_EXCEEDED', message, { retryAfterMs: decision.resetMs });
  };
  return (request, reply, { rate }) => {
    const decision = limiter.charge(claimsOf(request, rate));
    if (!(decision instanceof Promise)) return decide(reply, decision);
    return decision.then((made) => decide(reply, made));
  };
}

/** The rate guard for a Fastify server that was not made by `createServer`. */
export const rateGuard: FastifyPluginAsync<RateGuardOptions> = guardPlugin('rate', limitRates);

function setHeaders(reply: FastifyReply, decision: RateDecision): void {
  const { limit, windowMs } = decision.rule.rule;
  reply.header('ratelimit-limit', String(limit));
  reply.header('ratelimit-remaining', String(decision.remaining));
  reply.header('ratelimit-reset', String(Math.max(1, Math.ceil(decision.resetMs / 1000))));
  reply.header('ratelimit-policy', `${limit};w=${Math.ceil(windowMs / 1000)}`);
}
