import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { FastifyPluginAsync, RouteOptions } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { type Quantiles, systemClock } from 'spillway';
import { checkNumber, Histogram } from 'spillway/internal';

/** Where a route does its work: on the event loop, on worker threads, or in a stream's chunks. */
export type Domain = 'loop' | 'thread' | 'stream';

export interface DomainsOptions {
  /** How long a handler may hold the event loop at a stretch, in ms, from 0; 1 by default. */
  readonly loopMsMax?: number | undefined;
}

/** How a route treats the event loop. */
export interface RouteStats {
  readonly method: string;
  readonly url: string;
  readonly domain: Domain;
  /** The lane it names or has from its scope; undefined for the server's own. */
  readonly lane: string | undefined;
  /** The longest stretch known of each call; see {@link domains}. */
  readonly loopMs: Quantiles;
  /** More than one call in a hundred held the loop longer than a handler may. */
  readonly broken: boolean;
}

export interface DomainsStats {
  /** The share of time the event loop was busy, since the server began. */
  readonly loopUtilization: number;
  /** By how many milliseconds the loop was late, whoever held it. */
  readonly loopDelayMs: { readonly p50: number; readonly p99: number; readonly max: number };
  readonly routes: readonly RouteStats[];
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Where the route does its work. @default 'loop' */
    domain?: Domain | undefined;
  }
  interface FastifyInstance {
    readonly domains: { readonly stats: DomainsStats };
  }
}

const { nodeTiming } = performance;
/** How often the loop's delay is looked at, which the histogram counts as delay too. */
const lookMs = 10;

/** When a measured stretch of the event loop last began, without the time the loop slept. */
class LoopWatch {
  #markedAt = 0;
  #idleMs = 0;

  mark(now: number): void {
    // On a busy loop marks are close and the loop does not sleep, so that need not be asked.
    if (now - this.#markedAt > 1) this.#idleMs = nodeTiming.idleTime;
    this.#markedAt = now;
  }

  /** For how long the loop has been busy since the last mark; at least, not at most. */
  stretch(now: number): number {
    const ms = now - this.#markedAt;
    this.#markedAt = now;
    if (ms <= 1) return ms;
    const idleMs = nodeTiming.idleTime;
    const sleptMs = idleMs - this.#idleMs;
    this.#idleMs = idleMs;
    return Math.max(0, ms - sleptMs);
  }
}

const plugin: FastifyPluginAsync<DomainsOptions> = async (app, options) => {
  const { loopMsMax = 1 } = options;
  checkNumber('loopMsMax', loopMsMax, 0);
  const watch = new LoopWatch();
  const measured: { readonly route: RouteOptions; readonly loopMs: Histogram }[] = [];
  const delay = monitorEventLoopDelay({ resolution: lookMs });
  const began = performance.eventLoopUtilization();

  app.addHook('onRoute', (route) => {
    const { handler } = route;
    const loopMs = new Histogram();
    measured.push({ route, loopMs });
    route.handler = function (request, reply) {
      const startedAt = systemClock.now();
      watch.mark(startedAt);
      const result: unknown = handler.call(this, request, reply);
      const heldMs = watch.stretch(systemClock.now());
      if (result instanceof Promise) {
        const settle = () => loopMs.record(Math.max(heldMs, watch.stretch(systemClock.now())));
        result.then(settle, settle);
      } else {
        loopMs.record(heldMs);
      }
      return result;
    };
  });
  const stats = (): DomainsStats => ({
    loopUtilization: performance.eventLoopUtilization(began).utilization,
    loopDelayMs: {
      p50: late(delay.percentile(50)),
      p99: late(delay.percentile(99)),
      max: late(delay.max),
    },
    routes: measured.map(({ route, loopMs }) => routeStats(route, loopMs, loopMsMax)),
  });
  app.decorate('domains', {
    get stats() {
      return stats();
    },
  });
  app.addHook('onReady', async () => {
    delay.enable();
  });
  app.addHook('onClose', async () => {
    delay.disable();
  });
};

/**
 * Measures for how long the handlers of each route hold the event loop, and shows which break the
 * word that their domain gives. Two stretches of a call are known: from its start to its first
 * `await`, and the last one before it settles. What lies between two awaits is seen in the loop's
 * delay only.
 */
export const domains: FastifyPluginAsync<DomainsOptions> = fastifyPlugin(plugin, {
  name: 'spillway-domains',
  fastify: '5.x',
});

function late(nanoseconds: number): number {
  return Math.max(0, nanoseconds / 1e6 - lookMs);
}

function routeStats(route: RouteOptions, histogram: Histogram, loopMsMax: number): RouteStats {
  const loopMs = Histogram.quantiles([histogram]);
  return {
    method: [route.method].flat().join(','),
    url: route.url,
    domain: route.config?.domain ?? 'loop',
    lane: route.config?.lane?.name,
    loopMs,
    broken: loopMs.p99 > loopMsMax,
  };
}
