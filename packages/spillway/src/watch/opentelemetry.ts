import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import {
  type Attributes,
  type BatchObservableResult,
  context,
  type Histogram,
  type Meter,
  metrics,
  type Observable,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { systemClock } from '../base/clock.ts';
import { field } from '../base/failure.ts';
import { instance, maybe, settle } from '../base/options.ts';
import { told } from '../base/tell.ts';
import { type Traced, type Tracer, tracing } from '../base/trace.ts';
import type { MetricFamily } from './exposition.ts';
import { partMetrics } from './metrics.ts';
import { Panel } from './panel.ts';

export interface TelemetryOptions {
  /** Parts whose numbers are sent as metrics. @default none */
  readonly panel?: Panel | undefined;
}

/** The buckets of durations in seconds that the semantic conventions advise. */
const boundaries = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
/** Channel on which Fastify publishes the route of a request. */
const fastifyChannel = 'tracing:fastify.request.handler:start';
/** Methods that may be the value of an attribute; others are `_OTHER`. */
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH'];

/**
 * Sends traces and metrics to the OpenTelemetry SDK that the process has set up: spans for requests
 * of a `Listener` or a server of `spillway-http`, waits in a lane, tasks of a pool, commits of a
 * store and calls by `outbound`; `traceparent` is read from requests and sent with calls. Call it
 * before servers start; disposing the result ends the tracing.
 */
export function openTelemetry(options: TelemetryOptions = {}): Disposable {
  const { panel } = settle('openTelemetry', options, {
    panel: maybe(instance((value) => value instanceof Panel, 'a Panel')),
  });
  const tracer = new TelemetryTracer();
  const stopObserving = panel && observe(panel);
  const note = (message: unknown, channel: string | symbol): void => noteEvent(message, channel);
  const { refused, opened, closed, retried } = told;
  const channels = [refused, opened, closed, retried].map(({ name }) => name);
  for (const channel of channels) subscribe(channel, note);
  subscribe(fastifyChannel, tracer.noteRoute);
  tracing.tracer = tracer;
  return {
    [Symbol.dispose]: () => {
      if (tracing.tracer === tracer) tracing.tracer = undefined;
      unsubscribe(fastifyChannel, tracer.noteRoute);
      for (const channel of channels) unsubscribe(channel, note);
      stopObserving?.();
    },
  };
}

/** Adds an event to the span that is active where a part publishes on a channel. */
function noteEvent(message: unknown, channel: string | symbol): void {
  const attributes: Attributes = {};
  for (const name of ['attempts', 'waitMs'] as const) {
    const value = field(message, name);
    if (typeof value === 'number') attributes[`spillway.${name}`] = value;
  }
  const code = field(field(message, 'error'), 'code');
  if (typeof code === 'string') attributes['error.type'] = code;
  trace.getActiveSpan()?.addEvent(String(channel).replace(':', '.'), attributes);
}

class TelemetryTracer implements Tracer {
  readonly #tracer = trace.getTracer('spillway');
  readonly #served = duration('http.server.request.duration');
  readonly #sent = duration('http.client.request.duration');
  readonly #committed = duration('db.client.operation.duration');
  readonly #routes = new WeakMap<object, string>();

  /** Notes the route that Fastify has found for a request. */
  readonly noteRoute = (message: unknown): void => {
    const raw = field(field(message, 'request'), 'raw');
    const route = field(field(message, 'route'), 'url');
    if (typeof raw === 'object' && raw && typeof route === 'string') this.#routes.set(raw, route);
  };

  span<T>({ name, attributes }: Traced, work: () => Promise<T>): Promise<T> {
    const isCommit = name === 'store.commit';
    const kind = isCommit ? SpanKind.CLIENT : SpanKind.INTERNAL;
    const record = isCommit ? this.#committed : undefined;
    return this.#tracer.startActiveSpan(`spillway.${name}`, { kind, attributes }, (span) =>
      within(span, attributes, record, work),
    );
  }

  send(
    request: Request,
    resends: number,
    work: (request: Request) => Promise<Response>,
  ): Promise<Response> {
    const { hostname, port, protocol, href } = withoutSecrets(request.url);
    const method = methodOf(request.method);
    const common: Attributes = {
      'http.request.method': method,
      'server.address': hostname,
      'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
    };
    const attributes: Attributes = { ...common, 'url.full': href };
    if (resends > 0) attributes['http.request.resend_count'] = resends;
    const kind = SpanKind.CLIENT;
    return this.#tracer.startActiveSpan(method, { kind, attributes }, (span) =>
      within(span, common, this.#sent, async () => {
        propagation.inject(context.active(), request.headers, {
          set: (headers, name, value) => headers.set(name, value),
        });
        const response = await work(request);
        answered(span, common, response.status, 400);
        return response;
      }),
    );
  }

  listen(server: Server): void {
    const emit = server.emit.bind(server);
    server.emit = (event: string, ...args: unknown[]): boolean => {
      // A span that is active here is that of another instrumentation of the server.
      if (event !== 'request' || trace.getActiveSpan() !== undefined) return emit(event, ...args);
      const [req, res] = args as [IncomingMessage, ServerResponse];
      return this.#serve(req, res, () => emit(event, ...args));
    };
  }

  #serve(req: IncomingMessage, res: ServerResponse, work: () => boolean): boolean {
    const method = methodOf(req.method ?? 'GET');
    const startedAt = systemClock.now();
    const common: Attributes = { 'http.request.method': method, 'url.scheme': 'http' };
    const [path = '/'] = (req.url ?? '/').split('?');
    const parent = propagation.extract(ROOT_CONTEXT, req.headers);
    const attributes = { ...common, 'url.path': path };
    const span = this.#tracer.startSpan(method, { kind: SpanKind.SERVER, attributes }, parent);
    res.once('close', () => {
      const route = this.#routes.get(req) ?? expressRoute(req);
      if (route !== undefined) {
        common['http.route'] = route;
        span.setAttribute('http.route', route).updateName(`${method} ${route}`);
      }
      if (res.headersSent) answered(span, common, res.statusCode, 500);
      else fail(span, common, 'client_gone');
      this.#served.record((systemClock.now() - startedAt) / 1000, common);
      span.end();
    });
    return context.with(trace.setSpan(parent, span), work);
  }
}

