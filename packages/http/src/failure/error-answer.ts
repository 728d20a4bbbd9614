import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { refuseBody } from '../request/unread-body.ts';
import { failureOf, textOf } from './failure.ts';
import { failurePage, wantsPage } from './failure-page.ts';
import { RecentErrors } from './recent-errors.ts';

export interface ErrorAnswersOptions {
  /** Where failures of the server are kept for the operator. @default a new one of 200 */
  readonly errors?: RecentErrors | undefined;
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly recentErrors: RecentErrors;
  }
  interface FastifyReply {
    /** Its hooks have begun to run. */
    isSending: boolean;
    /** What the client is told if all goes wrong. */
    failure: ToldFailure | null;
  }
}

/** A failure, ready to be sent. */
interface ToldFailure {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

const jsonType = 'application/json; charset=utf-8';
const pageType = 'text/html; charset=utf-8';

/** What describes the answer that was to be, and not the failure. */
const headersOfAnswer = ['content-disposition', 'content-encoding', 'etag', 'last-modified'];

/** Tells the client of a failure, as JSON or as a page, and keeps it for the operator. */
export function answerFailure(
  error: unknown,
  reply: FastifyReply,
  errors: RecentErrors,
): FastifyReply {
  const { request } = reply;
  // The deadline has answered already.
  if (reply.sent) return reply;
  // The client has gone: that is why it failed, mostly. Only hooks hear of the answer.
  const isGone = reply.raw.destroyed;
  const failure = failureOf(error, request.routeOptions.bodyLimit);
  const { code, status, message, field, id, headers } = failure;
  if (status >= 500 && !isGone) {
    const text = id === undefined ? message : textOf(error);
    errors.add({ id, route: routeOf(request), code, status, message: text });
  }
  if (id !== undefined && !isGone)
    request.log.error({ err: error, errorId: id }, 'unexpected failure');
  refuseBody(reply);
  for (const name of headersOfAnswer) reply.removeHeader(name);
  reply.code(status).headers({ ...headers, 'cache-control': 'no-store' });
  // What a handler has set to write its answers with might not take a text.
  reply.serializer(String);
  const isPage = wantsPage(request.headers.accept);
  const body = isPage
    ? failurePage(failure)
    : JSON.stringify({ ok: false, error: { code, message, field, id } });
  reply.failure = { status, type: isPage ? pageType : jsonType, body };
  return reply.type(reply.failure.type).send(body);
}

/** Answers past all hooks. */
function answerAnyhow(reply: FastifyReply, { status, type, body }: ToldFailure): void {
  const { raw } = reply;
  reply.headers({ 'content-type': type, 'content-length': Buffer.byteLength(body) });
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    try {
      if (value !== undefined) raw.setHeader(name, value);
    } catch {
      // It cannot be sent: that may be what has failed.
    }
  }
  raw.statusCode = status;
  raw.end(body);
}

function routeOf(request: FastifyRequest): string {
  return `${request.method} ${request.routeOptions.url ?? '(no route)'}`;
}

const plugin: FastifyPluginAsync<ErrorAnswersOptions> = async (app, options) => {
  const { errors = new RecentErrors() } = options;
  app.decorate('recentErrors', errors);
  app.decorateReply('isSending', false);
  app.decorateReply('failure', null);
  app.addHook('onSend', (_request, reply, _payload, done) => {
    // What comes here again has failed on its way, in a hook or at a header. To run all hooks again
    // would end in an answer of Fastify's own, which tells strangers what the error says.
    if (reply.isSending && reply.failure !== null && !reply.raw.headersSent) {
      answerAnyhow(reply, reply.failure);
      return;
    }
    reply.isSending = true;
    done();
  });
  app.setErrorHandler((error, _request, reply) => {
    answerFailure(error, reply, errors);
  });
};

/**
 * The one place where a failure becomes an answer: `{ ok: false, error: { code, message, field?,
 * id? } }`, or a page for who asks for HTML. What nobody foresaw is told by an id only.
 */
export const errorAnswers: FastifyPluginAsync<ErrorAnswersOptions> = fastifyPlugin(plugin, {
  name: 'spillway-errors',
  fastify: '5.x',
});
