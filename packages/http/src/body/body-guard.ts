import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { httpError } from '../base/errors.ts';
import type { Guard } from '../request/guard.ts';
import { hasBody } from '../request/unread-body.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The types of body that the route takes. @default those of the server */
    bodyTypes?: readonly string[] | 'any' | undefined;
  }
}

const commonTypes: readonly string[] = [
  'application/json',
  'application/x-www-form-urlencoded',
  'multipart/form-data',
  'text/plain',
];

/** Refuses a body too large (413), of a wrong type (415) or coding (501) before it is read. */
export function bodyGuard(app: FastifyInstance, types: readonly string[] = commonTypes): Guard {
  app.server.on('checkContinue', (request, response) => {
    continueWhenRead(request, response);
    app.routing(request, response);
  });
  const { bodyLimit: usualLimit = Infinity } = app.initialConfig;
  return (request, _reply, { bodyTypes: allowed = types, numbers }) => {
    const { method } = request;
    // A path without a route takes no body: its answer is 404.
    const isUnread = method === 'GET' || method === 'HEAD' || request.is404;
    if (isUnread || !hasBody(request)) return;
    const coding = request.headers['transfer-encoding'] ?? 'chunked';
    if (coding.toLowerCase() !== 'chunked') {
      const message = 'the body may be chunked, but in no other transfer coding';
      return Object.assign(httpError('BODY_CODING', message), { expose: true });
    }
    const bodyLimit = numbers?.route?.bodyLimit ?? usualLimit;
    if (Number(request.headers['content-length']) > bodyLimit) {
      return httpError('BODY_TOO_LARGE', `the body may have ${bodyLimit} bytes at most`);
    }
    // Most clients send the bare type, which needs no parser.
    const type = request.headers['content-type'] ?? '';
    if (allowed === 'any' || allowed.includes(type)) return;
    if (allowed.includes(request.mediaType ?? '')) return;
    return httpError('BODY_TYPE', `the body must be of type ${allowed.join(', ')}`);
  };
}

/** Sends `100 Continue` to a client that waits for it, once somebody begins to read the body. */
function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  const read = request._read;
  request._read = (size) => {
    request._read = read;
    if (!response.headersSent) response.writeContinue();
    read.call(request, size);
  };
}
