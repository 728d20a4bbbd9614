import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { type Clock, Service, systemClock } from 'spillway';
import { check } from './check.ts';
import { masked } from './config-mask.ts';
import { httpError } from './errors.ts';
import { type OperatorAccessOptions, operatorAccess } from './operator-access.ts';
import { Panel, type Watched } from './panel.ts';
import { partMetrics } from './part-metrics.ts';
import { plain } from './plain.ts';
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
  readonly clock?: Clock | undefined;
}

/**
 * Endpoints for whoever runs the service: `live`, `ready`, `metrics`, `stats`, `stats/stream`,
 * `errors`, `routes`, `config`, `plugins`. Strangers get 403. Register it before the routes that it
 * is to count.
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
    routes.follow(app);
    app.addHook('preClose', async () => feed.close());
    app.addHook('onClose', async () => host[Symbol.dispose]());
    const endpoints: FastifyPluginAsync = async (inner) => {
      inner.addHook('onRequest', async (request, reply) => {
        const reason = refusal(request.raw);
        if (reason !== undefined) {
          throw httpError('OPERATOR_ONLY', `for the operator only: ${reason}`);
        }
        reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
      });
      const get = (path: string, answer: () => unknown) =>
        inner.get(`${prefix}${path}`, { config: { operator: true } }, async () => answer());
      get('live', () => ({ live: true }));
      get('stats', state);
      get('errors', () => plain(options.errors?.list() ?? []));
      get('routes', () => routes.routes);
      get('config', () => masked(options.config ?? {}));
      get('plugins', () => plain(options.plugins?.stats ?? { plugins: [], errors: [] }));
      addReady(inner, `${prefix}ready`, options.ready);
      inner.get(`${prefix}metrics`, { config: { operator: true } }, async (_request, reply) => {
        const parts = partMetrics(panel.read());
        const families = [...parts, ...routes.metrics, ...processMetrics(host.stats)];
        return reply.type(expositionType).send(exposition(families));
      });
      // Without the HEAD route that Fastify would add: its stream would never be read.
      const streaming = { config: { operator: true }, exposeHeadRoute: false };
      inner.get(`${prefix}stats/stream`, streaming, async (_request, reply) =>
        reply.type('text/event-stream').send(feed.listen()),
      );
    };
    await app.register(endpoints);
  },
  { name: 'spillway-operator', fastify: '5.x' },
);

function addReady(app: FastifyInstance, path: string, ready: OperatorOptions['ready']): void {
  app.get(path, { config: { operator: true } }, async (_request, reply) => {
    const isService = ready instanceof Service;
    const unready = isService ? ready.unready : (ready?.() ?? []);
    // A service that stops is not ready, though its parts may still be.
    const isReady = isService ? ready.ready : unready.length === 0;
    const state = isService ? { state: ready.stats.state } : {};
    return reply.code(isReady ? 200 : 503).send({ ready: isReady, ...state, unready });
  });
}
