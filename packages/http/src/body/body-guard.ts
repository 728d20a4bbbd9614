import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { check } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { hasBody } from '../request/unread-body.ts';

export interface BodyGuardOptions {
  /** Which types of body routes take. @default JSON, forms, multipart and plain text */
  readonly types?: readonly string[] | undefined;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Which types of body the route takes. @default those of the server */
    bodyTypes?: readonly string[] | 'any' | undefined;
  }
}

const commonTypes: readonly string[] = [
  'application/json',
  'application/x-www-form-urlencoded',
  'multipart/form-data',
  'text/plain',
];

const plugin: FastifyPluginAsync<BodyGuardOptions> = async (app, options) => {
  const { types = commonTypes } = options;
  check(Array.isArray(types), 'types', 'an array of media types', types);
  app.addHook('onRequest', (request, _reply, done) => {
    const { method } = request;
    // What is not there takes no body of whatever kind: that it is not there is the answer.
    const isUnread = method === 'GET' || method === 'HEAD' || request.is404;
    if (isUnread || !hasBody(request)) {
      done();
      return;
    }
    const { bodyLimit, config } = request.routeOptions;
    if (Number(request.headers['content-length']) > bodyLimit) {
      done(httpError('BODY_TOO_LARGE', `the body may have ${bodyLimit} bytes at most`));
      return;
    }
    const allowed = config.bodyTypes ?? types;
    if (allowed === 'any' || allowed.includes(request.mediaType ?? '')) done();
    else done(httpError('BODY_TYPE', `the body must be of type ${allowed.join(', ')}`));
  });
  app.server.on('checkContinue', (request, response) => {
    askWhenRead(request, response);
    app.routing(request, response);
  });
};

/** Refuses a body that is declared too large (413) or of a wrong type (415) before it is read. */
export const bodyGuard: FastifyPluginAsync<BodyGuardOptions> = fastifyPlugin(plugin, {
  name: 'spillway-body',
  fastify: '5.x',
});

/** Whoever waits to be asked for its body is asked when somebody begins to read it, not before. */
function askWhenRead(request: IncomingMessage, response: ServerResponse): void {
  const read = request._read;
  request._read = (size) => {
    request._read = read;
    if (!response.headersSent) response.writeContinue();
    read.call(request, size);
  };
}