/** Ends the span with the work, and records how long it took. */
async function within<T>(
  span: Span,
  attributes: Attributes,
  histogram: Histogram | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const startedAt = systemClock.now();
  try {
    return await work();
  } catch (error) {
    const code = field(error, 'code');
    const name = field(error, 'name');
    fail(span, attributes, typeof code === 'string' ? code : String(name ?? '_OTHER'));
    throw error;
  } finally {
    histogram?.record((systemClock.now() - startedAt) / 1000, attributes);
    span.end();
  }
}

function fail(span: Span, attributes: Attributes, type: string): void {
  attributes['error.type'] = type;
  span.setAttribute('error.type', type).setStatus({ code: SpanStatusCode.ERROR });
}

function answered(span: Span, attributes: Attributes, status: number, failsFrom: number): void {
  attributes['http.response.status_code'] = status;
  span.setAttribute('http.response.status_code', status);
  if (status >= failsFrom) fail(span, attributes, String(status));
}

function duration(name: string): Histogram {
  const advice = { explicitBucketBoundaries: boundaries };
  return metrics.getMeter('spillway').createHistogram(name, { unit: 's', advice });
}

function methodOf(method: string): string {
  return methods.includes(method) ? method : '_OTHER';
}

/** The address without name, password, fragment and the values of its query. */
function withoutSecrets(address: string): URL {
  const url = new URL(address);
  url.username = '';
  url.password = '';
  url.hash = '';
  const pairs = url.search.slice(1).split('&');
  const redacted = pairs.map((pair) => pair.replace(/^([^=]*=)?.*$/, '$1REDACTED'));
  if (url.search !== '') url.search = redacted.join('&');
  return url;
}

/** The route that Express has found for a request. */
function expressRoute(req: IncomingMessage): string | undefined {
  const path = field(field(req, 'route'), 'path');
  return typeof path === 'string' ? `${field(req, 'baseUrl') ?? ''}${path}` : undefined;
}

/** Makes the numbers of the panel's parts observable: `spillway.lane.inside` and so on. */
function observe(panel: Panel): () => void {
  const meter = metrics.getMeter('spillway');
  const known = new Map<string, Observable>();
  let registered: Observable[] = [];
  const register = (): void => {
    meter.removeBatchObservableCallback(collect, registered);
    registered = [...known.values()];
    meter.addBatchObservableCallback(collect, registered);
  };
  const collect = (result: BatchObservableResult): void => {
    const before = known.size;
    for (const family of partMetrics(panel.read())) {
      const instrument = known.get(family.name);
      if (instrument === undefined) known.set(family.name, instrumentOf(meter, family));
      else
        for (const { labels, value } of family.samples) {
          result.observe(instrument, value, prefixed(labels));
        }
    }
    // A part that was added to the panel is observed from the next collection on.
    if (known.size > before) queueMicrotask(register);
  };
  collect({ observe() {} });
  return () => meter.removeBatchObservableCallback(collect, registered);
}

/** Names a metric by the semantic conventions: dots, the unit apart, no `_total`. */
function instrumentOf(meter: Meter, { name, type, samples }: MetricFamily): Observable {
  const [kind = 'part'] = Object.keys(samples[0]?.labels ?? {});
  const unit = /_seconds(_|$)/.test(name) ? 's' : '1';
  const dotted = name
    .replace(`spillway_${kind}_`, `spillway.${kind}.`)
    .replace(/_total$|_seconds(?=_|$)/g, '');
  if (type === 'counter') return meter.createObservableCounter(dotted, { unit });
  return meter.createObservableGauge(dotted, { unit });
}

function prefixed(labels: Readonly<Record<string, string>>): Attributes {
  const entries = Object.entries(labels).map(([name, text]) => [`spillway.${name}`, text]);
  return Object.fromEntries(entries);
}
