import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Lease } from 'spillway';
import { instance, number, or, settle } from 'spillway/internal';
import { httpError } from '../base/errors.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether only the instance that holds the lease answers. @default false */
    readonly primaryOnly?: boolean | undefined;
  }
}

export interface PrimaryOnlyOptions {
  /** Lease that makes an instance the primary, or a function that tells whether this one is. */
  readonly primary: Pick<Lease, 'stats'> | (() => boolean);
  /** Milliseconds after which a client is told to try again; 1 to a day. @default 1_000 */
  readonly retryAfterMs?: number | undefined;
}

const rules = {
  primary: instance(
    (value) => typeof value === 'function' || typeof Object(value).stats === 'object',
    'a lease or a function',
  ),
  retryAfterMs: or(number(1, 86_400_000), 1_000),
};

/**
 * Answers 503 on routes with `primaryOnly` if this instance is not the primary. A primary can lose
 * its lease while it answers: its writes must be guarded by the lease as well.
 */
export const primaryOnly: FastifyPluginAsync<PrimaryOnlyOptions> = fastifyPlugin(
  async (app: FastifyInstance, options: PrimaryOnlyOptions) => {
    const settings = settle<PrimaryOnlyOptions, typeof rules>('primaryOnly', options, rules);
    const { primary, retryAfterMs } = settings;
    const isPrimary = typeof primary === 'function' ? primary : () => primary.stats.held;
    app.addHook('onRequest', async (request) => {
      if (!request.routeOptions.config.primaryOnly || isPrimary()) return;
      throw httpError('NOT_PRIMARY', 'this instance is not the primary', { retryAfterMs });
    });
  },
  { name: 'spillway-primary-only', fastify: '5.x' },
);
