import type { WebsocketHandler } from '@fastify/websocket';
import type { FastifyInstance, FastifyPluginAsync, RouteOptions } from 'fastify';
import { type Clock, Lane, systemClock } from 'spillway';
import { check } from 'spillway/internal';
import { plugin } from '../base/plugin.ts';
import { Routes } from '../operator/routes.ts';
import { answerByHandler, type Guard, guardHook } from './guard.ts';
import { LaneRequests, RequestPermit } from './request-permit.ts';

export interface AdmissionOptions {
  /** The lane of all routes of this scope that name none themselves. */
  readonly lane: Lane;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The lane that the route's requests go through. @default its scope's */
    lane?: Lane | undefined;
  }
  interface FastifyRequest {
    /** The request in its lane; its signal is the one to give to all that may wait. */
    permit: RequestPermit;
  }
}

/** Routes whose lane came from their scope: the lane of an inner scope replaces it. */
const inherited = new WeakSet<object>();

/**
 * Sets the lane of all routes of a scope: `await scope.register(admission, { lane });`. On a
 * Fastify instance of your own it also admits the requests: register it before the routes.
 */
export const admission: FastifyPluginAsync<AdmissionOptions> = plugin(
  'admission',
  async (app, { lane }) => {
    check(typeof Object(lane).enter === 'function', 'lane', 'a Lane', lane);
    if (!app.hasRequestDecorator('permit')) {
      const routes = new Routes(systemClock, Infinity);
      routes.follow(app);
      const guard = laneGuard(app, { lane, routes, clock: systemClock });
      app.addHook('onRequest', guardHook([guard], answerByHandler));
    }
    app.addHook('onRoute', (route) => inherit(route, lane));
  },
);

export interface LaneGuardOptions {
  /** The lane of all routes that name none. @default each route has one of its own */
  readonly lane: Lane | undefined;
  readonly routes: Routes;
  readonly clock: Clock;
}

/** Upper bounds of the lane of a route that names none; the lane adapts below them. */
const ownLane = { limit: 256, queueMax: 2_048, deadlineMs: 20_000 };
/** Requests at once in all those lanes together. */
const rootLimit = 1_024;
/** Routes that have a guaranteed permit in the root. */
const promisedMax = rootLimit / 2;

/**
 * Lets a request into its lane before its body is read, or refuses it at once. Its permit is
 * released when its answer has left and its handler has ended.
 */
export function laneGuard(app: FastifyInstance, options: LaneGuardOptions): Guard {
  const { lane: given, routes, clock } = options;
  const { limit, queueMax, deadlineMs } = ownLane;
  // The root protects the process; the lane of a route adapts to what the route calls.
  const all = { fixed: rootLimit };
  const root = given ?? new Lane({ name: 'routes', limit: all, queueMax, deadlineMs, clock });
  const byLane = new Map<Lane, LaneRequests>();
  const requestsOf = (lane: Lane): LaneRequests => {
    const known = byLane.get(lane) ?? new LaneRequests(lane, clock);
    byLane.set(lane, known);
    return known;
  };
  app.decorateRequest('permit');
  app.addHook('onRoute', (route) => {
    if (given !== undefined) inherit(route, given);
    admitHandlers(route);
  });
  app.addHook('onReady', async () => {
    routes.giveLanes((name, promised, domain) => {
      // A permit of its own keeps a route open while all other routes are slow.
      const guaranteed = promised < promisedMax ? 1 : 0;
      // A stream holds its permit for as long as it flows, which says nothing about the load.
      const bound = domain === 'stream' ? { fixed: limit } : limit;
      return new Lane({ name, limit: bound, queueMax, deadlineMs, parent: root, guaranteed });
    });
  });
  app.addHook('onClose', async () => {
    for (const requests of byLane.values()) requests[Symbol.dispose]();
  });
  return (request, reply, { numbers = routes.unmatched }) => {
    const permit = new RequestPermit(requestsOf(numbers.lane ?? root), reply, numbers);
    request.permit = permit;
    return permit.enter();
  };
}

function inherit(route: RouteOptions, lane: Lane): void {
  const { config = {} } = route;
  if (config.lane !== undefined && !inherited.has(config)) return;
  route.config = { ...config, lane };
  inherited.add(route.config);
}

function admitHandlers(route: RouteOptions): void {
  const { handler, wsHandler } = route;
  if (wsHandler !== undefined) route.wsHandler = releasing(wsHandler);
  if (route.websocket) {
    const opening = releasing(handler as unknown as WebsocketHandler);
    route.handler = opening as unknown as typeof handler;
    return;
  }
  route.handler = function (request) {
    return request.permit.handle(handler, this);
  };
}

/** A socket may live for days, within limits of its own: only its opening is work. */
function releasing(handler: WebsocketHandler): WebsocketHandler {
  return function (socket, request) {
    request.permit[Symbol.dispose]();
    return handler.call(this, socket, request);
  };
}
