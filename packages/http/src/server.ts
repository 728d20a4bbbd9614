import type { Server } from 'node:http';
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyServerOptions,
} from 'fastify';
import {
  type Clock,
  type CloseOptions,
  deadline,
  type Part,
  systemClock,
  wallClock,
} from 'spillway';
import {
  check,
  clockRule,
  having,
  instance,
  integer,
  laneRule,
  maybe,
  nested,
  number,
  or,
  type Settled,
  settle,
  tracing,
  word,
} from 'spillway/internal';
import { buildValidator } from './base/schema.ts';
import { bodyGuard } from './body/body-guard.ts';
import { answerUnrouted, withoutBody } from './body/methods.ts';
import { forms, readJson } from './body/parsers.ts';
import { Failures } from './failure/answer.ts';
import { RecentErrors } from './failure/recent-errors.ts';
import { idempotency } from './idempotency/idempotency.ts';
import type { OperatorOptions } from './operator/operator.ts';
import { Operator } from './operator/operator.ts';
import { Routes } from './operator/routes.ts';
import { kitAssets } from './page/kit/assets.ts';
import { live } from './page/live.ts';
import { pages } from './page/page.ts';
import { limitRates } from './rate/guard.ts';
import type { UserOf } from './rate/key.ts';
import { laneGuard } from './request/admission.ts';
import { answerClientError, refuseConnect } from './request/client-error.ts';
import { Connections } from './request/connections.ts';
import { type Guard, guardHook, type Refuse } from './request/guard.ts';
import { Headers, requestId } from './request/headers.ts';
import { LoopGuard } from './request/loop-guard.ts';
import type { ServerOptions } from './server-options.ts';
import { csrf } from './session/csrf.ts';
import { requirePrimary } from './session/primary-only.ts';
import { sessions } from './session/session.ts';

/**
 * Connections that may wait to be accepted. Node's default of 511 is too few when thousands of
 * clients reconnect during a short pause: the kernel drops the rest, who retry a second later.
 */
const backlog = 4_096;
/** Interval of the checks for connections that are too slow, in milliseconds. */
const checkMs = 1_000;
/**
 * The time that a plugin may take to load, or hooks to close, in ms: Fastify's 10 s are not
 * enough to close ten thousand sockets on a busy machine, and then nothing would be closed.
 */
const pluginMsMax = 60_000;

const proxies = instance((value) => {
  if (Array.isArray(value)) return value.every(word.holds);
  return typeof value === 'boolean' || word.holds(value) || integer(0).holds(value);
}, 'true, false, an address or net, a list of them, or the number of proxies in a row');
const logger = instance((value) => {
  return typeof value === 'boolean' || typeof Object(value).warn === 'function';
}, 'true, false or a logger');
const mediaTypes = instance((value) => {
  return Array.isArray(value) && value.every(word.holds);
}, 'an array of media types');

const rules = {
  name: or(word, 'http' as string),
  host: or(word, '127.0.0.1' as string),
  port: or(integer(0, 65_535), 0),
  https: maybe(nested),
  lane: maybe(laneRule),
  operator: or(nested, {} as OperatorOptions),
  rate: maybe(nested),
  primaryOnly: maybe(nested),
  sessions: maybe(nested),
  csrf: maybe(instance((value) => value === false || nested.holds(value), 'an object or false')),
  idempotency: maybe(nested),
  hub: maybe(having('a WebSocketHub', 'plugin', 'broadcast')),
  live: maybe(nested),
  bodyBytesMax: or(integer(1), 1_048_576),
  bodyTypes: maybe(mediaTypes),
  headerBytesMax: or(integer(1), 16_384),
  connectionsMax: or(integer(1), 10_000),
  connectionsPerAddressMax: maybe(integer(1)),
  headersMsMax: or(integer(1), 10_000),
  requestMsMax: or(integer(1), 300_000),
  keepAliveMs: or(integer(1), 65_000),
  silentMsMax: or(integer(1), 120_000),
  closeMsMax: or(number(0), 5_000),
  lameDuckMs: or(number(0), 0),
  loopMsMax: or(number(0), 1),
  loopDelayMsMax: or(number(1), 1_000),
  contentSecurityPolicy: maybe(word),
  log: maybe(logger),
  errors: maybe(having('a RecentErrors', 'add', 'list')),
  trustProxy: or(proxies, false as NonNullable<ServerOptions['trustProxy']>),
  clock: or(clockRule, systemClock),
};

type ServerSettings = Settled<ServerOptions, typeof rules>;

