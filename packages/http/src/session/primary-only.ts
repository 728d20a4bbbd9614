import type { FastifyPluginAsync } from 'fastify';
import type { Lease } from 'spillway';
import { instance, number, or, settle } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { type Guard, guardPlugin } from '../request/guard.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True if only the instance that holds the lease answers. @default false */
    readonly primaryOnly?: boolean | undefined;
  }
}

export interface PrimaryOnlyOptions {
  /** Lease that makes an instance the primary, or a function that tells whether this one is. */
  readonly primary: Pick<Lease, 'stats'> | (() => boolean);
  /** Milliseconds after which a client should try again; 1 to a day. @default 1_000 */
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
export function requirePrimary(options: PrimaryOnlyOptions): Guard {
  const settings = settle('primaryOnly', options, rules);
  const { primary, retryAfterMs } = settings;
  const isPrimary = typeof primary === 'function' ? primary : () => primary.stats.held;
  return (_request, _reply, { primaryOnly: isOnly }) => {
    if (!isOnly || isPrimary()) return;
    return httpError('NOT_PRIMARY', 'this instance is not the primary', { retryAfterMs });
  };
}

/** {@link requirePrimary} for a Fastify server that was not made by `createServer`. */
export const primaryOnly: FastifyPluginAsync<PrimaryOnlyOptions> = guardPlugin(
  'primary-only',
  requirePrimary,
);
