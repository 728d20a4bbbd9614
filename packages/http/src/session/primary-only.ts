import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Lease } from 'spillway';
import { check, checkNumber } from 'spillway/internal';
import { httpError } from '../base/errors.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether only the instance that holds the lease answers. @default false */
    readonly primaryOnly?: boolean | undefined;
  }
}

export interface PrimaryOnlyOptions {
  /** The lease that makes an instance the primary, or a function that says whether this one is. */
  readonly primary: Pick<Lease, 'stats'> | (() => boolean);
  /** When a client shall try again, in milliseconds; from 1 to a day, default 1,000. */
  readonly retryAfterMs?: number | undefined;
}

/**
 * Answers 503 on the routes of the primary if this instance is not it. A primary can cease to be
 * one while it answers: what it writes must be guarded by the lease as well.
 */
export const primaryOnly: FastifyPluginAsync<PrimaryOnlyOptions> = fastifyPlugin(
  async (app: FastifyInstance, { primary, retryAfterMs = 1000 }: PrimaryOnlyOptions) => {
    const isKnown = typeof primary === 'function' || typeof primary?.stats === 'object';
    check(isKnown, 'primary', 'a lease or a function', primary);
    checkNumber('retryAfterMs', retryAfterMs, 1, 86_400_000);
    const isPrimary = typeof primary === 'function' ? primary : () => primary.stats.held;
    app.addHook('onRequest', async (request) => {
      if (!request.routeOptions.config.primaryOnly || isPrimary()) return;
      throw httpError('NOT_PRIMARY', 'this instance is not the primary', { retryAfterMs });
    });
  },
  { name: 'spillway-primary-only', fastify: '5.x' },
);
