import type {
  FastifyContextConfig,
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  onRequestHookHandler,
} from 'fastify';
import { plugin } from '../base/plugin.ts';

/**
 * A check of a request before its body is read. It gives the error with which it refuses the
 * request, `'answered'` if it has answered itself, nothing if the request may pass, or a promise.
 */
export type Guard = (
  request: FastifyRequest,
  reply: FastifyReply,
  config: FastifyContextConfig,
) => Verdict | Promise<Verdict>;

// biome-ignore lint/suspicious/noConfusingVoidType: a guard may return nothing.
type Verdict = 'answered' | Error | undefined | void;

/** Sends a refusal to the client. */
export type Refuse = (error: unknown, reply: FastifyReply, config: FastifyContextConfig) => void;

/**
 * One hook for all guards, in their order. One hook for each guard costs more: six synchronous ones
 * 1.4 us a request, six asynchronous ones 5.7 (2026-11).
 */
export function guardHook(guards: readonly Guard[], refuse: Refuse): onRequestHookHandler {
  const count = guards.length;
  const go = (
    at: number,
    request: FastifyRequest,
    reply: FastifyReply,
    config: FastifyContextConfig,
    done: () => void,
  ): void => {
    try {
      for (let i = at; i < count; i += 1) {
        const verdict = (guards[i] as Guard)(request, reply, config);
        if (verdict === undefined) continue;
        if (verdict instanceof Promise) {
          verdict.then(
            (later) => {
              if (later === undefined) go(i + 1, request, reply, config, done);
              else if (later !== 'answered') refuse(later, reply, config);
            },
            (error: unknown) => refuse(error, reply, config),
          );
        } else if (verdict !== 'answered') refuse(verdict, reply, config);
        return;
      }
    } catch (error) {
      refuse(error, reply, config);
      return;
    }
    done();
  };
  // The config is read once: Fastify makes a new object each time.
  return (request, reply, done) => go(0, request, reply, request.routeOptions.config, done);
}

/** Leaves the answer to the error handler of the scope. */
export const answerByHandler: Refuse = (error, reply) => {
  reply.send(error);
};

/** A guard as a plugin of its own, for a Fastify server that was not made by `createServer`. */
export function guardPlugin<Options extends object>(
  name: string,
  make: (options: Options, app: FastifyInstance) => Guard,
): FastifyPluginAsync<Options> {
  return plugin<Options>(name, async (app, options) => {
    const guard = make(options, app);
    app.addHook('onRequest', guardHook([guard], answerByHandler));
  });
}
