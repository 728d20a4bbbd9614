import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, RequestListener, Server } from 'node:http';
import fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import {
  type Clock,
  exposition,
  expositionType,
  type Lane,
  Panel,
  type Part,
  Service,
} from 'spillway';
import {
  having,
  instance,
  integer,
  maybe,
  nested,
  or,
  partMetrics,
  plain,
  type Settled,
  settle,
  word,
} from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { type NewestStream, NewestStreams } from '../base/newest-stream.ts';
import { matching } from '../base/rules.ts';
import { buildValidator } from '../base/schema.ts';
import { Actions, type OperatorAction } from './actions.ts';
import { listen, SocketListener, shut } from './listen.ts';
import { openApi } from './openapi.ts';
import { ProcessStats, processMetrics } from './process.ts';
import type { Routes } from './routes.ts';
import { type StateChange, StateLog } from './state-log.ts';

export interface OperatorOptions {
  /** The path of a Unix socket for the operator; see `operatorSocket`. @default none */
  readonly socket?: string | undefined;
  /** A second port for operators of other machines, who send the token. @default none */
  readonly remote?: OperatorRemote | undefined;
  /** The parts that can be watched. @default an empty panel */
  readonly panel?: Panel | undefined;
  /** The service or parts that must be ready. @default none */
  readonly ready?: Service | readonly Part[] | undefined;
  /** The configuration to show. @default empty */
  readonly config?: ShownConfig | undefined;
}

/** A configuration, and the names of the settings whose values may be seen. */
export interface ShownConfig {
  readonly values: Readonly<Record<string, unknown>>;
  /** Names of the settings that are shown; of the others only whether they are set. */
  readonly shown: readonly string[];
}

/** The second port, for operators of other machines. */
export interface OperatorRemote {
  /** The address to listen at. @default '127.0.0.1' */
  readonly host?: string | undefined;
  /** The port to listen at; 0 takes a free one. */
  readonly port: number;
  /** Lets in requests with `Authorization: Bearer` and this word of 16 to 1,024 characters. */
  readonly token: string;
}

/** The sources of an operator's endpoints that the server has itself. */
export interface OperatorSources {
  readonly routes: Routes;
  readonly errors: { list(): readonly unknown[] };
  readonly clock: Clock;
  /** Gives the public address of the server. @default unknown */
  readonly url?: (() => string | undefined) | undefined;
  /** Called with each change of state and each action of an operator. @default nothing */
  readonly tell?: ((change: StateChange | OperatorAction) => void) | undefined;
}

/** Milliseconds from one state of the stream to the next. */
const streamMs = 1_000;
/** Readers of the stream at once. */
const streamsMax = 16;
/** A reader that took nothing for this many states of the stream is cut off. */
const missedMax = 60;

const readiness = instance((value) => {
  return value instanceof Service || Array.isArray(value);
}, 'a Service or a list of parts');
const rules = {
  socket: maybe(word),
  remote: maybe(nested),
  panel: maybe(having('a Panel', 'watch', 'read')),
  ready: or(readiness, [] as NonNullable<OperatorOptions['ready']>),
  config: maybe(nested),
};
const remoteRules = {
  host: or(word, '127.0.0.1' as string),
  port: integer(0, 65_535),
  token: matching(/^\S{16,1024}$/, 'a word of 16 to 1024 characters'),
};

const endpoints = {
  live: 'the server answers',
  ready: 'the server can take work, or which parts cannot',
  stats: 'the numbers of the process, of all parts and routes',
  'stats/stream': 'the same once a second, as server-sent events',
  metrics: 'the same for Prometheus',
  routes: 'each route with its lane, domain and rate',
  errors: 'the last failures',
  config: 'the configuration, as far as it may be seen',
  'openapi.json': 'the routes with their schemas, as OpenAPI 3.1',
  actions: 'changes by POST: resize, pause, resume, recycle, open, close, release, drain',
} as const;

/**
 * The interface for the people who run a service: on a Unix socket of its user, and on a second
 * port with a token. Nothing of it is on the public port, so that no proxy can open it to others.
 */
