import type { FastifyContextConfig, FastifyInstance, FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { type Clock, Lane, Service, systemClock } from 'spillway';
import { check } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { Panel, type Watched } from '../base/panel.ts';
import { plain } from '../base/plain.ts';
import { type OperatorAccessOptions, operatorAccess } from './access.ts';
import { masked } from './config-mask.ts';
import { partMetrics } from './part-metrics.ts';
import { ProcessStats, processMetrics } from './process-stats.ts';
import { exposition, expositionType } from './prometheus.ts';
import { RouteMeter } from './route-meter.ts';
import { StatsFeed, type StatsFeedOptions } from './stats-feed.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Set on the operator's own routes: they must answer when nothing else does. */
    readonly operator?: boolean;
  }
}

export interface OperatorOptions extends OperatorAccessOptions, StatsFeedOptions {
  /** Where the endpoints are: begins and ends with a slash. @default '/-/' */
  readonly prefix?: string;
  /** What can be watched. @default an empty panel */
  readonly panel?: Panel | undefined;
  /** What must be ready, or a function that names what is not. @default always ready */
  readonly ready?: Service | (() => readonly string[]) | undefined;
  /** Where recent errors are listed. @default none */
  readonly errors?: { list(): readonly unknown[] } | undefined;
  /** The configuration to show, with its secrets hidden. @default empty */
  readonly config?: unknown;
  /** Whose stats say which plugins there are and what failed. @default none */
  readonly plugins?: Watched | undefined;
  /** The lane of the endpoints. @default one of their own, so that no other can fill it */
  readonly lane?: Lane | undefined;
  readonly clock?: Clock | undefined;
}

/** Requests for the operator beside the streams: a few scrapers and a few people. */
const laneLimit = 16;
const laneDeadlineMs = 10_000;

/**
 * Endpoints for whoever runs the service: `live`, `ready`, `metrics`, `stats`, `stats/stream`,
 * `errors`, `routes`, `config`, `plugins`. Strangers get 403. Register it first: it knows only the
 * routes that come after it, and counts only what is refused after it.
 */
export const operator: FastifyPluginAsync<OperatorOptions> = fastifyPlugin(
  async (app: FastifyInstance, options: OperatorOptions) => {
    const { prefix = '/-/', panel = new Panel(), clock = systemClock } = options;
    check(/^\/.+\/$/.test(prefix), 'prefix', 'a path that begins and ends with a slash', prefix);
    const refusal = operatorAccess(options);
    const host = new ProcessStats(clock);
    const routes = new RouteMeter(clock);
    const state = () => {
      const parts = Object.fromEntries(panel.read());
      return { process: host.stats, parts, routes: routes.stats };
    };
    const feed = new StatsFeed(state, clock, options);
    const config = configsOf(options, clock, feed.listenersMax);
    routes.follow(app);
    app.addHook('onReady', async () => {
      for (const lane of routes.lanes) if (!panel.shows(lane)) panel.watch(lane.name, lane);
    });
    app.addHook('preClose', async () => feed.close());
    app.addHook('onClose', async () => host[Symbol.dispose]());
    // Here and not in a scope of their own, which would lack what later plugins decorate requests
    // with, though their hooks run there too.
    app.addHook('onRequest', async (request, reply) => {
      if (!request.routeOptions.config.operator) return;
      const reason = refusal(request.raw);
      if (reason !== undefined) {
        throw httpError('OPERATOR_ONLY', `for the operator only: ${reason}`);
      }
      reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
    });
    const get = (path: string, answer: () => unknown) =>
      app.get(`${prefix}${path}`, { config: config.loop }, async () => answer());
    get('live', () => ({ live: true }));
    get('stats', state);
    get('errors', () => plain(options.errors?.list() ?? []));
    get('routes', () => {
      const held = app.hasDecorator('domains') ? app.domains.stats.routes : [];
      return routes.routes.map((route) => {
        const found = held.find(({ method, url }) => method === route.method && url === route.path);
        return { ...route, loopMs: found?.loopMs ?? null, broken: found?.broken ?? null };
      });
    });
    get('config', () => masked(options.config ?? {}));
    get('plugins', () => plain(options.plugins?.stats ?? { plugins: [], errors: [] }));
    app.get(`${prefix}ready`, { config: config.loop }, async (_request, reply) => {
      const readiness = readinessOf(options.ready);
      return reply.code(readiness.ready ? 200 : 503).send(readiness);
    });
    app.get(`${prefix}metrics`, { config: config.loop }, async (_request, reply) => {
      const parts = partMetrics(panel.read());
      const families = [...parts, ...routes.metrics, ...processMetrics(host.stats)];
      return reply.type(expositionType).send(exposition(families));
    });
    // Without the HEAD route that Fastify would add: its stream would never be read.
    const streaming = { config: config.stream, exposeHeadRoute: false };
    app.get(`${prefix}stats/stream`, streaming, async (_request, reply) =>
      reply.type('text/event-stream').send(feed.listen()),
    );
  },
  { name: 'spillway-operator', fastify: '5.x' },
);

function readinessOf(ready: OperatorOptions['ready']): {
  readonly ready: boolean;
  readonly state?: string;
  readonly unready: readonly string[];
} {
  if (!(ready instanceof Service)) {
    const unready = ready?.() ?? [];
    return { ready: unready.length === 0, unready };
  }
  // A service that stops is not ready, though its parts may still be.
  return { ready: ready.ready, state: ready.stats.state, unready: ready.unready };
}

/** What the guards of the server are told of these routes. */
function configsOf(
  options: OperatorOptions,
  clock: Clock,
  streamsMax: number,
): Readonly<Record<'loop' | 'stream', FastifyContextConfig>> {
  const {
    lane = new Lane({
      name: 'operator',
      limit: laneLimit + streamsMax,
      queueMax: laneLimit,
      deadlineMs: laneDeadlineMs,
      clock,
    }),
  } = options;
  const loop = { operator: true, rate: false, lane, domain: 'loop' } as const;
  const stream = { ...loop, domain: 'stream' } as const;
  return { loop, stream };
}
