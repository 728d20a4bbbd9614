import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyServerOptions,
} from 'fastify';
import { type Clock, type CloseOptions, deadline, Lane, type Part, systemClock } from 'spillway';
import { bodyGuard } from './body/body-guard.ts';
import { forms } from './body/forms.ts';
import { methods } from './body/methods.ts';
import { buildValidator } from './body/schema.ts';
import { careful, securityHeaders } from './body/security-headers.ts';
import { answerFailure, errorAnswers } from './failure/error-answer.ts';
import { RecentErrors } from './failure/recent-errors.ts';
import { idempotency } from './idempotency/idempotency.ts';
import { Operator } from './operator/operator.ts';
import { Routes } from './operator/routes.ts';
import { kitAssets } from './page/kit/assets.ts';
import { live } from './page/live.ts';
import { pages } from './page/page.ts';
import { PluginHost } from './plugin/host.ts';
import { rateGuard } from './rate/guard.ts';
import type { UserOf } from './rate/key.ts';
import { admission } from './request/admission.ts';
import { answerClientError } from './request/client-error.ts';
import { requestIds, tellRequestId } from './request/request-id.ts';
import { stopping } from './request/stopping.ts';
import { checkServerOptions, type ServerLimits, type ServerOptions } from './server-options.ts';
import { blockedUsers } from './session/blocked.ts';
import { csrf } from './session/csrf.ts';
import { primaryOnly } from './session/primary-only.ts';
import { sessions } from './session/session.ts';

/**
 * Connections that may wait to be accepted. Node's 511 are gone in a moment's pause of a server
 * that thousands of clients return to, and whoever is dropped tries again only after a second.
 */
const backlog = 4_096;
/** How often connections are looked at for those that are too slow, in milliseconds. */
const lookMs = 1_000;
/**
 * How long a plugin may take to load, or hooks to close, in milliseconds: Fastify's 10 s are not
 * enough to close ten thousand sockets on a busy machine, and then nothing would be closed.
 */
const pluginMsMax = 60_000;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Set on the routes for orchestrators and balancers, which no guard holds up. */
    readonly probe?: 'live' | 'ready' | undefined;
  }
}

/** A Fastify server that can be a part of a service: `new Service({ parts: [store, server] })`. */
export class HttpServer implements Part, AsyncDisposable {
  readonly name: string;
  /** Where routes and plugins are declared, until the server starts. */
  readonly app: FastifyInstance;
  /** The interface for operators, on a socket or a port of its own. */
  readonly operator: Operator;
  readonly #listen: { readonly host: string; readonly port: number };
  readonly #clock: Clock;

  constructor(app: FastifyInstance, operator: Operator, options: ServerOptions) {
    const { name = 'http', host = '127.0.0.1', port = 0 } = options;
    this.name = name;
    this.app = app;
    this.operator = operator;
    this.#listen = { host, port };
    this.#clock = options.clock ?? systemClock;
  }

  /** Where it listens: `http://127.0.0.1:8080`. */
  get url(): string {
    return this.app.listeningOrigin;
  }