export class Operator {
  /** Fastify instance to which a service adds endpoints of its own, until the server starts. */
  readonly app: FastifyInstance;
  readonly panel: Panel;
  readonly #options: Settled<OperatorOptions, typeof rules>;
  readonly #remoteOptions: Settled<OperatorRemote, typeof remoteRules> | undefined;
  readonly #sources: OperatorSources;
  readonly #process: ProcessStats;
  readonly #actions: Actions;
  readonly #streams: NewestStreams;
  /** Number of the stream's state; its text is made when the first reader can take it. */
  #beat = 0;
  #event: string | undefined;
  #log: StateLog | undefined;
  #socket: SocketListener | undefined;
  #remote: Server | undefined;

  constructor(options: OperatorOptions, sources: OperatorSources) {
    const { clock, routes, tell = () => {} } = sources;
    const settings = settle('operator', options, rules);
    const { panel = new Panel(), remote } = settings;
    this.panel = panel;
    this.#options = settings;
    this.#remoteOptions = remote && settle('operator.remote', remote, remoteRules);
    this.#sources = sources;
    this.#process = new ProcessStats(clock);
    this.#actions = new Actions({ panel, lanes: () => routes.lanes, tell });
    this.#streams = new NewestStreams({
      clock,
      beatMs: streamMs,
      missedMax,
      onBeat: () => this.#nextState(),
    });
    const schemaController = { compilersFactory: { buildValidator } };
    this.app = fastify({ forceCloseConnections: true, schemaController } as FastifyServerOptions);
    this.#declare();
  }

  /** The names of the parts that are not ready. */
  get unready(): readonly string[] {
    const { ready } = this.#options;
    if (!(ready instanceof Service)) return unreadyOf(ready).map(({ name }) => name);
    // A service that stops is not ready, though its parts may still be.
    return ready.ready || ready.unready.length > 0 ? ready.unready : ['service'];
  }

  /** The reasons why parts are not ready, by their names, as far as they know them. */
  get faults(): Readonly<Record<string, string>> {
    const { ready } = this.#options;
    if (ready instanceof Service) return ready.faults;
    return Object.fromEntries(
      unreadyOf(ready).flatMap(({ name, fault }) => (fault === undefined ? [] : [[name, fault]])),
    );
  }

  /** The address of the second port; undefined without one. */
  get url(): string | undefined {
    const address = this.#remote?.address();
    if (typeof address !== 'object' || address === null) return undefined;
    const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    return `http://${host}:${address.port}`;
  }

  async start(): Promise<void> {
    try {
      await this.#start();
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async #start(): Promise<void> {
    const { socket } = this.#options;
    const remote = this.#remoteOptions;
    const { routes, clock, tell } = this.#sources;
    for (const lane of routes.lanes) this.#watchLane(lane);
    if (tell) {
      const { panel } = this;
      const unready = () => this.unready;
      const faults = () => this.faults;
      this.#log = new StateLog({ panel, unready, faults, tell, clock });
    }
    await this.app.ready();
    const handler: RequestListener = (request, response) => this.app.routing(request, response);
    if (socket !== undefined) {
      this.#socket = new SocketListener(socket, handler, clock);
      await this.#socket.start();
    }
    if (remote !== undefined) {
      const { host, port, token } = remote;
      this.#remote = await listen(withToken(handler, token), { host, port });
    }
  }

  async close(): Promise<void> {
    this.#log?.[Symbol.dispose]();
    this.#streams.close();
    await this.#socket?.close();
    if (this.#remote !== undefined) await shut(this.#remote);
    await this.app.close();
    this.#process[Symbol.dispose]();
  }

  #state(): object {
    const parts = Object.fromEntries(this.panel.read());
    const { routes, url } = this.#sources;
    const { changeable } = this.#actions;
    const { stats: process } = this.#process;
    return { url: url?.(), process, parts, changeable, routes: routes.stats };
  }

  #openStream(): NewestStream {
    if (this.#streams.size >= streamsMax) {
      const message = `${streamsMax} streams are open already`;
      throw httpError('SOCKETS_FULL', message, { retryAfterMs: 10_000 });
    }
    if (this.#streams.size === 0) this.#nextState();
    let seen = -1;
    return this.#streams.open(() => {
      if (seen === this.#beat) return undefined;
      seen = this.#beat;
      this.#event ??= `data: ${JSON.stringify(this.#state())}\n\n`;
      return this.#event;
    });
  }

  #nextState(): void {
    this.#beat += 1;
    this.#event = undefined;
  }

  /** Lanes inside of others are shown with them. */
  #watchLane(lane: Lane): void {
    if (lane.parent !== undefined) this.#watchLane(lane.parent);
    else this.panel.add(lane.name, lane);
  }

  #declare(): void {
    const { app } = this;
    const { routes, errors } = this.#sources;
    app.addHook('onSend', async (_request, reply) => {
      reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
    });
    app.setErrorHandler((error, _request, reply) => {
      const { code = 'UNEXPECTED', status, statusCode = status ?? 500 } = Object(error);
      const { message, field } = Object(error);
      return reply.code(statusCode).send({ ok: false, error: { code, message, field } });
    });
    const get = (path: keyof typeof endpoints, answer: () => unknown) =>
      app.get(`/-/${path}`, async () => answer());
    app.get('/-/', async ({ headers }, reply) => {
      const own = Object.entries(endpoints).map(([path, text]) => [`/-/${path}`, text] as const);
      if (!headers.accept?.includes('text/html')) return Object.fromEntries(own);
      return reply.type('text/html; charset=utf-8').send(listPage(own));
    });
    get('openapi.json', () => openApi(routes.declared, 'Routes'));
    get('live', () => ({ live: true }));
    get('stats', () => this.#state());
    get('errors', () => plain(errors.list()));
    get('routes', () => routes.stats);
    get('config', () => shownConfig(this.#options.config));
    app.get('/-/ready', async (_request, reply) => {
      const { unready } = this;
      const ready = unready.length === 0;
      // Without reasons, the field is left out.
      const { faults } = this;
      const reasons = Object.keys(faults).length > 0 ? faults : undefined;
      const durability = durabilityOf(this.panel);
      return reply.code(ready ? 200 : 503).send({ ready, unready, reasons, durability });
    });
    this.#actions.declare(app);
    app.get('/-/metrics', async (_request, reply) => {
      const parts = partMetrics(this.panel.read());
      const families = [...parts, ...routes.metrics, ...processMetrics(this.#process.stats)];
      return reply.type(expositionType).send(exposition(families));
    });
    // Without the HEAD route that Fastify would add: its stream would never be read.
    app.get('/-/stats/stream', { exposeHeadRoute: false }, async (_request, reply) =>
      reply.type('text/event-stream').send(this.#openStream()),
    );
  }
}

function listPage(own: readonly (readonly [path: string, text: string])[]): string {
  const items = own.map(([path, text]) => {
    // Actions are sent by POST: a link would lead to a 404.
    const name = path === '/-/actions' ? path : `<a href="${path}">${path}</a>`;
    return `<dt>${name}</dt><dd>${text}</dd>`;
  });
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Operator</title>
<meta name="color-scheme" content="light dark"><h1>Operator's interface</h1>
<dl>${items.join('\n')}</dl></html>`;
}

/** The loss that a commit to each store survives, by name; undefined if there is no store. */
function durabilityOf(panel: Panel): object | undefined {
  const told = [...panel.read()].flatMap(([name, { stats }]) => {
    const { durability } = Object(stats);
    return typeof durability === 'string' ? [[name, durability]] : [];
  });
  return told.length > 0 ? Object.fromEntries(told) : undefined;
}

function unreadyOf(parts: readonly Part[]): readonly Part[] {
  return parts.filter(({ ready }) => ready === false);
}

function shownConfig({ values, shown }: ShownConfig = { values: {}, shown: [] }): object {
  const names = Object.keys(values);
  const isSet = (value: unknown) => value !== undefined && value !== null && value !== '';
  return Object.fromEntries(
    names.map((name) => {
      const value = values[name];
      if (shown.includes(name)) return [name, plain(value) ?? null];
      return [name, isSet(value) ? '(set)' : null];
    }),
  );
}

function withToken(handler: RequestListener, token: string): RequestListener {
  // Hashes are compared: they have equal lengths, and the token itself is not kept.
  const expected = hash('sha256', token, 'buffer');
  return (request: IncomingMessage, response) => {
    const [, sent = ''] = /^bearer +(\S+) *$/i.exec(request.headers.authorization ?? '') ?? [];
    if (timingSafeEqual(hash('sha256', sent, 'buffer'), expected)) {
      handler(request, response);
      return;
    }
    const { code, status, message } = httpError('OPERATOR_ONLY', 'the token is not the right one');
    response.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
    response.end(JSON.stringify({ ok: false, error: { code, message } }));
  };
}
