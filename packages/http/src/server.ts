import fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import { Lane, type Part } from 'spillway';
import { admission } from './admission.ts';
import { bodyGuard } from './body-guard.ts';
import { answerClientError } from './client-error.ts';
import { domains } from './domain.ts';
import { answerFailure, errorAnswers } from './error-answer.ts';
import { methods } from './methods.ts';
import { RecentErrors } from './recent-errors.ts';
import { buildValidator } from './schema.ts';
import { securityHeaders } from './security-headers.ts';
import { checkServerOptions, type ServerLimits, type ServerOptions } from './server-options.ts';
import { stopping } from './stopping.ts';

/** How often connections are looked at for those that are too slow, in milliseconds. */
const lookMs = 1_000;

/** A Fastify server that can be a part of a service: `new Service({ parts: [store, server] })`. */
export class HttpServer implements Part, AsyncDisposable {
  readonly name: string;
  /** Where routes and plugins are declared, until the server starts. */
  readonly app: FastifyInstance;
  readonly #listen: { readonly host: string; readonly port: number };

  constructor(app: FastifyInstance, options: ServerOptions) {
    const { name = 'http', host = '127.0.0.1', port = 0 } = options;
    this.name = name;
    this.app = app;
    this.#listen = { host, port };
  }

  /** Where it listens: `http://127.0.0.1:8080`. */
  get url(): string {
    return this.app.listeningOrigin;
  }

  async start(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    await this.app.listen(this.#listen);
  }

  ready(): boolean {
    return this.app.server.listening && !this.app.stopper.stopping;
  }

  /** Finishes what runs, within its own limit and until the signal aborts. */
  async stop(signal?: AbortSignal): Promise<void> {
    const cut = () => this.app.stopper.cut();
    signal?.addEventListener('abort', cut, { once: true });
    try {
      await this.app.close();
    } finally {
      signal?.removeEventListener('abort', cut);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/** A server that is safe as it is: each route has a lane, a deadline and limits on all it takes. */
export async function createServer(options: ServerOptions = {}): Promise<HttpServer> {
  const limits = checkServerOptions(options);
  const { clock, drainMsMax, errors = new RecentErrors({ clock }), loopMsMax } = options;
  const lane =
    options.lane ??
    new Lane({ name: 'default', limit: 256, queueMax: 2_048, deadlineMs: 20_000, clock });
  const app = fastify(fastifyOptions(options, limits, errors)) as unknown as FastifyInstance;
  app.server.maxConnections = limits.connectionsMax;
  // The order matters: each guard spares those behind it what it refuses.
  await app.register(errorAnswers, { errors });
  await app.register(securityHeaders, { contentSecurityPolicy: options.contentSecurityPolicy });
  await app.register(stopping, { drainMsMax, clock });
  await app.register(domains, { loopMsMax });
  await app.register(admission, { lane, clock });
  await app.register(bodyGuard, { types: options.bodyTypes });
  await options.guards?.(app);
  await app.register(methods);
  return new HttpServer(app, options);
}

function fastifyOptions(
  options: ServerOptions,
  limits: ServerLimits,
  errors: RecentErrors,
): FastifyServerOptions {
  const { https, log = false, trustProxy = false } = options;
  const http = {
    headersTimeout: limits.headersMsMax,
    requestTimeout: limits.requestMsMax,
    connectionsCheckingInterval: Math.min(lookMs, limits.headersMsMax),
    maxHeaderSize: limits.headerBytesMax,
  };
  const logged = typeof log === 'boolean' ? {} : { loggerInstance: log };
  const lines = log === true ? { logger: { level: 'warn', stream: process.stderr } } : logged;
  return {
    ...lines,
    ...(https === undefined ? { http } : { https: { ...http, ...https } }),
    bodyLimit: limits.bodyBytesMax,
    clientErrorHandler: answerClientError,
    connectionTimeout: limits.silentMsMax,
    forceCloseConnections: 'idle',
    frameworkErrors: (error, _request, reply) => {
      answerFailure(error, reply, errors);
    },
    keepAliveTimeout: limits.keepAliveMs,
    requestTimeout: limits.requestMsMax,
    return503OnClosing: false,
    schemaController: { compilersFactory: { buildValidator } },
    trustProxy: Array.isArray(trustProxy) ? [...trustProxy] : trustProxy,
  } as FastifyServerOptions;
}