  async start({ signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    signal?.throwIfAborted();
    await this.operator.start();
    try {
      await this.app.listen({ ...this.#listen, backlog });
    } catch (error) {
      await this.operator.close();
      throw error;
    }
  }

  get ready(): boolean {
    return this.app.server.listening && !this.app.stopper.stopping;
  }

  /** Finishes the requests under way, within its own limit and that of the caller; then cuts. */
  async close({ withinMs = Infinity, signal }: CloseOptions = {}): Promise<void> {
    const cut = () => this.app.stopper.cut();
    using limit = deadline(this.#clock, withinMs, signal);
    if (limit.signal.aborted) cut();
    limit.signal.addEventListener('abort', cut, { once: true });
    await this.app.close();
    await this.operator.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** A server that is safe as it is: each route has a lane, a deadline and limits on all it takes. */
export async function createServer(options: ServerOptions = {}): Promise<HttpServer> {
  const limits = checkServerOptions(options);
  const { clock = systemClock, drainMsMax, loopMsMax = 1 } = options;
  const { errors = new RecentErrors({ clock }) } = options;
  const lane =
    options.lane ??
    new Lane({ name: 'default', limit: 256, queueMax: 2_048, deadlineMs: 20_000, clock });
  const host = new PluginHost({ plugins: options.plugins ?? [], clock });
  const app = fastify(fastifyOptions(options, limits, errors)) as unknown as FastifyInstance;
  app.server.maxConnections = limits.connectionsMax;
  // The order matters: each guard spares those behind it what it refuses.
  await app.register(errorAnswers, { errors });
  await app.register(requestIds);
  await app.register(securityHeaders, { contentSecurityPolicy: options.contentSecurityPolicy });
  const routes = new Routes(clock, loopMsMax);
  const operator = new Operator(options.operator ?? {}, { routes, errors, plugins: host, clock });
  app.addHook('onRequest', (request, reply, done) => {
    const { config } = request.routeOptions;
    routes.count(config, reply);
    // Past all guards: a probe must be answered when nothing else is.
    if (config.probe === undefined) done();
    else answerProbe(reply, config.probe, operator.unready.length === 0 && !app.stopper.stopping);
  });
  await app.register(stopping, { drainMsMax, clock });
  routes.follow(app);
  for (const probe of ['live', 'ready'] as const) {
    app.get(`/-/${probe}`, { config: { probe } }, async () => {});
  }
  await app.register(admission, { lane, clock });
  await app.register(bodyGuard, { types: options.bodyTypes });
  await app.register(forms);
  await registerGuards(app, options);
  await app.register(pages);
  await app.register(kitAssets);
  if (options.live !== undefined) await app.register(live, { clock, ...options.live });
  if (options.hub !== undefined) await app.register(options.hub.plugin);
  await app.register(host.plugin);
  await app.register(methods);
  return new HttpServer(app, operator, options);
}

/** Tells an orchestrator or a balancer yes or no, and nothing else. */
function answerProbe(reply: FastifyReply, probe: 'live' | 'ready', isReady: boolean): void {
  const isFine = probe === 'live' || isReady;
  reply.code(isFine ? 200 : 503).header('cache-control', 'no-store');
  reply.send({ [probe]: isFine });
}

/** Those that need to be told something before they can guard. */
async function registerGuards(app: FastifyInstance, options: ServerOptions): Promise<void> {
  const { rate, primaryOnly: primary, sessions: session, blockedUsers: blocked } = options;
  const changes = options.csrf ?? (session && { keys: session.keys, secure: session.secure });
  if (rate !== undefined) await app.register(rateGuard, rate);
  if (primary !== undefined) await app.register(primaryOnly, primary);
  if (session !== undefined) await app.register(sessions, session);
  if (blocked !== undefined) await app.register(blockedUsers, blocked);
  if (options.idempotency !== undefined) {
    // By address alone, one user behind a proxy could be given the answer of another.
    const user: UserOf | undefined = session && ((request) => request.session.id);
    await app.register(idempotency, { user, ...options.idempotency });
  }
  if (changes) await app.register(csrf, changes);
}

function fastifyOptions(
  options: ServerOptions,
  limits: ServerLimits,
  errors: RecentErrors,
): FastifyServerOptions {
  const { https, log = false, trustProxy = false } = options;
  const setHeaders = careful(options);
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
    // No hooks run for these, such as those for an address that cannot be decoded.
    frameworkErrors: (error, _request, reply) => {
      tellRequestId(reply);
      setHeaders(reply);
      answerFailure(error, reply, errors);
    },
    keepAliveTimeout: limits.keepAliveMs,
    pluginTimeout: pluginMsMax,
    requestTimeout: limits.requestMsMax,
    return503OnClosing: false,
    schemaController: { compilersFactory: { buildValidator } },
    trustProxy: Array.isArray(trustProxy) ? [...trustProxy] : trustProxy,
  } as FastifyServerOptions;
}