interface HttpServerParts {
  readonly operator: Operator;
  readonly connections: Connections;
  readonly name: string;
  readonly listen: { readonly host: string; readonly port: number };
  readonly clock: Clock;
}

/** A Fastify server that is a part of a service: `new Service({ parts: [store, server] })`. */
export class HttpServer implements Part, AsyncDisposable {
  readonly name: string;
  /** Fastify instance to which routes and plugins are added, until the server starts. */
  readonly app: FastifyInstance;
  /** The interface for operators, on a socket or a port of its own. */
  readonly operator: Operator;
  readonly #parts: HttpServerParts;

  constructor(app: FastifyInstance, parts: HttpServerParts) {
    this.name = parts.name;
    this.app = app;
    this.operator = parts.operator;
    this.#parts = parts;
  }

  /** The address at which it listens: `http://127.0.0.1:8080`. */
  get url(): string {
    return this.app.listeningOrigin;
  }

  /** The number of open connections, those of WebSockets included. */
  get connections(): number {
    return this.#parts.connections.count;
  }

  async start({ signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    signal?.throwIfAborted();
    await this.app.ready();
    tracing.tracer?.listen(this.app.server as Server);
    await this.operator.start();
    try {
      await this.app.listen({ ...this.#parts.listen, backlog });
    } catch (error) {
      await this.operator.close();
      throw error;
    }
  }

  get ready(): boolean {
    return this.app.server.listening && !this.#parts.connections.isFading;
  }

  /**
   * Reports that it is not ready, lets running requests finish within its own time limit and that
   * of the caller, and cuts the rest.
   */
  async close({ withinMs = Infinity, signal }: CloseOptions = {}): Promise<void> {
    using limit = deadline(this.#parts.clock, withinMs, signal);
    await this.#parts.connections.fade(limit.signal);
    const cut = () => this.#parts.connections.cut();
    if (limit.signal.aborted) cut();
    limit.signal.addEventListener('abort', cut, { once: true });
    await this.app.close();
    await this.operator.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Makes a server with safe defaults: each route has a lane, a deadline and limits on its input. */
export async function createServer(options: ServerOptions = {}): Promise<HttpServer> {
  const settings = settle('createServer', options, rules);
  const { clock, log, errors = new RecentErrors({ clock }), headersMsMax, requestMsMax } = settings;
  check(requestMsMax >= headersMsMax, 'requestMsMax', 'no less than headersMsMax', requestMsMax);
  const routes = new Routes(clock, settings.loopMsMax);
  const headers = new Headers(settings.contentSecurityPolicy);
  const tell = log === false ? undefined : (change: object) => logState(change, log);
  const url = () => (app.server.listening ? app.listeningOrigin : undefined);
  const operator = new Operator(settings.operator, { routes, errors, clock, tell, url });
  let failures: Failures | undefined;
  const onFrameworkError = (error: unknown, reply: FastifyReply): void => {
    // No hooks run for these, such as those for an address that cannot be decoded.
    headers.set(reply);
    failures?.answer(error, reply);
  };
  const app = fastify(fastifyOptions(settings, onFrameworkError)) as unknown as FastifyInstance;
  failures = new Failures(app, { errors, routes, isLogging: log === undefined });
  const connections = connectionsOf(app, settings);
  const loop = new LoopGuard(settings.loopDelayMsMax);
  app.addHook('onListen', async () => loop.start());
  app.addHook('onClose', async () => loop[Symbol.dispose]());
  app.setGenReqId(requestId);
  routes.follow(app);
  const refuse: Refuse = (error, reply, config) => failures.refuse(error, reply, config);
  const answerProbe: Guard = (_request, reply, { probe }) => {
    headers.set(reply);
    if (probe === undefined) return undefined;
    const isReady = operator.unready.length === 0 && !connections.isFading && !loop.isStarved;
    const isFine = probe === 'live' || isReady;
    reply
      .code(isFine ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ [probe]: isFine });
    return 'answered';
  };
  // Cheap guards come first, so that a refused request never reaches the costly ones.
  const guards: (Guard | undefined)[] = [
    answerProbe,
    connections.guard,
    loop.guard,
    settings.rate && limitRates(settings.rate, app),
    laneGuard(app, { lane: settings.lane, routes, clock }),
    bodyGuard(app, settings.bodyTypes),
    settings.primaryOnly && requirePrimary(settings.primaryOnly),
  ];
  const active = guards.filter((guard) => guard !== undefined);
  app.addHook('onRequest', guardHook(active, refuse));
  app.addHook('onSend', (request, reply, payload, done) => {
    if (failures.answersAgain(reply)) return;
    if (connections.isFading) reply.header('connection', 'close');
    done(null, request.method === 'HEAD' ? withoutBody(reply, payload) : payload);
  });
  for (const probe of ['live', 'ready'] as const) {
    app.get(`/-/${probe}`, { config: { probe } }, async () => {});
  }
  readJson(app);
  await app.register(forms);
  await registerKeepers(app, settings);
  await app.register(pages);
  await app.register(kitAssets);
  if (settings.live !== undefined) await app.register(live, { clock, ...settings.live });
  if (settings.hub !== undefined) await app.register(settings.hub.plugin);
  answerUnrouted(app);
  const { name, host, port } = settings;
  return new HttpServer(app, { operator, connections, name, listen: { host, port }, clock });
}

/** Writes a change of state: to the logger, or as a line of JSON to stderr. */
function logState(change: object, log: ServerOptions['log']): void {
  if (typeof log === 'object') {
    log.warn(change, 'action' in change ? 'an operator changed something' : 'state changed');
    return;
  }
  const time = new Date(wallClock.now()).toISOString();
  process.stderr.write(`${JSON.stringify({ level: 'warn', time, ...change })}\n`);
}

function connectionsOf(app: FastifyInstance, settings: ServerSettings): Connections {
  const { connectionsMax, closeMsMax, lameDuckMs, clock, trustProxy } = settings;
  // Behind a proxy all clients have its address.
  const share = trustProxy === false ? Math.max(64, connectionsMax / 2) : connectionsMax;
  const { connectionsPerAddressMax: perAddressMax = Math.floor(share) } = settings;
  app.server.maxConnections = connectionsMax;
  app.server.on('connect', refuseConnect);
  const limits = { perAddressMax, closeMsMax, lameDuckMs, clock };
  const connections = new Connections(app.server as Server, limits);
  app.addHook('preClose', (done) => {
    connections.close();
    done();
  });
  app.addHook('onClose', async () => connections[Symbol.dispose]());
  return connections;
}

/** The plugins that keep something of a client from one request to the next. */
async function registerKeepers(app: FastifyInstance, settings: ServerSettings): Promise<void> {
  const { sessions: session } = settings;
  const changes = settings.csrf ?? (session && { keys: session.keys, secure: session.secure });
  if (session !== undefined) await app.register(sessions, session);
  if (settings.idempotency !== undefined) {
    // By address alone, one user behind a proxy could be given the answer of another.
    const user: UserOf | undefined = session && ((request) => request.session.id);
    await app.register(idempotency, { user, ...settings.idempotency });
  }
  if (changes) await app.register(csrf, changes);
}

function fastifyOptions(
  settings: ServerSettings,
  onFrameworkError: (error: unknown, reply: FastifyReply) => void,
): FastifyServerOptions {
  const { https, log = false, trustProxy } = settings;
  const http = {
    headersTimeout: settings.headersMsMax,
    requestTimeout: settings.requestMsMax,
    connectionsCheckingInterval: Math.min(checkMs, settings.headersMsMax),
    maxHeaderSize: settings.headerBytesMax,
  };
  const logged = typeof log === 'boolean' ? {} : { loggerInstance: log };
  const lines = log === true ? { logger: { level: 'warn', stream: process.stderr } } : logged;
  return {
    ...lines,
    ...(https === undefined ? { http } : { https: { ...http, ...https } }),
    bodyLimit: settings.bodyBytesMax,
    clientErrorHandler: answerClientError,
    connectionTimeout: settings.silentMsMax,
    forceCloseConnections: 'idle',
    frameworkErrors: (error, _request, reply) => onFrameworkError(error, reply),
    keepAliveTimeout: settings.keepAliveMs,
    pluginTimeout: pluginMsMax,
    requestTimeout: settings.requestMsMax,
    return503OnClosing: false,
    schemaController: { compilersFactory: { buildValidator } },
    trustProxy: trustProxyOf(trustProxy),
  } as FastifyServerOptions;
}

/** By `true` Fastify trusts every hop of a chain, so that any client could claim any address. */
function trustProxyOf(trust: NonNullable<ServerOptions['trustProxy']>) {
  const hops = trust === true ? 1 : trust;
  if (typeof hops === 'number') return (_address: string, hop: number) => hop < hops;
  return Array.isArray(trust) ? [...trust] : trust;
}
