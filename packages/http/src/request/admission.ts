import type { WebsocketHandler } from '@fastify/websocket';
import type { FastifyPluginAsync, RouteOptions } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { type Clock, type Lane, systemClock } from 'spillway';
import { check } from 'spillway/internal';
import { DeadlineLine } from './deadline-line.ts';
import { RequestPermit } from './request-permit.ts';

export interface AdmissionOptions {
  /** The lane of all routes of this scope that name none themselves. */
  readonly lane: Lane;
  /** Where time comes from: the same as the lanes'. @default the system's */
  readonly clock?: Clock | undefined;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The lane that the route's requests go through. @default its scope's */
    lane?: Lane | undefined;
  }
  interface FastifyRequest {
    /** The request's way through its lane; its signal is the one to give to all that may wait. */
    permit: RequestPermit;
  }
}

/** Routes whose lane came from their scope: a scope further inside has the better claim. */
const inherited = new WeakSet<object>();

const plugin: FastifyPluginAsync<AdmissionOptions> = async (app, options) => {
  const { lane: fallback, clock = systemClock } = options;
  check(typeof Object(fallback).enter === 'function', 'lane', 'a Lane', fallback);
  if (app.hasRequestDecorator('permit')) {
    app.addHook('onRoute', (route) => inherit(route, fallback));
    return;
  }
  const lines = new Map<Lane, DeadlineLine>();
  const lineOf = (lane: Lane): DeadlineLine => {
    const line = lines.get(lane) ?? new DeadlineLine(clock);
    lines.set(lane, line);
    return line;
  };
  app.decorateRequest('permit');
  app.addHook('onRoute', (route) => {
    inherit(route, fallback);
    const { handler, wsHandler } = route;
    if (wsHandler !== undefined) route.wsHandler = releasing(wsHandler);
    if (route.websocket) {
      const opening = releasing(handler as unknown as WebsocketHandler);
      route.handler = opening as unknown as typeof handler;
      return;
    }
    route.handler = function (request, reply) {
      return request.permit.handle(() => handler.call(this, request, reply));
    };
  });
  app.addHook('onRequest', (request, reply, done) => {
    const lane = request.routeOptions.config.lane ?? fallback;
    const permit = new RequestPermit(lane, reply, lineOf(lane), clock);
    request.permit = permit;
    permit.enter(done);
  });
  app.addHook('onClose', async () => {
    for (const line of lines.values()) line[Symbol.dispose]();
  });
};

/**
 * Lets a request in before its body is read, or refuses it at once. Registered again in a scope
 * inside, it only says which lane the routes there take.
 */
export const admission: FastifyPluginAsync<AdmissionOptions> = fastifyPlugin(plugin, {
  name: 'spillway-admission',
  fastify: '5.x',
});

function inherit(route: RouteOptions, lane: Lane): void {
  const { config = {} } = route;
  if (config.lane !== undefined && !inherited.has(config)) return;
  route.config = { ...config, lane };
  inherited.add(route.config);
}

/** A socket may live for days, within the limits of whoever keeps it: only its opening is work. */
function releasing(handler: WebsocketHandler): WebsocketHandler {
  return function (socket, request) {
    request.permit[Symbol.dispose]();
    return handler.call(this, socket, request);
  };
}
