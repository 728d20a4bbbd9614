import type {
  FastifyContextConfig,
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
} from 'fastify';
import { SpillwayError, wallClock } from 'spillway';
import { type Failure, failureBody, failureType, textOf } from 'spillway/internal';
import { plugin } from '../base/plugin.ts';
import type { Routes } from '../operator/routes.ts';
import { errorPage } from '../page/kit/error-page.ts';
import { refuseBody } from '../request/unread-body.ts';
import { failureOf, wantsPage } from './failure.ts';
import type { RecentErrors } from './recent-errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    readonly recentErrors: RecentErrors;
    /** Logs a failure and keeps it for the operator: for an error handler of a scope. */
    readonly noteFailure: (error: unknown, reply: FastifyReply) => Failure;
  }
  interface FastifyReply {
    /** True once its `onSend` hooks have begun to run. */
    isSending: boolean;
    /** The failure that is sent if a hook or a header of the answer fails as well. */
    failure: { readonly status: number; readonly type: string; readonly body: string } | null;
  }
}

export interface FailuresOptions {
  readonly errors: RecentErrors;
  readonly routes: Routes;
  /** True if unexpected failures are written to stderr, for a server without a logger. */
  readonly isLogging: boolean;
}

const pageType = 'text/html; charset=utf-8';

/** Headers that describe the intended answer and would be wrong on a failure. */
const headersOfAnswer = ['content-disposition', 'content-encoding', 'etag', 'last-modified'];

/**
 * The one place where a failure becomes an answer: `{ ok: false, error: { code, message, field?,
 * id } }`, or a page for clients that ask for HTML. Details go to the log and to the operator,
 * under the same id.
 */
export class Failures {
  readonly #app: FastifyInstance;
  readonly #options: FailuresOptions;
  readonly #handler: unknown;

  constructor(app: FastifyInstance, options: FailuresOptions) {
    this.#app = app;
    this.#options = options;
    app.decorate('recentErrors', options.errors);
    app.decorate('noteFailure', (error, reply) => this.#note(error, reply));
    app.decorateReply('isSending', false);
    app.decorateReply('failure', null);
    app.setErrorHandler((error, _request, reply) => {
      this.answer(error, reply);
    });
    this.#handler = app.errorHandler;
  }

  /** Sends a failure to the client, with all hooks of an answer, and keeps it for the operator. */
  answer(error: unknown, reply: FastifyReply): void {
    const { request } = reply;
    // The deadline has answered already.
    if (reply.sent) return;
    const failure = this.#note(error, reply);
    refuseBody(reply);
    for (const name of headersOfAnswer) reply.removeHeader(name);
    reply.code(failure.status).headers({ ...failure.headers, 'cache-control': 'no-store' });
    // A serializer that a handler has set might not take a text.
    reply.serializer(String);
    const isPage = wantsPage(request.headers.accept);
    const body = isPage ? pageOf(failure, reply) : failureBody(failure, request.id);
    reply.failure = { status: failure.status, type: isPage ? pageType : failureType, body };
    reply.type(reply.failure.type).send(body);
  }

  /**
   * Sends the refusal of a guard at the lowest cost, without the hooks of an answer: nothing was
   * begun, and a server that refuses requests is a busy one.
   */
  refuse(error: unknown, reply: FastifyReply, config: FastifyContextConfig): void {
    const { raw, request } = reply;
    const isPlain = error instanceof SpillwayError && !wantsPage(request.headers.accept);
    const isOurs = (config.numbers?.scope ?? this.#app).errorHandler === this.#handler;
    if (!isPlain || !isOurs) {
      // The error handler of the scope answers, as for a failure of a handler.
      if (!raw.destroyed) reply.send(error);
      return;
    }
    reply.hijack();
    if (raw.destroyed) return;
    const failure = failureOf(error);
    this.#keep(error, failure, reply, config.numbers?.route?.url);
    const body = failureBody(failure, request.id);
    refuseBody(reply);
    const lines: string[] = [];
    // The headers of every answer, and those that guards have set.
    const headers = reply.getHeaders();
    for (const name in headers) lines.push(name, String(headers[name]));
    for (const name in failure.headers) lines.push(name, String(failure.headers[name]));
    lines.push('cache-control', 'no-store', 'content-type', failureType);
    lines.push('content-length', String(Buffer.byteLength(body)));
    raw.writeHead(failure.status, lines);
    raw.end(request.method === 'HEAD' ? undefined : body);
    this.#options.routes.refused(config.numbers, failure.status);
  }

  /** Answers without hooks if a hook or a header of the answer has failed; true if it did. */
  answersAgain(reply: FastifyReply): boolean {
    // Running all hooks again would end in Fastify's own answer, which shows the error to clients.
    const { failure } = reply;
    if (!reply.isSending || failure === null || reply.raw.headersSent) {
      reply.isSending = true;
      return false;
    }
    const { raw } = reply;
    const { status, type, body } = failure;
    reply.headers({ 'content-type': type, 'content-length': Buffer.byteLength(body) });
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      try {
        if (value !== undefined) raw.setHeader(name, value);
      } catch {
        // This may be the header that has failed: it is left out.
      }
    }
    raw.statusCode = status;
    raw.end(body);
    return true;
  }

  #note(error: unknown, reply: FastifyReply): Failure {
    const { bodyLimit, url } = reply.request.routeOptions;
    const failure = failureOf(error, bodyLimit);
    // Most failures after the client has gone follow from that, and are not worth keeping.
    if (!reply.raw.destroyed) this.#keep(error, failure, reply, url);
    return failure;
  }

  #keep(error: unknown, failure: Failure, { request }: FastifyReply, url = '(no route)'): void {
    const { code, status, isUnexpected } = failure;
    // A transfer coding that is not known is a fault of the client, though RFC 9112 asks for 501.
    if (status < 500 || code === 'BODY_CODING') return;
    const id = isUnexpected ? request.id : undefined;
    const route = `${request.method} ${url}`;
    const stack = isUnexpected ? stackOf(error) : undefined;
    this.#options.errors.add({ id, route, code, status, message: textOf(error), stack });
    if (!isUnexpected) return;
    request.log.error({ err: error, errorId: id, route }, 'unexpected failure');
    if (!this.#options.isLogging) return;
    const line = { level: 'error', time: new Date(wallClock.now()).toISOString(), id, route, code };
    process.stderr.write(`${JSON.stringify({ ...line, message: textOf(error), stack })}\n`);
  }
}

function stackOf(error: unknown): string {
  const { stack, cause }: { stack?: unknown; cause?: unknown } = Object(error);
  const own = typeof stack === 'string' ? stack : textOf(error);
  return cause === undefined ? own : `${own}\ncaused by ${stackOf(cause)}`;
}

/** A page for a person; a request that only reads is tried again by the page itself. */
function pageOf({ code, status, message: detail, headers }: Failure, { request }: FastifyReply) {
  const seconds = Number(headers['retry-after']);
  const retrySeconds = request.method === 'GET' && seconds > 0 ? seconds : undefined;
  return String(errorPage({ status, code, detail, requestId: request.id, retrySeconds }));
}

/** Answers errors as `createServer` does, on a Fastify instance of your own. */
export const failures: FastifyPluginAsync = plugin('failures', async (app) => {
  app.setErrorHandler((error, request, reply) => {
    const failure = failureOf(error, request.routeOptions.bodyLimit);
    if (failure.isUnexpected) request.log.error({ err: error }, 'unexpected failure');
    reply.code(failure.status).headers({ ...failure.headers, 'cache-control': 'no-store' });
    reply.type(failureType).serializer(String).send(failureBody(failure, request.id));
  });
});
